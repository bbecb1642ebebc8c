"""The wire's data."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from robot_mcp_kit import SCHEMA_VERSION, TaskEvent, TaskFailure, TaskInfo, TaskManager
from robot_mcp_kit.events import encode_event
from robot_mcp_kit.testing import CollectingPoster
from robot_mcp_kit.testing import make_event as event

SAMPLE = {
    "schema_version": 1,
    "event_id": "8c1f0e2a-0000-4000-8000-000000000000",
    "task_id": "nav-7f3a2b",
    "server": "navigation",
    "tool": "navigate_to",
    "type": "progress",
    "seq": 4,
    "ts": "2026-06-12T14:03:00.123Z",
    "payload": {"eta_s": 22.4, "distance_m": 14.1, "percent": 60},
}
KEYS = ["schema_version", "event_id", "task_id", "server", "tool", "type", "seq", "ts", "payload"]
NOW = datetime(2026, 6, 12, 14, 3, tzinfo=UTC)


def info(**changes: Any) -> TaskInfo:
    values = {
        "task_id": "navi-000001",
        "server": "navigation",
        "tool": "t",
        "state": "running",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return TaskInfo.model_validate(values | changes)


def test_an_event_has_nine_keys_on_the_wire() -> None:
    """K5: whichever way it is written."""
    assert list(json.loads(encode_event(event(percent=1)))) == KEYS
    assert list(json.loads(event(percent=1).model_dump_json())) == KEYS


@pytest.mark.parametrize("state", ["pending", "done", "RUNNING", "canceled", ""])
def test_an_unknown_state_is_refused(state: str) -> None:
    """K6: four values."""
    with pytest.raises(ValidationError):
        info(state=state)


def test_all_four_states_and_five_types_are_known() -> None:
    """K6."""
    for state in ["running", "succeeded", "failed", "cancelled"]:
        assert info(state=state).state == state
    for kind in ["progress", "trigger_fired", "task_done", "task_failed", "watch_event"]:
        assert event(type=kind).type == kind


@pytest.mark.parametrize("kind", ["task_cancelled", "started", "Progress", ""])
def test_an_unknown_event_type_is_refused(kind: str) -> None:
    """K6: five values."""
    with pytest.raises(ValidationError):
        event(type=kind)


def test_a_failure_is_recoverable_and_has_no_suggestions_by_default() -> None:
    """K7: and the lists are not shared."""
    one, two = TaskFailure(error_code="A", message="a"), TaskFailure(error_code="B", message="b")
    assert one.recoverable is True
    one.suggestions.append("x")
    assert two.suggestions == []


def test_a_fresh_task_has_no_progress_result_or_failure() -> None:
    """K8."""
    fresh = info()
    assert (fresh.progress, fresh.result, fresh.failure, fresh.est_duration_s) == (None, None, None, None)
    assert fresh.triggers == []


def test_the_documented_sample_parses() -> None:
    """K9."""
    parsed = TaskEvent.model_validate_json(json.dumps(SAMPLE))
    assert parsed.payload == SAMPLE["payload"]
    assert json.loads(parsed.model_dump_json()) == SAMPLE


@pytest.mark.parametrize("microsecond", [0, 1, 999, 1000, 123456, 999999])
def test_an_event_equals_what_comes_back_from_its_json(microsecond: int) -> None:
    """K9: also when the clock is finer than the wire."""
    original = TaskEvent.model_validate(SAMPLE | {"ts": NOW.replace(microsecond=microsecond)})
    assert TaskEvent.model_validate_json(original.model_dump_json()) == original
    assert TaskEvent.model_validate_json(encode_event(original)) == original


def test_unknown_keys_and_newer_versions_are_read() -> None:
    """K10."""
    parsed = TaskEvent.model_validate(SAMPLE | {"schema_version": 7, "mission_id": "m"})
    assert parsed.schema_version == 7
    assert not hasattr(parsed, "mission_id")


@pytest.mark.parametrize("key", [key for key in KEYS if key != "schema_version"])
def test_a_missing_key_is_refused(key: str) -> None:
    """K10."""
    with pytest.raises(ValidationError, match=key):
        TaskEvent.model_validate({name: value for name, value in SAMPLE.items() if name != key})


async def test_sent_events_carry_the_schema_version(manager: TaskManager, poster: CollectingPoster) -> None:
    """K11."""

    async def body(ctx: Any) -> dict[str, Any]:
        await ctx.progress({})
        await ctx.emit({})
        return {}

    await manager.wait(manager.start("t", body).task_id)
    assert [e.schema_version for e in poster.events] == [SCHEMA_VERSION] * 3
    assert {json.loads(encode_event(e))["schema_version"] for e in poster.events} == {SCHEMA_VERSION}


async def test_event_ids_are_hyphenated_uuid4_and_unique(
    manager: TaskManager, poster: CollectingPoster
) -> None:
    """K16."""

    async def body(ctx: Any) -> dict[str, Any]:
        for _ in range(9_999):
            await ctx.emit({})
        return {}

    await manager.wait(manager.start("t", body).task_id)
    ids = {e.event_id for e in poster.events}
    assert len(ids) == 10_000
    for text in list(ids)[:100]:
        assert len(text) == 36
        assert str(UUID(text)) == text
        assert UUID(text).version == 4


@pytest.mark.parametrize(
    ("microsecond", "text"),
    [(0, "14:03:00.000Z"), (123_000, "14:03:00.123Z"), (999_999, "14:03:00.999Z"), (1, "14:03:00.000Z")],
)
def test_times_on_the_wire_have_three_fractional_digits_and_a_z(microsecond: int, text: str) -> None:
    """K17."""
    moment = NOW.replace(microsecond=microsecond)
    sent = TaskEvent.model_validate(SAMPLE | {"ts": moment})
    assert json.loads(sent.model_dump_json())["ts"] == f"2026-06-12T{text}"
    assert json.loads(encode_event(sent))["ts"] == f"2026-06-12T{text}"
    assert json.loads(info(created_at=moment).model_dump_json())["created_at"] == f"2026-06-12T{text}"


def test_other_time_zones_are_converted_and_none_is_refused() -> None:
    """K17, K19."""
    berlin = NOW.astimezone(timezone(timedelta(hours=2)))
    assert event().model_copy(update={"ts": berlin}) is not None
    sent = TaskEvent.model_validate(SAMPLE | {"ts": berlin})
    assert sent.ts.utcoffset() == timedelta(0)
    assert re.search(r"14:03:00\.000Z", sent.model_dump_json())
    with pytest.raises(ValidationError, match="time zone"):
        TaskEvent.model_validate(SAMPLE | {"ts": "2026-06-12T14:03:00.123"})


def test_a_sequence_number_starts_at_one() -> None:
    with pytest.raises(ValidationError):
        TaskEvent.model_validate(SAMPLE | {"seq": 0})
