"""What skills tell when they have succeeded, as models: names, units and frames of each skill's own facts.

A skill's tool publishes its model as part of the output schema (L6, L33). The models describe what the
skills write; a later version may add facts, so unknown ones are allowed.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from robot_mcp_kit.skills.world import SeenObject


class Facts(BaseModel):
    """Base of everything that is told: finite numbers, and room for facts of a later version."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class PoseFacts(Facts):
    """A pose on the floor."""

    x_m: float
    y_m: float
    yaw_rad: float = Field(description="Counter-clockwise; 0 is along +x of the frame.")
    frame: str


class SkillResult(Facts):
    """What every skill may add to its own facts."""

    note: str | None = Field(None, description="What else is worth knowing, in words.")
    triggers_not_fired: list[dict[str, Any]] | None = Field(
        None, description="Triggers of this call whose condition never came true."
    )


class ArrivalFacts(SkillResult):
    """Where a drive should end, and where it was measured to have ended."""

    goal: PoseFacts | None
    place: str | None = Field(description="Name of the place, if the goal was given by one.")
    measured: bool = Field(description="Whether the robot's position at the end is known at all.")
    final_pose: PoseFacts | None = Field(description="Where the robot is, as measured; null: not known.")
    position_error_m: float | None = Field(description="Distance from the goal to final_pose.")
    yaw_error_rad: float | None = Field(
        description="How far it is turned off; null: unknown, or no heading was asked for."
    )


class MissedWaypoint(Facts):
    """One pose that was not reached."""

    index: int | None = Field(description="From 0, as in the call's list.")
    number: int | None = Field(description="From 1, for people.")
    error_code: str | None
    native_code: int | None = Field(description="Nav2's own number for it.")
    reason: str | None


class MissedFacts(ArrivalFacts):
    """What drives past several poses add."""

    reached: int = Field(description="How many were reached.")
    partial: bool = Field(description="Whether some were missed.")
    missed: list[MissedWaypoint]


class LookFacts(SkillResult):
    """What was seen."""

    message: str = Field(description="The same in words.")
    objects: list[SeenObject]
