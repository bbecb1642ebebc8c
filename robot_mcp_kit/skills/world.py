"""The robot and the objects around it, as last measured: what results describe and conditions are checked on.

Rounded, radians, newtons, seconds; each part says when it was measured. A part that no source told is
``None``, which is not the same as nothing being there.
"""

from __future__ import annotations

import abc
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from robot_mcp_kit.models import UtcTime

Rounded = Annotated[float, AfterValidator(lambda value: round(value, 4))]
"""To a tenth of a millimetre (and of a milliradian), so that sentences and fields show the same number."""

MEASURED = frozenset({"objects", "gripper", "arm"})
"""Parts whose sources tell at a rate, so that a fresh reading can be waited for."""


class Part(BaseModel):
    """Something that was measured at some time."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    measured_at: UtcTime


class RobotPose(Part):
    """Where the robot's base is."""

    x_m: Rounded
    y_m: Rounded
    yaw_rad: Rounded
    frame: str
    position_std_m: Rounded | None = Field(
        None, description="Standard deviation of the position, the worse axis; null: not told."
    )
    yaw_std_rad: Rounded | None = Field(None, description="The same of the heading.")


class GripperReading(Part):
    """The fingers, and whether something is between them."""

    gap_m: Rounded
    holds_something: bool = Field(description="The fingers stand neither open nor shut.")
    held_object: str | None = Field(
        None, description="What was grasped and not let go since; null: nothing, or it is not known what."
    )
    is_open: bool = False


class ArmReading(Part):
    """Where the arm's joints are, by name."""

    joints_rad: dict[str, float] = Field(default_factory=dict, description="Turning joints.")
    joints_m: dict[str, float] = Field(default_factory=dict, description="Sliding joints.")

    @property
    def positions(self) -> dict[str, float]:
        """All of them, each in its own unit."""
        return {**self.joints_rad, **self.joints_m}


class SeenObject(Part):
    """One object as perception reported it."""

    name: str
    x_m: Rounded
    y_m: Rounded
    z_m: Rounded
    frame: str
    confidence: float = Field(1.0, ge=0, le=1)
    width_m: float | None = None


class BatteryReading(Part):
    """Charge."""

    charge_percent: float
    charging: bool | None = Field(
        None, description="Whether current flows in; null: not told, as when it is full."
    )


class WorldSnapshot(BaseModel):
    """Everything that is known now."""

    model_config = ConfigDict(frozen=True)

    robot: RobotPose | None = None
    gripper: GripperReading | None = None
    arm: ArmReading | None = None
    objects: tuple[SeenObject, ...] | None = None
    """``None``: perception has told nothing; empty: it sees nothing."""
    looked_at: UtcTime | None = None
    """When perception told ``objects``."""
    battery: BatteryReading | None = None

    def find(self, name: str) -> SeenObject | None:
        """The object of that name, compared without case and with ``_`` as a space."""
        wanted = fold(name)
        return next((seen for seen in self.objects or () if fold(seen.name) == wanted), None)

    def since(self, moment: datetime) -> WorldSnapshot:
        """Only the gripper, arm and objects that were measured after ``moment``."""
        moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)  # as measured_at is
        update: dict[str, Any] = {
            name: None
            for name in ("gripper", "arm")
            if (part := getattr(self, name)) is not None and part.measured_at < moment
        }
        if self.looked_at is None or self.looked_at < moment:
            update |= {"objects": None, "looked_at": None}
        return self.model_copy(update=update)

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

    def latest(self) -> WorldSnapshot:
        """As :meth:`snapshot`, with parts that are older than their sections allow; each says how old."""
        return self.snapshot()

    def hold(self, name: str | None) -> None:  # noqa: B027 - adapters without a gripper remember nothing
        """Remember what was grasped, or that nothing is; snapshots tell it while something is held."""

    @abc.abstractmethod
    async def after(
        self, moment: datetime, timeout_s: float = 2.0, parts: frozenset[str] = MEASURED
    ) -> WorldSnapshot:
        """A snapshot whose ``parts`` were measured after ``moment`` (as far as there are sources), or the
        last one after ``timeout_s``; each part says when it was measured.
        """


class NoWorld(World):
    """Nobody tells anything."""

    def snapshot(self) -> WorldSnapshot:
        return WorldSnapshot()

    async def after(
        self,
        moment: datetime,  # noqa: ARG002
        timeout_s: float = 2.0,  # noqa: ARG002
        parts: frozenset[str] = MEASURED,  # noqa: ARG002
    ) -> WorldSnapshot:
        return WorldSnapshot()
