"""The robot and the objects around it, as last measured: what results describe and conditions are checked on.

Metres, radians, newtons, seconds; each part says when it was measured. A part that no source told is
``None``, which is not the same as nothing being there.
"""

from __future__ import annotations

import abc
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from robot_mcp_kit.models import UtcTime


class Part(BaseModel):
    """Something that was measured at some time."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    measured_at: UtcTime


class RobotPose(Part):
    """Where the robot's base is."""

    x_m: float
    y_m: float
    yaw_rad: float
    frame: str


class GripperReading(Part):
    """The fingers, and whether something is between them."""

    gap_m: float
    holds_something: bool | None = Field(
        None, description="Fingers that were told to close stand open: something is between. null: not known."
    )


class SeenObject(Part):
    """One object as perception reported it."""

    name: str
    x_m: float
    y_m: float
    z_m: float
    frame: str
    confidence: float = Field(1.0, ge=0, le=1)
    width_m: float | None = None


class BatteryReading(Part):
    """Charge."""

    charge_percent: float


class WorldSnapshot(BaseModel):
    """Everything that is known now."""

    model_config = ConfigDict(frozen=True)

    robot: RobotPose | None = None
    gripper: GripperReading | None = None
    objects: tuple[SeenObject, ...] | None = None
    """``None``: perception has told nothing; empty: it sees nothing."""
    battery: BatteryReading | None = None

    def find(self, name: str) -> SeenObject | None:
        """The object of that name, compared without case and with ``_`` as a space."""
        wanted = fold(name)
        return next((seen for seen in self.objects or () if fold(seen.name) == wanted), None)

    def facts(self) -> dict[str, Any]:
        """As JSON, without what is not known."""
        return self.model_dump(mode="json", exclude_none=True)


def fold(name: str) -> str:
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


def utc_now() -> datetime:
    return datetime.now(UTC)


class World(abc.ABC):
    """Port: what sensors tell. Adapters in ``ros/`` and ``testing/``; called on the loop."""

    @abc.abstractmethod
    def snapshot(self) -> WorldSnapshot:
        """What was measured last. Never waits, never raises."""

    @abc.abstractmethod
    async def after(self, moment: datetime, timeout_s: float = 2.0) -> WorldSnapshot:
        """A snapshot whose gripper and objects were measured after ``moment`` (as far as there are
        sources), or the last one after ``timeout_s``; its parts say when they were measured.
        """


class NoWorld(World):
    """Nobody tells anything."""

    def snapshot(self) -> WorldSnapshot:
        return WorldSnapshot()

    async def after(self, moment: datetime, timeout_s: float = 2.0) -> WorldSnapshot:  # noqa: ARG002
        return WorldSnapshot()
