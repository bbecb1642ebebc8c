"""Child processes of the demo: started with a log file each, ended on every path, by their own process id."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

_KINDNESS_S = 5.0
_TAIL_LINES = 12


class ChildError(Exception):
    """A child process did not do its part; the message names it and its log."""


class Child:
    """One running child process whose standard output is read line by line."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    async def lines(self) -> AsyncIterator[str]:
        """Standard output, line by line, until the child ends."""
        stream = self.process.stdout
        if stream is None:
            raise RuntimeError(f"{self.name} was started without a pipe")
        while line := await stream.readline():
            yield line.decode("utf-8", "replace").rstrip("\n")

    async def wait_for_line(self, prefix: str, timeout_s: float) -> str:
        """The first line that starts with ``prefix``, without it.

        Raises:
            ChildError: the child ended, or said nothing of the kind in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                async for line in self.lines():
                    if line.startswith(prefix):
                        return line[len(prefix) :].strip()
                code = await self.process.wait()
        except TimeoutError:
            raise ChildError(f"the {self.name} was not ready within {timeout_s:g} s.{self.tail()}") from None
        raise ChildError(f"the {self.name} ended with exit code {code} before it was ready.{self.tail()}")

    def tail(self) -> str:
        """The end of its log, for an error message."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
            if lines:
                return f" End of {self.log}:\n  " + "\n  ".join(lines)
        return f" Its log is {self.log}."

    async def end(self) -> None:
        """Interrupt, then terminate, then kill; returns when it is gone."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self.process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                # communicate() and not wait(): a child that still writes must not block on a full pipe.
                await asyncio.wait_for(self._gone(), _KINDNESS_S)

    async def _gone(self) -> None:
        stream = self.process.stdout
        if stream is not None:
            while await stream.read(65536):
                pass
        await self.process.wait()


class Guardian:
    """A process that ends our children if we are killed. See :mod:`robot_mcp_kit.cli.demo.guardian`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def watch(self, pid: int) -> None:
        """End this process too when we are gone."""
        self._write(f"{pid}\n")

    def _write(self, line: str) -> None:
        if self._process.stdin is not None and self._process.returncode is None:
            self._process.stdin.write(line.encode())

    async def end(self) -> None:
        """Say that all children have been ended; none is touched."""
        self._write("done\n")
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


@contextlib.asynccontextmanager
async def guardian() -> AsyncIterator[Guardian]:
    """A guardian for as long as the block runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "robot_mcp_kit.cli.demo.guardian"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    running = Guardian(process)
    try:
        yield running
    finally:
        await asyncio.shield(asyncio.ensure_future(running.end()))


@contextlib.asynccontextmanager
async def child(
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    guarded_by: Guardian | None = None,
    stdin_pipe: bool = False,
) -> AsyncIterator[Child]:
    """Start a child; it is ended when the block ends, however it ends.

    Args:
        name: for messages, ``bridge``.
        argv: program and arguments; no shell.
        env: its whole environment.
        log: file that takes its standard error.
        guarded_by: who ends it when we are killed.
        stdin_pipe: whether we write to its standard input; otherwise it reads nothing.
    """
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=dict(env),
            stdin=asyncio.subprocess.PIPE if stdin_pipe else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            # Its own session: Ctrl-C at the terminal reaches the demo alone, which then ends its children
            # in order.
            start_new_session=True,
        )
    running = Child(name, process, log)
    if guarded_by is not None:
        guarded_by.watch(process.pid)
    try:
        yield running
    finally:
        # Shielded: the demo itself may be in the middle of being cancelled.
        await asyncio.shield(asyncio.ensure_future(running.end()))
