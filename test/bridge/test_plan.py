"""The plan of a goal on disk: plain JSON there, the same context back."""

from __future__ import annotations

import json

import pytest

from robot_mcp_kit.bridge.plan import plan_from_json, plan_to_json
from robot_mcp_kit.skills.base import GoalSpec, Pose2D
from robot_mcp_kit.skills.goal_pose import GoalPose


def test_poses_come_back_as_poses() -> None:
    pose = Pose2D(1.0, 2.0, 0.5, "map")
    spec = GoalSpec(
        {"field": 1}, "drive", 4.0, {"goals": [GoalPose(pose, "kitchen", True)], "target": pose, "note": None}
    )
    data = json.loads(json.dumps(plan_to_json(spec)))
    back = plan_from_json(data)
    assert (back.summary, back.est_duration_s, back.context) == ("drive", 4.0, spec.context)
    assert back.fields == {}, "an adopted goal is never sent"


@pytest.mark.parametrize("context", [{"x": object()}, {"x": {1: 2}}, {"x": {"$type": "Pose2D"}}, {"x": b""}])
def test_what_json_cannot_hold_is_planned_anew(context: dict[str, object]) -> None:
    assert plan_to_json(GoalSpec({}, "s", None, context)) is None


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"summary": "s", "est_duration_s": None, "context": {"x": {"$type": "os.system"}}},
        {"summary": "s", "est_duration_s": None, "context": {"x": {"$type": "Pose2D", "z": 1}}},
    ],
)
def test_a_plan_of_other_software_is_refused(data: dict[str, object]) -> None:
    """Nothing but the known types is made from what the file says."""
    with pytest.raises(ValueError, match="other software"):
        plan_from_json(data)
