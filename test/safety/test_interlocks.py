"""Whatever is not known to be good is broken."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from robot_mcp_kit.safety.interlocks import Interlock, Interlocks, Reader, Reading, field_of
from robot_mcp_kit.skills.config.safety import InterlockSection
from robot_mcp_kit.testing.clock import FakeClock, settle


class Told(Reader):
    """A topic: the test publishes, age comes from the fake clock."""

    tells = True

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.message: Any = None
        self.at_s = 0.0
        self.hear: Callable[[Reading], None] = lambda _reading: None

    def publish(self, value: Any) -> None:
        self.message, self.at_s = SimpleNamespace(data=value), self.clock.now()
        self.hear(Reading(self.message, 0.0))

    async def read(self) -> Reading | None:
        return self.latest()

    def latest(self) -> Reading | None:
        return None if self.message is None else Reading(self.message, self.clock.now() - self.at_s)

    def listen(self, heard: Callable[[Reading], None]) -> None:
        self.hear = heard


class Asked(Reader):
    """A service: each read is a question."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    async def read(self) -> Reading | None:
        value = self.answer()
        return Reading(await value if asyncio.iscoroutine(value) else value, 0.0)


ESTOP = {
    "topic": "estop",
    "type": "std_msgs/msg/Bool",
    "field": "data",
    "ok": False,
    "max_age_s": 1.0,
    "settle_s": 0.0,
}


def section(**more: Any) -> InterlockSection:
    return InterlockSection.model_validate({**ESTOP, **more})


def told(**more: Any) -> tuple[Interlock, Told]:
    clock = FakeClock(100.0)
    reader = Told(clock)
    return Interlock("estop", section(**more), reader, clock), reader


async def test_a_good_fresh_value_holds() -> None:
    """R23."""
    lock, topic = told()
    topic.publish(False)
    assert (await lock.check()).ok


async def test_nothing_heard_yet_is_broken() -> None:
    """R24."""
    lock, _ = told()
    found = await lock.check()
    assert not found.ok
    assert "nothing was heard" in found.reason


class Several:
    """As numpy's arrays, of which some fields of ROS messages are made."""

    def item(self) -> float:
        raise ValueError("can only convert an array of size 1 to a Python scalar")


@pytest.mark.parametrize("value", [True, 0, 1, "False", None, math.nan, [], Several()])
async def test_a_value_that_is_not_exactly_good_is_broken(value: Any) -> None:
    """R23."""
    lock, topic = told()
    topic.publish(value)
    assert not (await lock.check()).ok


async def test_a_stale_value_is_broken() -> None:
    """R24: measured on the monotonic clock."""
    lock, topic = told()
    topic.publish(False)
    await topic.clock.advance(1.0)
    assert (await lock.check()).ok
    await topic.clock.advance(0.1)
    found = await lock.check()
    assert not found.ok
    assert "stale: 1.1 s" in found.reason
    glanced = lock.glance()
    assert glanced is not None
    assert not glanced.ok


async def test_a_stamp_from_the_future_is_broken() -> None:
    """R24."""
    lock, topic = told()
    topic.publish(False)
    topic.at_s += 50.0
    assert "future" in (await lock.check()).reason


async def test_a_reader_that_raises_is_broken() -> None:
    """R24."""

    def fails() -> Any:
        raise RuntimeError("no such topic")

    found = await Interlock("x", section(), Asked(fails), FakeClock()).check()
    assert not found.ok
    assert "no such topic" in found.reason


async def test_a_reader_that_does_not_answer_is_broken_in_time() -> None:
    """R24."""
    clock = FakeClock()

    async def never() -> Any:
        await asyncio.get_running_loop().create_future()

    checking = asyncio.ensure_future(Interlock("x", section(timeout_s=2.0), Asked(never), clock).check())
    await settle()
    await clock.advance(1.9)
    assert not checking.done()
    await clock.advance(0.2)
    assert "no answer within 2 s" in (await checking).reason


async def test_a_topic_that_nobody_has_heard_is_broken_at_a_glance_too() -> None:
    """R24."""
    lock, _ = told()
    found = lock.glance()
    assert found is not None
    assert not found.ok


