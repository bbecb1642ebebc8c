"""Servers that this side starts: only with the host's word, and never left running (A32, A33, A34)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.client import stdio_transport
from robot_mcp_kit.client.activation import Admission
from robot_mcp_kit.client.admitting import Host
from robot_mcp_kit.client.calling import CallFailed
from robot_mcp_kit.client.failures import Backoff
from robot_mcp_kit.client.materializing import Materialized
from robot_mcp_kit.client.refusals import FailureClass, Refusal, RefusedError
from robot_mcp_kit.client.sources import Tier
from robot_mcp_kit.client.stdio_transport import StdioAuthority
from robot_mcp_kit.client.supervisor import ServerSupervisor, Supervisor
from robot_mcp_kit.testing import assert_eventually

from .hostile import resolution

SERVER = str(Path(__file__).with_name("stdio_server.py"))


class Yes(Admission):
    """Admits so many times."""

    def __init__(self, times: int = 1000) -> None:
        self.left = times

    def admit(self, server: Materialized, tier: Tier, origin: str) -> Refusal | None:
        self.left -= 1
        return None if self.left >= 0 else Refusal("revoked", "has been taken back", server.name)


class Watched(Mapping[str, str]):
    """An environment that tells who was asked for."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values_by_name = values
        self.read: list[str] = []

    def __getitem__(self, name: str) -> str:
        self.read.append(name)
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the environment as a whole is nobody's business")

    def __len__(self) -> int:
        return 1


@contextlib.asynccontextmanager
async def starting(
    root: Path,
    *,
    mode: str = "good",
    allowed: list[list[str]] | None = None,
    environment: Mapping[str, str] | None = None,
    admission: Admission | None = None,
    max_bytes: int = 1_000_000,
    **entry: Any,
) -> AsyncIterator[ServerSupervisor]:
    argv = [sys.executable, SERVER, mode]
    host = Host(
        admission or Yes(),
        environment=environment or {},
        authority=StdioAuthority(root, allowed if allowed is not None else [argv]),
        max_response_bytes=max_bytes,
    )
    entry = {"command": argv[0], "args": argv[1:]} | entry
    supervisor = Supervisor(resolution(arm=entry), host, backoff=Backoff(attempts=1))
    try:
        yield supervisor["arm"]
    finally:
        await supervisor.aclose()


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


async def refusal(arm: ServerSupervisor) -> Refusal:
    with pytest.raises(RefusedError) as caught:
        await arm.connected()
    return caught.value.refusal


