"""Arguments that every skill of the demo robot takes, and result messages without ROS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

JOINTS = {
    "shoulder_pan_joint": 0.0,
    "shoulder_lift_joint": -1.0,
    "elbow_joint": 1.0,
    "wrist_1_joint": 0.0,
    "wrist_2_joint": 0.0,
    "wrist_3_joint": 0.0,
}
POINTS = [
    {"time_from_start_s": 2.0, "joints_rad": JOINTS},
    {"time_from_start_s": 4.0, "joints_rad": {**JOINTS, "elbow_joint": 1.5}},
]

GOOD: dict[str, dict[str, Any]] = {
    "navigate_to": {"place": "kitchen"},
    "navigate_through": {"poses": [{"place": "kitchen"}, {"x_m": 3.0, "y_m": 4.0}]},
    "follow_waypoints": {"poses": [{"place": "kitchen"}, {"place": "lobby"}, {"place": "office"}]},
    "spin": {"angle_rad": -1.5},
    "back_up": {"distance_m": 0.3},
    "drive_on_heading": {"distance_m": -0.4},
    "wait": {"duration_s": 4.0},
    "dock": {},
    "undock": {},
    "move_arm": {"target": "home"},
    "execute_trajectory": {"points": POINTS},
    "follow_joint_trajectory": {"points": POINTS},
    "gripper": {"command": "close"},
    "set_io": {"signal": "DO_lamp", "value": 1},
}


def message(**fields: Any) -> Any:
    """A message with these fields; dictionaries become messages as well."""
    return SimpleNamespace(**{k: message(**v) if isinstance(v, dict) else v for k, v in fields.items()})