async def test_a_running_motion_waits_for_the_first_value_no_longer_than_its_age() -> None:
    """After a restart over a running goal; and flapping is told at once, so settling is not asked."""
    lock, topic = told(settle_s=1.0)
    assert lock.broken_now() is None
    await topic.clock.advance(1.1)
    assert lock.broken_now() == "nothing was heard yet"
    topic.publish(False)
    assert lock.broken_now() is None
    assert not (await lock.check()).ok
    topic.publish(True)
    assert lock.broken_now() is not None


@pytest.mark.parametrize(
    ("value", "good"), [(25.0, True), (20.0, True), (19.9, False), (math.nan, False), (True, False)]
)
async def test_ranges_take_numbers_only(value: Any, good: bool) -> None:
    lock, topic = told(ok={"min": 20.0})
    topic.publish(value)
    assert (await lock.check()).ok is good


async def test_a_condition_that_flaps_stays_broken_until_it_settles() -> None:
    """R23."""
    lock, topic = told(settle_s=1.0, max_age_s=10.0)
    for value in (False, True, False, True, False):
        topic.publish(value)
        await topic.clock.advance(0.3)
        assert not (await lock.check()).ok
    await topic.clock.advance(0.8)
    topic.publish(False)
    assert (await lock.check()).ok


async def test_silence_in_between_counts_as_a_break() -> None:
    """R24."""
    lock, topic = told(settle_s=1.0)
    topic.publish(False)
    await topic.clock.advance(2.0)
    assert not (await lock.check()).ok
    topic.publish(False)
    assert "good for 0.0 s only" in (await lock.check()).reason


async def test_a_broken_value_is_told_the_moment_it_arrives_however_short() -> None:
    """A flap between two looks is not missed."""
    clock = FakeClock()
    topic, heard = Told(clock), []
    Interlock("estop", section(), topic, clock, lambda lock, why: heard.append((lock.name, why)))
    topic.publish(False)
    topic.publish(True)
    topic.publish(False)
    assert heard == [("estop", "data is true, it must be false")]


@pytest.mark.parametrize(
    ("path", "value"),
    [("pose.covariance[0]", 0.25), ("pose.covariance[7]", None), ("pose.x", None), ("name", "bob")],
)
def test_fields_are_found_by_path_and_index(path: str, value: Any) -> None:
    message = SimpleNamespace(pose=SimpleNamespace(covariance=[0.25, 0.0]), name="bob")
    found = field_of(message, path)
    assert found == value if value is not None else repr(found).startswith("<object")


async def test_a_field_that_is_not_there_is_broken() -> None:
    """R24."""
    lock, topic = told(field="state.code")
    topic.publish(False)
    assert "no field state.code" in (await lock.check()).reason


@pytest.mark.parametrize(("state", "good"), [("active", True), ("inactive", False), ("", False)])
async def test_a_lifecycle_node_must_be_in_its_state(state: str, good: bool) -> None:
    """R23."""
    lock = Interlock(
        "nav", InterlockSection(lifecycle_node="bt_navigator"), Asked(lambda: state), FakeClock()
    )
    assert (await lock.check()).ok is good
    assert lock.glance() is None


async def test_interlocks_are_checked_side_by_side_and_by_skill() -> None:
    clock = FakeClock()

    async def slow() -> Any:
        await clock.sleep(0.9)
        return SimpleNamespace(data=False)

    locks = Interlocks(
        [
            Interlock("a", section(), Asked(slow), clock),
            Interlock("b", section(), Asked(slow), clock),
            Interlock("c", section(skills=["gripper"]), Asked(slow), clock),
        ]
    )
    checking = asyncio.ensure_future(locks.check("navigate_to"))
    await settle()
    await clock.advance(0.95)
    assert [(one.name, one.ok) for one in await checking] == [("a", True), ("b", True)]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"topic": "estop"},
        {"topic": "estop", "lifecycle_node": "x"},
        {"lifecycle_node": "x", "ok": True},
        {**ESTOP, "max_age_s": None},
        {**ESTOP, "max_age_s": 0.0},
    ],
)
def test_an_interlock_that_could_never_break_is_refused_at_the_start(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        InterlockSection.model_validate(wrong)
