"""What a model is told of a motion: sentences made from the same fields that go out as structured content.

The sentences are built from the structure, never beside it, so the two cannot disagree (L5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.types import CallToolResult, TextContent
from pydantic import Field

from robot_mcp_kit.jsonsafe import dumps
from robot_mcp_kit.models import TaskInfo, UtcTime
from robot_mcp_kit.server.handles import Handles

WORLD = "world"
"""Key in a task's progress: the robot and its objects as measured after the end."""


class MotionAnswer(TaskInfo):
    """The contract's TaskInfo, and how to come back to it."""

    handle: str = Field(description="Give it to await_task. Opaque; valid as handle_policy says.")
    handle_policy: str
    handle_expires_at: UtcTime | None = Field(
        description="null while the motion runs: then it does not expire."
    )
    started_now: bool = Field(
        description="false: this call started nothing; the answer is about a motion that was started earlier."
    )


def started(info: TaskInfo, handles: Handles, *, started_now: bool) -> CallToolResult:
    """The answer to a call that begins a motion: the contract's JSON, then a sentence."""
    answer = _answer(info, handles, started_now)
    return CallToolResult(
        content=[
            TextContent(type="text", text=info.model_dump_json()),
            TextContent(type="text", text=sentence(answer)),
        ],
        structured_content=answer.model_dump(mode="json"),
    )


def outcome(info: TaskInfo, handles: Handles, *, started_now: bool = False) -> CallToolResult:
    """The answer to whoever waits: how it ended, or that it still runs. A robot's failure is flagged (L7)."""
    answer = _answer(info, handles, started_now)
    return CallToolResult(
        content=[TextContent(type="text", text=sentence(answer))],
        structured_content=answer.model_dump(mode="json"),
        is_error=info.state in ("failed", "cancelled"),
    )


def _answer(info: TaskInfo, handles: Handles, started_now: bool) -> MotionAnswer:
    return MotionAnswer(
        **info.model_dump(),
        handle=handles.mint(info.task_id),
        handle_policy=handles.policy,
        handle_expires_at=handles.expires_at(info),
        started_now=started_now,
    )


def sentence(answer: MotionAnswer) -> str:
    """The outcome in words; every fact in it is a field of the answer."""
    words = {"running": _running, "succeeded": _succeeded, "failed": _failed, "cancelled": _cancelled}
    said = words[answer.state](answer)
    if not answer.started_now:
        said += " This call started nothing; it is about the motion that was started earlier."
    return said


def _running(answer: MotionAnswer) -> str:
    progress = {key: value for key, value in (answer.progress or {}).items() if key != WORLD}
    facts = f" Progress: {facts_of(progress)}." if progress else ""
    return (
        f"{answer.tool} is still running (task {answer.task_id}), so the robot may be moving.{facts} Wait "
        f"with await_task and the handle {answer.handle}; calling {answer.tool} again would begin another "
        "motion."
    )


def _succeeded(answer: MotionAnswer) -> str:
    result = dict(answer.result or {})
    said = [f"{answer.tool} succeeded (task {answer.task_id})."]
    note = result.pop("message", None) or result.pop("note", None)
    if isinstance(note, str):
        said.append(_ended(note))
    if result:
        said.append(f"Result: {facts_of(result)}.")
    return " ".join([*said, *_world(answer)])


def _failed(answer: MotionAnswer) -> str:
    failure = answer.failure
    said = [f"{answer.tool} failed (task {answer.task_id})."]
    if failure is not None:
        said.append(f"{_ended(failure.message)} Code {failure.error_code}.")
        if not failure.recoverable:
            said.append("Trying again will not help.")
        if failure.suggestions:
            said.append(f"Suggestions: {', '.join(failure.suggestions)}.")
    return " ".join([*said, *_world(answer)])


def _cancelled(answer: MotionAnswer) -> str:
    progress = answer.progress or {}
    confirmed = progress.get("stop_confirmed")
    said = [f"{answer.tool} was cancelled (task {answer.task_id})."]
    if confirmed is True:
        said.append("The action server confirmed the stop.")
    elif confirmed is False:
        said.append("The stop is not confirmed; do not assume that the robot stands still.")
    if isinstance(progress.get("note"), str):
        said.append(_ended(progress["note"]))
    return " ".join([*said, *_world(answer)])


def _world(answer: MotionAnswer) -> list[str]:
    world = (answer.progress or {}).get(WORLD)
    return (
        [f"As last measured at the end: {facts_of(world)}."] if isinstance(world, Mapping) and world else []
    )


def facts_of(value: Mapping[str, Any], prefix: str = "") -> str:
    """Every leaf as ``name value``, values as JSON: ``final_pose.x_m 9.98, final_pose.frame "map"``."""
    return ", ".join(_leaves(value, prefix))


def _leaves(value: Mapping[str, Any], prefix: str) -> list[str]:
    found: list[str] = []
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            found += _leaves(item, f"{name}.")
        else:
            found.append(f"{name} {dumps(item)}")
    return found


def _ended(text: str) -> str:
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
