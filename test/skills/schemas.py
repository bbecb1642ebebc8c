"""Schemas of made-up interfaces, as the port gives them, without ROS."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.skills.goal_schema import GoalSchema, JsonSchema

MISSING = object()
INTEGERS = {"int32": (-(2**31), 2**31 - 1), "uint8": (0, 255), "int64": (-(2**53) + 1, 2**53 - 1)}


def scalar(ros_type: str, default: Any = MISSING, **more: Any) -> JsonSchema:
    """A field of that type; ``default``: written in the definition."""
    if ros_type in INTEGERS:
        low, high = INTEGERS[ros_type]
        schema: JsonSchema = {"type": "integer", "minimum": low, "maximum": high, "default": 0}
    elif ros_type.startswith("float"):
        schema = {"type": "number", "default": 0.0}
    elif ros_type == "bool":
        schema = {"type": "boolean", "default": False}
    else:
        schema = {"type": "string", "default": ""}
    if default is not MISSING:
        schema |= {"default": default, "x-explicit-default": True}
    return schema | {"x-ros-type": ros_type} | more


def message(ros_type: str, **fields: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "x-ros-type": ros_type,
        "properties": fields,
        "additionalProperties": False,
    }


def listed(items: JsonSchema, **bounds: int) -> JsonSchema:
    items = {key: value for key, value in items.items() if key != "default"}
    return {"type": "array", "items": items, "x-ros-type": f"{items['x-ros-type']}[]", "default": []} | bounds


def duration() -> JsonSchema:
    return message(
        "builtin_interfaces/msg/Duration",
        sec=scalar("int32"),
        nanosec=scalar("int32") | {"x-ros-type": "uint32"},
    )


def pose_stamped() -> JsonSchema:
    nanosec = scalar("int32") | {"minimum": 0}
    stamp = message("builtin_interfaces/msg/Time", sec=scalar("int32"), nanosec=nanosec)
    header = message("std_msgs/msg/Header", stamp=stamp, frame_id=scalar("string"))
    point = message("geometry_msgs/msg/Point", **{axis: scalar("float64") for axis in "xyz"})
    rotation = message(
        "geometry_msgs/msg/Quaternion",
        **{axis: scalar("float64", 1.0 if axis == "w" else 0.0) for axis in "xyzw"},
    )
    pose = message("geometry_msgs/msg/Pose", position=point, orientation=rotation)
    return message("geometry_msgs/msg/PoseStamped", header=header, pose=pose)


def grasp() -> JsonSchema:
    """A goal with one field of every kind."""
    nanosec = scalar("int32") | {"minimum": 0, "maximum": 999_999_999, "x-ros-type": "uint32"}
    return message(
        "arm_msgs/action/Grasp",
        target=pose_stamped(),
        width=scalar("float32", **{"x-unit": "m", "description": "Opening of the fingers"}),
        mode=scalar("uint8", **{"x-constants": {"SOFT": 1, "HARD": 2}}),
        speed=scalar("float64", 0.5),
        careful=scalar("bool"),
        label=scalar("string", maxLength=10),
        timeout=message("builtin_interfaces/msg/Duration", sec=scalar("int32"), nanosec=nanosec),
        fingers=listed(scalar("float64"), maxItems=4),
        via=listed(pose_stamped()),
        mask=listed(scalar("uint8")),
        stamp_ns=scalar("int64", 0),
    )


def grasp_feedback() -> JsonSchema:
    return message(
        "arm_msgs/action/Grasp",
        share=scalar("float32"),
        left=duration(),
        distance=scalar("float32"),
        at=pose_stamped(),
        phase=scalar("string"),
        samples=listed(scalar("float64")),
    )


def grasp_result() -> JsonSchema:
    return message(
        "arm_msgs/action/Grasp",
        success=scalar("bool"),
        error=message(
            "arm_msgs/msg/Error",
            code=scalar("int32", **{"x-constants": {"OK": 0, "SLIPPED": -3}}),
            text=scalar("string"),
        ),
        force=scalar("float32"),
    )


class Types(GoalSchema):
    """Knows ``arm_msgs/action/Grasp`` and nothing else."""

    def goal(self, action_type: str) -> JsonSchema:
        return self._known(action_type, grasp())

    def feedback(self, action_type: str) -> JsonSchema:
        return self._known(action_type, grasp_feedback())

    def result(self, action_type: str) -> JsonSchema:
        return self._known(action_type, grasp_result())

    def _known(self, action_type: str, schema: JsonSchema) -> JsonSchema:
        if action_type != "arm_msgs/action/Grasp":
            raise LookupError(f"the interface package of '{action_type}' is not installed")
        return schema
