"""Interlocks: conditions that must hold right before a goal leaves, and for some while it runs.

Whatever is not known to be good is broken: no value yet, an old one, a reader that raises or does not answer
in time (R24), a field that is not there, NaN. A condition that flaps must hold still for ``settle_s`` first.
"""

from __future__ import annotations

import abc
import asyncio
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.clock import Clock
from robot_mcp_kit.safety.situation import shown
from robot_mcp_kit.skills.config.generic import Condition
from robot_mcp_kit.skills.config.safety import InterlockSection

logger = logging.getLogger(__name__)

_PART = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[(\d+)\])?")
MISSING = object()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader knows now."""

    value: Any
    """The message (or a node's state as text)."""
    age_s: float
    """Since it was true: 0 for an answer that was just asked for."""


class Reader(abc.ABC):
    """Port: where an interlock's value comes from. Adapters live in ``ros/`` and in tests."""

    tells: bool = False
    """It is told of every value, so :meth:`latest` knows all there is to know; others must be asked."""

    @abc.abstractmethod
    async def read(self) -> Reading | None:
        """The latest value, ``None`` while there is none. It may raise or take too long: both are broken."""

    def latest(self) -> Reading | None:
        """As :meth:`read`, from what is already here, without waiting."""
        return None

    def listen(self, heard: Callable[[Reading], None]) -> None:  # noqa: ARG002 - for readers that hear
        """Call ``heard`` on the loop with every value that arrives, for readers that are told."""
        return

    def close(self) -> None:
        """Read no more."""
        return


def field_of(message: Any, path: str) -> Any:
    """The value at ``pose.covariance[0]``, by attribute or key; :data:`MISSING` if there is none."""
    value = message
    for part in path.split("."):
        match = _PART.fullmatch(part)
        if match is None:
            return MISSING
        name, index = match.groups()
        value = value.get(name, MISSING) if isinstance(value, Mapping) else getattr(value, name, MISSING)
        if value is MISSING:
            return MISSING
        if index is not None:
            try:
                value = value[int(index)]
            except (IndexError, TypeError, KeyError):
                return MISSING
    return value


def meets(value: Any, condition: Condition) -> bool:
    """Whether a value is what the condition asks for; never NaN or several values, and ``true`` is not 1."""
    try:
        plain = value.item() if hasattr(value, "item") and not isinstance(value, str | bytes) else value
    except ValueError:  # numpy's way to say that these are several
        return False
    if isinstance(plain, float) and not math.isfinite(plain):
        return False
    if condition.any_of is not None:
        return any(
            isinstance(plain, bool) is isinstance(wanted, bool) and plain == wanted
            for wanted in condition.any_of
        )
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        return False
    return (condition.min is None or plain >= condition.min) and (
        condition.max is None or plain <= condition.max
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """What an interlock says now."""

    name: str
    ok: bool
    reason: str
    """Why it is broken; the value when it is not."""

    def record(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "said": self.reason}


class Interlock:
    """One condition.

    Args:
        name: key in the file.
        section: the entry.
        reader: where the value comes from.
        clock: monotonic.
        on_broken: told at once when a value arrives that breaks it.
    """

    def __init__(
        self,
        name: str,
        section: InterlockSection,
        reader: Reader,
        clock: Clock,
        on_broken: Callable[[Interlock, str], None] = lambda _lock, _reason: None,
    ) -> None:
        self.name, self.section = name, section
        self.on_broken = on_broken
        self._reader, self._clock = reader, clock
        self._made_s = clock.now()
        self._good_since_s: float | None = None
        """Since when every value that arrived was good."""
        reader.listen(self._heard)

    def applies_to(self, skill: str) -> bool:
        return self.section.skills is None or skill in self.section.skills

    async def check(self) -> Finding:
        """Ask the reader now, within its time."""
        known = self.glance()
        if known is not None:
            return known  # it was told of everything; there is nothing to ask
        reading: Reading | None = None
        asking = asyncio.ensure_future(self._reader.read())
        timer = asyncio.ensure_future(self._clock.sleep(self.section.timeout_s))
        waiting: list[asyncio.Future[Any]] = [asking, timer]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return self._broken(f"no answer within {self.section.timeout_s:g} s")
            try:
                reading = asking.result()
            except Exception as error:
                return self._broken(f"it cannot be read: {error!r}"[:200])
        finally:
            asking.cancel()
            timer.cancel()
        return self._judge(reading)

    def glance(self) -> Finding | None:
        """From what is already here, without waiting; ``None`` for those that must be asked."""
        if not self._reader.tells:
            return None
        reading, fault = self._latest()
        return self._broken(fault) if fault is not None else self._judge(reading)

    def broken_now(self) -> str | None:
        """Why a running motion must stop, from what is already here; ``None``: nothing says so.

        A value that was never heard is missed only after its maximum age: a bridge that has just restarted
        over a running goal hears the first one in a moment. That it must settle is asked of starts alone.
        """
        if not self._reader.tells:
            return None
        reading, fault = self._latest()
        if fault is not None:
            return fault
        max_age_s = self.section.max_age_s
        young = max_age_s is not None and self._clock.now() - self._made_s <= max_age_s
        return None if reading is None and young else self._fault(reading)

    @property
    def must_be_asked(self) -> bool:
        return not self._reader.tells

    def _latest(self) -> tuple[Reading | None, str | None]:
        try:
            return self._reader.latest(), None
        except Exception as error:
            return None, f"it cannot be read: {error!r}"[:200]

    def close(self) -> None:
        self._reader.close()

    def _heard(self, reading: Reading) -> None:
        """A value arrived: broken ones are acted on now, not at the next look."""
        fault = self._fault(reading)
        if fault is None:
            if self._good_since_s is None:
                self._good_since_s = self._clock.now()
            return
        self._good_since_s = None
        self.on_broken(self, fault)

    def _judge(self, reading: Reading | None) -> Finding:
        fault = self._fault(reading)
        if fault is not None:
            self._good_since_s = None
            return self._broken(fault)
        if self._reader.tells and self._good_since_s is not None:
            good_s = self._clock.now() - self._good_since_s
            if good_s < self.section.settle_s - 1e-9:
                return self._broken(
                    f"good for {good_s:.1f} s only; it must hold for {self.section.settle_s:g} s"
                )
        assert reading is not None  # noqa: S101 - no reading is a fault
        return Finding(self.name, True, shown(self._value(reading)))

    def _fault(self, reading: Reading | None) -> str | None:
        section = self.section
        if reading is None:
            return "nothing was heard yet"
        if section.lifecycle_node is not None:
            if reading.value in section.states:
                return None
            return f"{section.lifecycle_node} is {shown(reading.value)}, not {' or '.join(section.states)}"
        if section.max_age_s is not None and not reading.age_s <= section.max_age_s:
            return f"stale: {reading.age_s:.1f} s old, at most {section.max_age_s:g} s is allowed"
        if reading.age_s < -1.0:
            return f"its stamp lies {-reading.age_s:.1f} s in the future"
        value = self._value(reading)
        if value is MISSING:
            return f"the message has no field {section.field}"
        if section.ok is None or not meets(value, section.ok):
            return f"{section.field} is {shown(value)}, it must be {section.ok}"
        return None

    def _value(self, reading: Reading) -> Any:
        return reading.value if self.section.field is None else field_of(reading.value, self.section.field)

    def _broken(self, reason: str) -> Finding:
        return Finding(self.name, False, reason)


class Interlocks:
    """All of one robot.

    Args:
        locks: the conditions.
    """

    def __init__(self, locks: Iterable[Interlock]) -> None:
        self.locks = list(locks)

    def of(self, skill: str, *, held_only: bool = False) -> list[Interlock]:
        return [
            lock for lock in self.locks if lock.applies_to(skill) and (lock.section.holds or not held_only)
        ]

    async def check(self, skill: str) -> list[Finding]:
        """All of the skill's, at once; as slow as the slowest, at most its timeout."""
        return list(await asyncio.gather(*(lock.check() for lock in self.of(skill))))

    def glance(self, skill: str) -> list[Finding]:
        """The broken ones, from what is already here."""
        found = [lock.glance() for lock in self.of(skill)]
        return [one for one in found if one is not None and not one.ok]

    def close(self) -> None:
        for lock in self.locks:
            try:
                lock.close()
            except Exception:
                logger.exception("the interlock %s was not closed properly", lock.name)
