"""What can go wrong, as switches that can be thrown while the robot runs. Pure.

Each field is a ROS parameter of the same name on the simulator's node (``ros2 param set /robot_sim stuck
true``)
and a key of the JSON object one may publish on ``~/faults`` (std_msgs/String). ``~/reset_faults`` puts all
back.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ACTION_NAMES = (
    "navigate_to_pose",
    "navigate_through_poses",
    "follow_waypoints",
    "spin",
    "backup",
    "drive_on_heading",
    "wait",
    "dock_robot",
    "undock_robot",
    "move_action",
    "arm_controller/follow_joint_trajectory",
    "gripper_controller/gripper_cmd",
)

TOPIC_NAMES = (
    "joint_states",
    "tool_pose",
    "robot_description",
    "battery_state",
    "dock_contact",
    "lamp/state",
    "fan/state",
)
"""Topics that can fall silent one by one."""


def _help(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


def _setting(default: Any, text: str) -> Any:
    """Not a fault, only another way to run: ``~/reset_faults`` leaves it alone."""
    return field(default=default, metadata={"help": text, "setting": True})


@dataclass
class Faults:
    """The present switches. The defaults are a healthy robot."""

    active: bool = _help(
        True,
        "The servers are active. Inactive ones reject goals and abort running ones, as lifecycle nodes do.",
    )
    blocked_doors: list[str] = field(default_factory=list, metadata={"help": "Names of doors that are shut."})
    slow_down: float = _help(1.0, "Factor on the base's top speed, (0, 1].")
    lose_localization: bool = _help(False, "No map to odom transform, no amcl_pose, no navigation feedback.")
    stuck: bool = _help(False, "The wheels turn but the base does not move.")
    drop_object: bool = _help(False, "Setting it to true drops what the gripper holds (each time it is set).")
    move_object: str = _help(
        "", "Setting 'NAME X_M Y_M' (frame map) puts that object there; it falls onto what is below."
    )
    object_in_gripper: str = _help("", "Setting a name puts that object between the open fingers.")
    slip_percent: float = _help(
        0.0, "How many of a hundred grasps slip: the object falls as soon as it is lifted. 0 to 100."
    )
    blind: bool = _help(False, "Nothing is published on detected_objects.")
    arm_stuck: bool = _help(False, "The arm's joints do not move.")
    outputs_stuck: bool = _help(False, "Commands to lamp and fan change nothing.")
    silent_topics: list[str] = field(
        default_factory=list, metadata={"help": "Topics that nothing is published on any more."}
    )
    dock_hidden: bool = _help(False, "The dock is not detected (904).")
    no_charge: bool = _help(False, "The dock gives no current (906).")
    fault_actions: list[str] = field(
        default_factory=list,
        metadata={"help": "Actions that the following switches act on; empty means all of them."},
    )
    reject_goals: bool = _help(False, "Goals are rejected.")
    refuse_cancel: bool = _help(False, "Cancel requests are refused.")
    ignore_cancel_s: float = _help(
        0.0, "Cancel requests are accepted but ignored for so long (simulation s)."
    )
    abort_after_s: float = _help(0.0, "Goals abort this long after their start (simulation s); 0 is never.")
    abort_code: int = _help(0, "Error code of those aborts.")
    silent_feedback: bool = _help(False, "No feedback is published.")
    die_after_s: float = _help(0.0, "The process ends at once this long from now (wall s); 0 is never.")

    stop_on_failure: bool = _setting(True, "Whether follow_waypoints stops at a waypoint it cannot reach.")
    allow_stalling: bool = _setting(False, "Whether a gripper that stalls has succeeded.")
    gripper_feedback: bool = _setting(
        False, "Whether the gripper publishes feedback (the usual one does not)."
    )

    def touches(self, action_name: str) -> bool:
        """Whether the per-action switches act on that action."""
        return not self.fault_actions or action_name in self.fault_actions


FIELDS: dict[str, dataclasses.Field[Any]] = {f.name: f for f in dataclasses.fields(Faults)}


HEALTHY: dict[str, Any] = {
    name: getattr(Faults(), name) for name, f in FIELDS.items() if not f.metadata.get("setting")
}
"""The values that ``~/reset_faults`` puts back."""


def help_text(name: str) -> str:
    return str(FIELDS[name].metadata["help"])


def default(name: str) -> Any:
    return getattr(Faults(), name)


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        raise ValueError("must be a list of names (or one string of names separated by commas)")
    return [v.strip() for v in value if v.strip()]


def _number(low: float, high: float, *, above: bool = False) -> Callable[[Any], float]:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError("must be a finite number")
        if not low <= value <= high or (above and value == low):
            raise ValueError(f"must be in {'(' if above else '['}{low}, {high}], got {value}")
        return float(value)

    return check


def checked(name: str, value: Any, *, doors: Mapping[str, Any], objects: Mapping[str, Any]) -> Any:
    """A value as the switch wants it.

    Raises:
        ValueError: says which switch, what it wants, and the names that exist.
    """
    try:
        return _checked(name, value, doors, objects)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _moved(value: Any, objects: Mapping[str, Any]) -> str:
    words = value.split() if isinstance(value, str) else None
    if words == []:
        return ""
    if words is None or len(words) != 3 or words[0] not in objects:
        raise ValueError(f"must be 'NAME X_M Y_M', got {value!r}; objects are {', '.join(objects)}")
    try:
        at = [float(word) for word in words[1:]]
    except ValueError:
        at = [math.nan]
    if not all(math.isfinite(each) for each in at):
        raise ValueError(f"X_M and Y_M must be numbers, got {value!r}")
    return " ".join(words)


def _checked(name: str, value: Any, doors: Mapping[str, Any], objects: Mapping[str, Any]) -> Any:
    if name not in FIELDS:
        raise ValueError(f"no such fault; there are {', '.join(FIELDS)}")
    if name in ("blocked_doors", "fault_actions", "silent_topics"):
        lists = {"blocked_doors": doors, "fault_actions": ACTION_NAMES, "silent_topics": TOPIC_NAMES}
        known = list(lists[name])
        names = _names(value)
        unknown = [n for n in names if n not in known]
        if unknown:
            raise ValueError(f"unknown {', '.join(unknown)}; there are {', '.join(known)}")
        return names
    if name == "move_object":
        return _moved(value, objects)
    if name == "object_in_gripper":
        if not isinstance(value, str) or (value and value not in objects):
            raise ValueError(f"unknown object {value!r}; there are {', '.join(objects)}")
        return value
    if name == "slow_down":
        return _number(0.0, 1.0, above=True)(value)
    if name.endswith("_percent"):
        return _number(0.0, 100.0)(value)
    if name.endswith("_s"):
        return _number(0.0, 1e6)(value)
    if name == "abort_code":
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
            raise ValueError("must be an integer")
        return value
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value
