"""Command-line processes for tests: started from this tree, read line by line, ended by their own id."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Running:
    """A child whose standard output can be waited on with a bound."""

    def __init__(
        self, argv: Sequence[str], env: dict[str, str] | None = None, script: str | None = None
    ) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(env or {})}
        self.process = subprocess.Popen(
            [sys.executable, *([str(ROOT / script)] if script else ["-m", "robot_mcp_kit"]), *argv],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_out, daemon=True),
            threading.Thread(target=self._read_err, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line.rstrip("\n"))

    def line(self, timeout_s: float = 20.0) -> str:
        """The next line of standard output."""
        try:
            line = self.lines.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"no line within {timeout_s} s; stderr: {self.errors}") from None
        assert line is not None, f"ended; stderr: {self.errors}"
        return line

    def line_with(self, text: str, timeout_s: float = 20.0) -> str:
        """The next line that contains ``text``."""
        while text not in (line := self.line(timeout_s)):
            pass
        return line

    def rest(self) -> list[str]:
        """What is left of standard output after the end."""
        rest: list[str] = []
        while (line := self.lines.get(timeout=20)) is not None:
            rest.append(line)
        return rest

    def interrupt(self) -> int:
        """SIGINT, and the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        for reader in self._readers:
            reader.join(timeout=5)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _starter() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*argv: str, env: dict[str, str] | None = None, script: str | None = None) -> Running:
        started.append(Running(argv, env, script))
        return started[-1]

    yield start
    for process in started:
        process.close()


@pytest.fixture
def start_cli() -> Iterator[Callable[..., Running]]:
    """Start ``robot-mcp-kit`` (or a ``script`` of this tree); everything started is ended after the test."""
    yield from _starter()


@pytest.fixture(scope="module")
def start_cli_for_module() -> Iterator[Callable[..., Running]]:
    """The same, ended after the module's last test."""
    yield from _starter()
