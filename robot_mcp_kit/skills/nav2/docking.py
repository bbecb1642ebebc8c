"""The skills ``dock`` and ``undock``: ``nav2_msgs/action/DockRobot`` and ``UndockRobot``."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import Any

from pydantic import Field

from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.skills.arguments import Number
from robot_mcp_kit.skills.base import (
    FeedbackReader,
    GoalSpec,
    GoalStatus,
    Outcome,
    Pose2D,
    Sample,
    SkillArguments,
)
from robot_mcp_kit.skills.config import RobotConfig, fold_name
from robot_mcp_kit.skills.config.nav2 import DockEntry, DockSection, UndockSection
from robot_mcp_kit.skills.endings import unsuccessful
from robot_mcp_kit.skills.goal_pose import WhereIsRobot, stamped_pose
from robot_mcp_kit.skills.messages import dig, duration_s, integer
from robot_mcp_kit.skills.nav2.arrival import with_position, with_words
from robot_mcp_kit.skills.nav2.base import BaseMotion
from robot_mcp_kit.skills.nav2.codes import nav2_failure, nav2_note
from robot_mcp_kit.skills.results import PoseFacts, SkillResult
from robot_mcp_kit.skills.text import did_you_mean, nearest_first
from robot_mcp_kit.skills.triggers import pose_payload
from robot_mcp_kit.skills.world import WorldSnapshot


class DockingState(IntEnum):
    """``DockRobot`` feedback ``state``. Kilted never publishes RETRY; the count of retries tells."""

    NONE = 0
    NAV_TO_STAGING_POSE = 1
    INITIAL_PERCEPTION = 2
    CONTROLLING = 3
    WAIT_FOR_CHARGE = 4
    RETRY = 5


PHASES: dict[int, tuple[str, float | None]] = {
    DockingState.NONE: ("starting", 0.0),
    DockingState.NAV_TO_STAGING_POSE: ("driving to the dock", 10.0),
    DockingState.INITIAL_PERCEPTION: ("looking for the dock", 40.0),
    DockingState.CONTROLLING: ("driving in", 60.0),
    DockingState.WAIT_FOR_CHARGE: ("waiting for the current", 90.0),
    DockingState.RETRY: ("trying again", None),
}
"""Phase and percent of each state; there is no other measure of the progress."""


class DockArguments(SkillArguments):
    """Which dock."""

    dock_id: str | None = Field(
        None, max_length=200, description="Name of the dock. Left out: the robot's usual dock."
    )
    max_staging_time_s: Number | None = Field(
        None,
        description=(
            "Longest time in seconds for the drive to the spot in front of the dock. Left out: the "
            "robot's own."
        ),
    )


class DockResult(SkillResult):
    """How the docking ended."""

    dock: str
    retries: int | None
    final_pose: PoseFacts | None = Field(description="Where the robot is, as measured; null: not known.")
    charging: bool | None = Field(description="As the battery last told; null: it does not tell.")


class Dock(BaseMotion[DockSection]):
    """Drive to a charging dock and into it.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry, with the docks.
        config: for the names of the other tools.
        where: where the robot is; the action's feedback does not tell.
    """

    title = "Dock to charge"
    arguments = DockArguments
    trigger_types = frozenset({"zone_entered", "progress_above", "stalled"})
    results = DockResult
    effects = ("the robot stands in the dock", "the result tells whether the battery is being charged")

    def __init__(
        self,
        name: str,
        section: DockSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        super().__init__(name, section, config, where)
        docks = ", ".join(section.docks) or "whatever the docking server knows by name"
        usual = f" The usual one is {section.default_dock}." if section.default_dock else ""
        approach = (
            "It drives to the spot in front of the dock first"
            if section.navigate_to_staging_pose
            else "The robot must already stand in front of the dock"
        )
        self.description = (
            f"Bring the robot into a charging dock. {approach}, then looks for the dock, drives in and "
            "waits for the charging current; it tries again by itself when that fails. Answers at once "
            "with a task of about a minute; follow it with get_task. Already docked counts as done, so a "
            "retry is safe; with an idempotency_key a repeated call starts nothing new. "
            + self._tools.advise("Leave the dock with {tool}, not with another drive.", "undock")
            + f"Docks: {docks}.{usual}"
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, DockArguments):
            raise TypeError(f"{self.name} takes DockArguments, got {type(arguments).__name__}")
        name, entry = self._dock(arguments.dock_id)
        fields: dict[str, Any] = {
            "max_staging_time": self._staging_s(arguments.max_staging_time_s),
            "navigate_to_staging_pose": self._section.navigate_to_staging_pose,
        }
        if entry.pose is None:
            fields |= {"use_dock_id": True, "dock_id": entry.id or name, "dock_type": ""}
        else:
            at = entry.pose
            pose = stamped_pose(Pose2D(at.x_m, at.y_m, at.yaw_rad, at.frame))
            fields |= {"use_dock_id": False, "dock_id": "", "dock_pose": pose, "dock_type": entry.type}
        return GoalSpec(fields=fields, summary=f"dock at {name}", context={"dock": name})

    def _dock(self, wanted: str | None) -> tuple[str, DockEntry]:
        docks = self._section.docks
        if wanted is None:
            chosen = self._section.default_dock or (next(iter(docks)) if len(docks) == 1 else None)
            if chosen is None:
                raise ArgumentError("dock_id", "is missing; name the dock", allowed=list(docks))
            return chosen, docks.get(chosen, DockEntry())
        if not wanted.strip():
            raise ArgumentError("dock_id", "must not be empty", allowed=list(docks))
        if not docks:
            return wanted.strip(), DockEntry()
        folded = fold_name(wanted)
        for name, entry in docks.items():
            if any(fold_name(known) == folded for known in (name, *entry.aliases)):
                return name, entry
        listed = nearest_first(wanted, docks)
        raise ArgumentError(
            "dock_id",
            f'"{wanted[:80]}" is not a dock this robot knows.{did_you_mean(wanted, docks)} '
            f"Docks: {', '.join(listed)}.",
            allowed=listed,
        )

    def _staging_s(self, given: float | None) -> float:
        most = self._section.max_staging_time_s
        if given is None or given == 0:
            return most
        if given < 0 or given > most:
            raise ArgumentError("max_staging_time_s", f"must be above 0 and at most {most:g}, got {given:g}")
        return given

    def reader(self, spec: GoalSpec) -> FeedbackReader:  # noqa: ARG002
        return DockingReader(self._where)

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:
        code = integer(result, "error_code") or 0
        message = dig(result, "error_msg")
        if status == GoalStatus.SUCCEEDED:
            told: dict[str, Any] = {
                "dock": spec.context["dock"],
                "retries": integer(result, "num_retries"),
                "final_pose": pose_payload(self._where()),
                "charging": None,
            }
            notes = [nav2_note(self.action_type, code, message), _contradiction(result)]
            if any(notes):
                told["note"] = " ".join(note for note in notes if note)
            return Outcome("succeeded", told)
        if status == GoalStatus.ABORTED and code:
            failure = nav2_failure(self.action_type, code, message)
        else:
            # The default result says "success"; the status decides.
            failure = unsuccessful(status, self.action_name, message)
        phase = None if last is None else last.payload.get("phase")
        if phase is not None:
            failure = with_words(failure, f"It ended while {phase}.")
        return Outcome("failed", failure=self._tools.fit(with_position(failure, last, self._where)))

    def measured(self, outcome: Outcome, spec: GoalSpec, world: WorldSnapshot) -> Outcome:  # noqa: ARG002
        """There are docks without current, so none is no failure; it is told."""
        battery = world.battery
        if outcome.result is None or battery is None:
            return outcome
        told = {**outcome.result, "charging": battery.charging}
        if battery.charging is False:
            words = "The battery does not report that it is being charged."
            told["note"] = f"{told['note']} {words}" if told.get("note") else words
        return replace(outcome, result=told)


def _contradiction(result: Any) -> str | None:
    if dig(result, "success") is False:
        return "The action succeeded, though its result says success: false; check that the robot charges."
    return None


class DockingReader(FeedbackReader):
    """Phases. Payload: ``phase``, ``percent`` (by phase), ``retries``, ``elapsed_s``, ``pose``; no ETA."""

    def __init__(self, where: WhereIsRobot) -> None:
        self._where = where
        self._started_s: float | None = None
        self._state: int | None = None
        self._retries = 0
        self._percent: float | None = None

    def read(self, feedback: Any, now_s: float) -> Sample | None:
        state = integer(feedback, "state")
        if state is None:
            return None
        if self._started_s is None:
            self._started_s = now_s
        elapsed_s = duration_s(feedback, "docking_time")
        if elapsed_s is None:
            elapsed_s = now_s - self._started_s
        retries = integer(feedback, "num_retries") or 0
        news = (self._state is not None and state != self._state) or retries > self._retries
        self._state, self._retries = state, max(retries, self._retries)
        phase, percent = PHASES.get(state, (f"state {state}", None))
        if retries and state == DockingState.INITIAL_PERCEPTION:
            phase = PHASES[DockingState.RETRY][0]
        if percent is not None:
            # A retry is no progress, and progress never goes back.
            self._percent = percent if self._percent is None else max(self._percent, percent)
        pose = self._where()
        return Sample(
            payload={
                "phase": phase,
                "eta_s": None,
                "percent": self._percent,
                "retries": self._retries,
                "elapsed_s": round(max(0.0, elapsed_s), 1),
                "pose": pose_payload(pose),
            },
            time_s=elapsed_s,
            percent=self._percent,
            pose=pose,
            milestone=news,
        )


class UndockArguments(SkillArguments):
    """How long it may take."""

    max_undocking_time_s: Number | None = Field(
        None, description="Longest time in seconds. Left out: the robot's own."
    )


class UndockResult(SkillResult):
    """How leaving the dock ended."""

    final_pose: PoseFacts | None = Field(description="Where the robot is, as measured; null: not known.")


class Undock(BaseMotion[UndockSection]):
    """Leave a charging dock.

    Args:
        name: tool name, the key in the YAML.
        section: the YAML's entry.
        config: for the names of the other tools.
        where: where the robot is, for the report.
    """

    title = "Leave the dock"
    arguments = UndockArguments
    results = UndockResult
    effects = ("the robot stands in front of the dock it was in",)

    def __init__(
        self,
        name: str,
        section: UndockSection,
        config: RobotConfig,
        where: WhereIsRobot | None = None,
    ) -> None:
        super().__init__(name, section, config, where)
        self.description = (
            "Drive the robot out of its charging dock to the spot in front of it. Needed before any other "
            "drive while it is docked. Answers at once with a task of some seconds that reports no "
            "progress. If the robot is not docked, it fails without a reason and nothing moves, so a "
            "retry is safe; with an idempotency_key a repeated call starts nothing new."
        )

    def goal(self, arguments: SkillArguments) -> GoalSpec:
        if not isinstance(arguments, UndockArguments):
            raise TypeError(f"{self.name} takes UndockArguments, got {type(arguments).__name__}")
        given, most = arguments.max_undocking_time_s, self._section.max_undocking_time_s
        if given is not None and not 0 <= given <= most:
            raise ArgumentError(
                "max_undocking_time_s", f"must be above 0 and at most {most:g}, got {given:g}"
            )
        return GoalSpec(
            fields={"dock_type": self._section.dock_type, "max_undocking_time": given or most},
            summary="leave the dock",
        )

    def reader(self, spec: GoalSpec) -> FeedbackReader:  # noqa: ARG002
        return NothingToRead()

    def outcome(self, status: int, result: Any, spec: GoalSpec, last: Sample | None) -> Outcome:  # noqa: ARG002
        code = integer(result, "error_code") or 0
        message = dig(result, "error_msg")
        if status == GoalStatus.SUCCEEDED:
            told: dict[str, Any] = {"final_pose": pose_payload(self._where())}
            notes = [nav2_note(self.action_type, code, message), _contradiction(result)]
            if any(notes):
                told["note"] = " ".join(note for note in notes if note)
            return Outcome("succeeded", told)
        if status == GoalStatus.ABORTED and code:
            failure = nav2_failure(self.action_type, code, message)
        else:
            failure = unsuccessful(status, self.action_name, message)
            if status == GoalStatus.ABORTED:
                # Nav2 ends so when there is nothing to leave, with a result that still says "success".
                failure = with_words(failure, "Usually that means that the robot was not in a dock.")
        return Outcome("failed", failure=self._tools.fit(with_position(failure, last, self._where)))


class NothingToRead(FeedbackReader):
    """For actions whose feedback has no fields."""

    def read(self, feedback: Any, now_s: float) -> Sample | None:  # noqa: ARG002
        return None
