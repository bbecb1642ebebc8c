"""A server that this side starts: only with the host's word for that exact command, in its folder, with its
variables.

A definition cannot grant execution; a host-owned authority can. It is asked before any variable is read
(A32).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from robot_mcp_kit.client.definitions import Definition
from robot_mcp_kit.client.materializing import Materialized
from robot_mcp_kit.client.refusals import FailureClass, Refusal, RefusedError

logger = logging.getLogger(__name__)

EXIT_GRACE_S = 2.0
"""For a server to end by itself once its input is closed; then SIGTERM, then SIGKILL, each after as long."""


@dataclass(frozen=True, slots=True)
class StdioAuthority:
    """What the host lets be started.

    Args:
        root: servers run in it or below; a definition without ``cwd`` runs in it, never where this process
        happens
            to be.
        commands: command lines that may run, exactly as definitions write them, word by word, variables
        unfilled. path: the ``PATH`` that servers get unless their definition sets one.
    """

    root: Path
    commands: Collection[Sequence[str]] = field(repr=False)
    path: str = "/usr/local/bin:/usr/bin:/bin"

    def check(self, definition: Definition) -> None:
        """Judge the command line as written.

        Raises:
            RefusedError: it is not among the commands.
        """
        argv = [definition.command, *definition.args]
        if not any(list(allowed) == argv for allowed in self.commands):
            raise _refused(
                definition.name,
                "command_not_allowed",
                "command",
                "this host does not allow this command line",
            )

    def folder(self, server: Materialized) -> Path:
        """Where the server runs.

        Raises:
            RefusedError: outside the root, by ``..`` or a symlink too, or no folder.
        """
        try:
            root = self.root.resolve(strict=True)
        except OSError:
            raise _refused(server.name, "bad_root", "cwd", "this host's root folder is not there") from None
        if server.cwd is None:
            return root
        text = server.cwd.text
        if "\0" in text or ".." in Path(text).parts:
            raise _refused(server.name, "bad_cwd", "cwd", "must not contain '..' or NUL")
        try:
            folder = (root / text).resolve(strict=True)
        except (OSError, ValueError):
            raise _refused(server.name, "bad_cwd", "cwd", "is not there") from None
        if not folder.is_dir():
            raise _refused(server.name, "bad_cwd", "cwd", "is not a folder")
        if not folder.is_relative_to(root):
            raise _refused(server.name, "cwd_outside", "cwd", "leads out of the folder that this host allows")
        return folder

    def environment(self, server: Materialized) -> dict[str, str]:
        """All that the server gets: nothing of this process's own leaks in."""
        shadowed = dict.fromkeys(DEFAULT_INHERITED_ENV_VARS, "")
        return {**shadowed, "PATH": self.path, **{key: value.text for key, value in server.env.items()}}


@contextlib.asynccontextmanager
async def guarded_stdio(
    server: Materialized,
    authority: StdioAuthority,
    *,
    recheck: Callable[[], Refusal | None],
    max_message_bytes: int,
    on_problem: Callable[[Refusal], None],
) -> AsyncIterator[Any]:
    """Start a server and give the streams of the SDK's session over its input and output.

    Args:
        server: what to start.
        authority: says whether and where.
        recheck: asked just before the start whether it may still run.
        max_message_bytes: most of one line; more ends the session before anything is parsed.
        on_problem: told of what ended the session.

    Raises:
        RefusedError: it was not started.
    """
    authority.check(server.definition)
    environment = authority.environment(server)
    argv = [server.command.text, *(arg.text for arg in server.args)]
    if (refusal := recheck()) is not None:
        raise RefusedError(refusal)
    # The last look before the start. The file system can still change in between; this narrows it only.
    folder = authority.folder(server)
    process = await _spawn(server.name, argv, environment, folder, max_message_bytes)
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    reading = asyncio.create_task(_read(process, to_session, server.name, on_problem))
    writing = asyncio.create_task(_write(process, from_session, to_session))
    try:
        yield from_server, to_server
    finally:
        from_server.close()
        to_server.close()
        ending = asyncio.ensure_future(_end(process, server.name, writing, reading))
        with anyio.CancelScope(shield=True):
            await asyncio.shield(ending)
        to_session.close()
        from_session.close()


async def _spawn(
    name: str, argv: list[str], environment: Mapping[str, str], folder: Path, limit: int
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # taken and not shown: nobody knows what is in it
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            limit=limit,
        )
    except FileNotFoundError:
        raise _refused(name, "command_not_found", "command", "is not there", FailureClass.NOT_FOUND) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not usable"
        raise _refused(name, "command_not_started", "command", f"could not be started: {reason}") from None


async def _read(
    process: asyncio.subprocess.Process, to_session: Any, name: str, on_problem: Callable[[Refusal], None]
) -> None:
    assert process.stdout is not None  # noqa: S101  it was started with a pipe
    async with to_session:
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                on_problem(Refusal("response_too_large", "a message beyond the bound", name))
                break
            if not line:
                break
            if not line.strip():
                continue
            try:
                message: SessionMessage | Exception = SessionMessage(
                    jsonrpc_message_adapter.validate_json(line, by_name=False)
                )
            except ValueError:
                # Not the parser's words: they quote what the server wrote.
                message = ValueError(f"{name} wrote a line that is no message")
            try:
                await to_session.send(message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                break


async def _write(process: asyncio.subprocess.Process, from_session: Any, to_session: Any) -> None:
    assert process.stdin is not None  # noqa: S101  it was started with a pipe
    try:
        async with from_session:
            async for one in from_session:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        # Nobody reads any more: let the session see the end instead of waiting for an answer.
        to_session.close()


async def _end(
    process: asyncio.subprocess.Process,
    name: str,
    writing: asyncio.Task[None],
    reading: asyncio.Task[None],
) -> None:
    """Close its input, wait, ask, kill; the child itself is gone within a bound, its own children are its
    own.
    """
    await asyncio.wait({writing}, timeout=0.5)
    for task in (writing, reading):
        task.cancel()
    await asyncio.gather(writing, reading, return_exceptions=True)
    assert process.stdin is not None  # noqa: S101  it was started with a pipe
    process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        if await _gone(process):
            break
    else:
        logger.error("the server %s (process %d) could not be ended", name, process.pid)
    # Or its pipes stay open for as long as a grandchild holds them.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _gone(process: asyncio.subprocess.Process) -> bool:
    deadline_s = asyncio.get_running_loop().time() + EXIT_GRACE_S
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline_s:
            return False
        # process.wait() would also wait for pipes that a grandchild may hold.
        await asyncio.sleep(0.01)
    return True


def _refused(
    server: str, code: str, field: str, message: str, failure_class: FailureClass = FailureClass.CONFIG
) -> RefusedError:
    return RefusedError(Refusal(code, message, server, field, failure_class))