async def test_an_allowed_server_runs_in_the_root_with_its_own_variables_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A32: absent cwd is the root; nothing of this process leaks in; no shell reads its words."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("SECRET_OF_THIS_PROCESS", "x")
    argv = [sys.executable, SERVER, "good", "$(touch pwned); `id` > x"]
    async with starting(
        tmp_path, allowed=[argv], args=argv[1:], env={"NAME": "${WHO}"}, environment={"WHO": "me"}
    ) as arm:
        told = (await arm.call("where", {})).content()
    assert told["cwd"] == str(tmp_path)
    assert told["env"]["NAME"] == "me"
    assert told["env"]["HOME"] == ""
    assert "SECRET_OF_THIS_PROCESS" not in told["env"]
    assert told["argv"] == argv[2:]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "change",
    [
        {"args": [SERVER, "good", "--more"]},
        {"args": [SERVER]},
        {"args": [SERVER, "good "]},
        {"args": [f"{SERVER} good"]},
        {"command": "/bin/sh"},
        {"command": "${PYTHON}"},
    ],
)
async def test_a_command_line_that_is_not_exactly_allowed_is_refused_before_a_variable_is_read(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """A32."""
    environment = Watched({"PYTHON": sys.executable, "TOKEN": "x"})
    async with starting(tmp_path, environment=environment, env={"T": "${TOKEN}"}, **change) as arm:
        told = await refusal(arm)
    assert told.code == "command_not_allowed"
    assert environment.read == []


async def test_without_an_authority_nothing_is_started(tmp_path: Path) -> None:
    """A32."""
    environment = Watched({"TOKEN": "x"})
    host = Host(Yes(), environment=environment)
    supervisor = Supervisor(
        resolution(arm={"command": sys.executable, "args": [SERVER], "env": {"T": "${TOKEN}"}}), host
    )
    assert (await refusal(supervisor["arm"])).code == "no_authority"
    assert environment.read == []
    await supervisor.aclose()


@pytest.mark.parametrize(
    ("cwd", "code"),
    [
        ("..", "bad_cwd"),
        ("inside/../..", "bad_cwd"),
        ("inside/..", "bad_cwd"),
        ("/", "cwd_outside"),
        ("link-out", "cwd_outside"),
        ("inside/link-out", "cwd_outside"),
        ("nowhere", "bad_cwd"),
        ("file", "bad_cwd"),
    ],
)
async def test_a_folder_outside_the_root_is_refused(tmp_path: Path, cwd: str, code: str) -> None:
    """A32: symlinks too."""
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (root / "file").write_text("")
    (root / "link-out").symlink_to(tmp_path)
    (root / "inside" / "link-out").symlink_to("/tmp")
    async with starting(root, cwd=cwd) as arm:
        assert (await refusal(arm)).code == code


async def test_folders_inside_the_root_are_allowed_by_symlink_too(tmp_path: Path) -> None:
    """A32."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "link").symlink_to("inside")
    for cwd in ("inside", "link", str(tmp_path / "inside"), "."):
        async with starting(tmp_path, cwd=cwd) as arm:
            told = (await arm.call("where", {})).content()
            assert told["cwd"] == str((tmp_path / cwd).resolve())


async def test_an_approval_that_is_taken_back_before_the_start_prevents_it(tmp_path: Path) -> None:
    """A32: asked once when admitted and once more just before the start."""
    async with starting(tmp_path, admission=Yes(times=1)) as arm:
        assert (await refusal(arm)).code == "revoked"


async def test_a_folder_that_is_swapped_for_a_way_out_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A32: the folder is judged after the last decision, just before the start."""
    (tmp_path / "root" / "work").mkdir(parents=True)

    class Swapping(Yes):
        def admit(self, server: Materialized, tier: Tier, origin: str) -> Refusal | None:
            if self.left == 999:
                (tmp_path / "root" / "work").rmdir()
                (tmp_path / "root" / "work").symlink_to(tmp_path)
            return super().admit(server, tier, origin)

    async with starting(tmp_path / "root", cwd="work", admission=Swapping()) as arm:
        assert (await refusal(arm)).code == "cwd_outside"


async def test_a_command_that_is_not_there_is_not_found_and_not_tried_again(tmp_path: Path) -> None:
    """A21."""
    argv = ["/nowhere/python", "x"]
    async with starting(tmp_path, allowed=[argv], command=argv[0], args=argv[1:]) as arm:
        told = await refusal(arm)
        assert (told.code, told.failure_class) == ("command_not_found", FailureClass.NOT_FOUND)
        assert arm.connects == 1


async def test_what_a_server_writes_to_stderr_is_taken_and_shown_nowhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A32: also a megabyte of it does not block the server."""
    caplog.set_level("DEBUG")
    async with starting(tmp_path, mode="chatty") as arm:
        assert (await arm.catalog()).complete
        with pytest.raises(CallFailed) as caught:
            await arm.call("die", {})
        assert caught.value.sent
    out, err = capfd.readouterr()
    for text in (out, err, caplog.text, str(caught.value)):
        assert "s3cr3t-on-stderr" not in text
        assert "xxxxxxxx" not in text


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_giving_up_an_active_request_ends_the_server(tmp_path: Path, how: str) -> None:
    """A33: nothing tells whether it would have stopped working."""
    async with starting(tmp_path) as arm:
        pid = (await arm.call("where", {})).content()["pid"]
        if how == "timeout":
            with pytest.raises(CallFailed) as caught:
                await arm.call("hang", {}, timeout_s=0.2)
            assert caught.value.sent
        else:
            calling = asyncio.create_task(arm.call("hang", {}))
            await asyncio.sleep(0.1)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
        await assert_eventually(lambda: not alive(pid))
        assert (await arm.call("where", {})).content()["pid"] != pid


async def test_a_server_that_dies_in_a_call_is_started_again_for_the_next_one_only(tmp_path: Path) -> None:
    """A22."""
    async with starting(tmp_path) as arm:
        with pytest.raises(CallFailed):
            await arm.call("die", {})
        assert arm.connects == 1
        await arm.call("where", {})
        assert arm.connects == 2


async def test_a_message_beyond_the_bound_ends_the_session_before_it_is_parsed(tmp_path: Path) -> None:
    """A34."""
    async with starting(tmp_path, max_bytes=100_000) as arm:
        with pytest.raises(CallFailed) as caught:
            await asyncio.wait_for(arm.call("flood", {}), 30)
        assert caught.value.reason == "response_too_large"
        await arm.call("where", {})


async def test_a_line_that_is_no_message_does_no_harm(tmp_path: Path) -> None:
    async with starting(tmp_path) as arm:
        await arm.call("spam", {})


@pytest.mark.parametrize("mode", ["good", "stubborn"])
async def test_closing_leaves_no_process_whatever_the_server_does(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A32, A36: closed within a bound, killed if need be."""
    monkeypatch.setattr(stdio_transport, "EXIT_GRACE_S", 0.2)
    async with starting(tmp_path, mode=mode) as arm:
        pid = (await arm.call("where", {})).content()["pid"]
        assert alive(pid)
        await asyncio.wait_for(arm.aclose(), 30)
        assert not alive(pid)
