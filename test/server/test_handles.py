"""Handles: unguessable, told apart when unknown and when expired, with a retention that holds."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.server.handles import HandleError, Handles, load_key, new_key
from robot_mcp_kit.tasks import TaskContext, TaskManager
from robot_mcp_kit.testing import CollectingPoster, FakeClock

KEY = bytes(range(32))


async def _quick(_: TaskContext) -> dict[str, Any]:
    return {}


async def _forever(_: TaskContext) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


def _make(clock: FakeClock, *, keep: int = 200, retention_s: float = 60.0) -> Handles:
    manager = TaskManager("robot", CollectingPoster(), wall_clock=clock.wall, max_finished_retained=keep)
    return Handles(manager, key=KEY, retention_s=retention_s, wall_clock=clock.wall)


async def test_a_handle_finds_its_task_and_only_its_own() -> None:
    """L10 L18."""
    handles = _make(FakeClock())
    infos = [handles.manager.start("spin", _quick) for _ in range(50)]
    minted = [handles.mint(info.task_id) for info in infos]
    assert len(set(minted)) == 50
    assert [handles.find(handle).task_id for handle in minted] == [info.task_id for info in infos]
    await handles.manager.aclose()


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h[:-1] + ("A" if h[-1] != "A" else "B"),
        lambda h: h.removeprefix("motion-"),
        lambda h: h.split(".")[0],
        lambda h: "motion-robo-aaaaaa." + h.split(".")[1],
        lambda h: "",
        lambda h: "motion-.",
        lambda h: h + "é",
    ],
)
async def test_a_handle_that_was_never_given_out_is_unknown(change: Any) -> None:
    """L16 L18: 160 bits of signature; another task's signature does not do."""
    handles = _make(FakeClock())
    handle = handles.mint(handles.manager.start("spin", _quick).task_id)
    with pytest.raises(HandleError) as error:
        handles.find(change(handle))
    assert error.value.code == "HANDLE_UNKNOWN"
    assert "moved nothing" in error.value.message
    await handles.manager.aclose()


async def test_a_task_id_in_place_of_a_handle_is_told() -> None:
    """L16."""
    handles = _make(FakeClock())
    info = handles.manager.start("spin", _quick)
    with pytest.raises(HandleError, match="That is a task_id"):
        handles.find(info.task_id)
    await handles.manager.aclose()


async def test_a_handle_answers_until_its_stated_time_and_not_after() -> None:
    """L15 L17: at the boundary, by the clock."""
    clock = FakeClock()
    handles = _make(clock, retention_s=60.0)
    info = handles.manager.start("spin", _quick)
    await handles.manager.wait(info.task_id)
    handle = handles.mint(info.task_id)
    assert "60 seconds" in handles.policy
    await clock.advance(60.0)
    assert handles.find(handle).state == "succeeded"
    await clock.advance(0.01)
    with pytest.raises(HandleError) as error:
        handles.find(handle)
    assert error.value.code == "HANDLE_EXPIRED"
    assert "moved nothing" in error.value.message


async def test_the_handle_of_a_running_motion_does_not_expire() -> None:
    """L19."""
    clock = FakeClock()
    handles = _make(clock, retention_s=60.0)
    info = handles.manager.start("spin", _forever)
    await clock.advance(1e6)
    assert handles.find(handles.mint(info.task_id)).state == "running"
    assert handles.expires_at(info) is None
    await handles.manager.aclose()


async def test_a_task_that_was_forgotten_for_newer_ones_has_expired_and_is_not_unknown() -> None:
    """L16."""
    handles = _make(FakeClock(), keep=1)
    first, second = (handles.manager.start("spin", _quick) for _ in range(2))
    for info in (first, second):
        await handles.manager.wait(info.task_id)
    with pytest.raises(HandleError) as error:
        handles.find(handles.mint(first.task_id))
    assert error.value.code == "HANDLE_EXPIRED"
    assert handles.find(handles.mint(second.task_id)).state == "succeeded"


async def test_after_a_restart_without_a_kept_key_the_outcome_is_said_to_be_unknown() -> None:
    """L20."""
    clock = FakeClock()
    before = _make(clock)
    handle = before.mint(before.manager.start("spin", _quick).task_id)
    after = Handles(TaskManager("robot", CollectingPoster()), key=new_key())
    with pytest.raises(HandleError) as error:
        after.find(handle)
    assert error.value.code == "HANDLE_UNKNOWN"
    assert "not known" in error.value.message
    await before.manager.aclose()


def test_a_kept_key_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "state" / "handles.key"
    key = load_key(file)
    assert load_key(file) == key
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "zz", "00"])
def test_a_file_that_holds_no_key_is_told(text: str, tmp_path: Path) -> None:
    file = tmp_path / "handles.key"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="key"):
        load_key(file)


def test_a_retention_must_be_some_time() -> None:
    with pytest.raises(ValueError, match="retention_s"):
        Handles(TaskManager("robot", CollectingPoster()), retention_s=0)
