"""Messages that tell nothing, or nonsense: what they would tell is not known, everything else still is."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.config.rcp import RcpTcpSection
from robot_mcp_kit.skills.geometry import Quaternion, quaternion_to_yaw
from robot_mcp_kit.skills.messages import planar
from robot_mcp_kit.skills.readings import NotKnown

pytestmark = pytest.mark.ros
NAN, INF, HUGE = math.nan, math.inf, 1e300
PARTS = ("robot", "gripper", "arm", "objects", "battery")
CONFIG = """
robot: {pose: {source: topic, topic: pose, type: geometry_msgs/msg/PoseWithCovarianceStamped}}
arms: {arm: {joints: {lift: {range_m: [0.0, 1.0]}, elbow: {range_rad: [-3.0, 3.0]}}}}
sensors:
  gripper: {topic: fingers, joint: finger, open_gap_m: 0.08, open_position: 1.0, closed_position: 0.0}
  arm: {topic: joints, arm: arm}
  battery: {topic: battery}
  perception: {topic: seen, min_confidence: 0.0}
"""


class Topics:
    """In place of a node: messages are handed to whoever subscribed, as rclpy would."""

    def __init__(self) -> None:
        self._heard: dict[str, list[Callable[[Any], None]]] = {}

    def create_subscription(self, _type: Any, topic: str, heard: Any, *_: Any, **__: Any) -> object:
        self._heard.setdefault(topic, []).append(heard)
        return object()

    def destroy_subscription(self, _: object) -> None:
        """Nothing to do."""

    def guarded(self, callback: Any) -> Any:
        return callback

    def tell(self, topic: str, message: Any) -> None:
        for heard in self._heard[topic]:
            heard(message)


def _message(type_name: str, fields: dict[str, Any]) -> Any:
    from robot_mcp_kit.ros.interface_types import load_interface

    message = load_interface(type_name)()
    _fill(message, fields)
    return message


def _fill(message: Any, fields: dict[str, Any]) -> None:
    """Without the checks that this project's own goals get."""
    for name, value in fields.items():
        if isinstance(value, dict):
            _fill(getattr(message, name), value)
        else:
            setattr(message, name, value)


def _pose(
    x: float = 1.0, y: float = 2.0, turn: tuple[float, ...] = (0, 0, 0, 1), variance: float = 0.0
) -> Any:
    message = _message(
        "geometry_msgs/msg/PoseWithCovarianceStamped",
        {
            "header": {"frame_id": "map"},
            "pose": {
                "pose": {
                    "position": {"x": x, "y": y},
                    "orientation": dict(zip("xyzw", map(float, turn), strict=True)),
                }
            },
        },
    )
    message.pose.covariance[0] = variance
    return message


def _joints(name: list[str], position: list[float]) -> Any:
    return _message("sensor_msgs/msg/JointState", {"name": name, "position": position})


def _battery(percentage: float) -> Any:
    return _message("sensor_msgs/msg/BatteryState", {"percentage": percentage})


def _detection(
    name: str = "cup", x: float = 1.0, scores: tuple[float, ...] = (0.9,), width: float = 0.1
) -> Any:
    found = _message("vision_msgs/msg/Detection3D", {"id": name, "bbox": {"size": {"y": width}}})
    for score in scores:
        guess = _message("vision_msgs/msg/ObjectHypothesisWithPose", {"hypothesis": {"score": score}})
        guess.pose.pose.position.x = x
        found.results.append(guess)
    return found


def _seen(*detections: Any, frame: str = "map") -> Any:
    message = _message("vision_msgs/msg/Detection3DArray", {"header": {"frame_id": frame}})
    message.detections = list(detections)
    return message


GOOD: dict[str, tuple[str, Callable[[], Any]]] = {
    "robot": ("pose", _pose),
    "gripper": ("fingers", lambda: _joints(["finger"], [0.5])),
    "arm": ("joints", lambda: _joints(["lift", "elbow"], [0.5, 1.0])),
    "battery": ("battery", lambda: _battery(0.5)),
    "objects": ("seen", lambda: _seen(_detection())),
}
BAD: list[tuple[str, str, Callable[[], Any]]] = [
    ("robot", "x is no number", lambda: _pose(x=NAN)),
    ("robot", "y without end", lambda: _pose(y=-INF)),
    ("robot", "a rotation of zeros", lambda: _pose(turn=(0, 0, 0, 0))),
    ("robot", "a rotation that is no number", lambda: _pose(turn=(0, 0, NAN, 1))),
    ("robot", "a rotation too large to reckon with", lambda: _pose(turn=(HUGE, HUGE, HUGE, HUGE))),
    ("gripper", "no positions", lambda: _joints(["finger"], [])),
    ("gripper", "fewer positions than names", lambda: _joints(["other", "finger"], [0.5])),
    ("gripper", "a position that is no number", lambda: _joints(["finger"], [NAN])),
    ("arm", "no positions", lambda: _joints(["lift", "elbow"], [])),
    ("arm", "one joint without end", lambda: _joints(["lift", "elbow"], [0.5, INF])),
    ("battery", "not measured", lambda: _battery(NAN)),
    ("battery", "without end", lambda: _battery(INF)),
]


class Rig:
    """A world over topics that the test tells."""

    def __init__(self) -> None:
        from robot_mcp_kit.ros.pose import TopicPose
        from robot_mcp_kit.ros.world import RosWorld

        self.topics, config = Topics(), parse_config(CONFIG)
        where = TopicPose(self.topics, self.topics, config.robot)  # type: ignore[arg-type]
        self.world = RosWorld(self.topics, self.topics, config, where)  # type: ignore[arg-type]

    def tell_good(self) -> None:
        for topic, make in GOOD.values():
            self.topics.tell(topic, make())

    def known(self) -> set[str]:
        snapshot, latest = self.world.snapshot(), self.world.latest()
        known = {part for part in PARTS if getattr(snapshot, part) is not None}
        assert known == {part for part in PARTS if getattr(latest, part) is not None}
        return known


@pytest.mark.parametrize(("part", "make"), [pytest.param(p, m, id=f"{p}: {n}") for p, n, m in BAD])
def test_a_message_that_cannot_be_read_takes_only_its_own_part(part: str, make: Callable[[], Any]) -> None:
    """L4, R13: not known instead of an error; with the next good message it is known again."""
    rig = Rig()
    rig.tell_good()
    assert rig.known() == set(PARTS)
    rig.topics.tell(GOOD[part][0], make())
    assert rig.known() == set(PARTS) - {part}
    rig.topics.tell(*(GOOD[part][0], GOOD[part][1]()))
    assert rig.known() == set(PARTS)


def test_one_bad_detection_does_not_hide_the_others() -> None:
    """L4, R13."""
    rig = Rig()
    bad = (
        _detection("far", x=NAN),
        _detection("unsure", scores=(NAN, INF)),
        _detection("guessed", scores=()),
        _detection("", x=1.0),
    )
    rig.topics.tell("seen", _seen(*bad, _detection("cup", scores=(NAN, 0.9)), _detection("box", width=INF)))
    objects = rig.world.snapshot().objects
    assert objects is not None
    assert [(seen.name, seen.confidence, seen.width_m) for seen in objects] == [
        ("cup", 0.9, 0.1),
        ("box", 0.9, None),
    ]


def test_a_broken_sensor_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """L4: at the rate of a sensor the log would hide everything else."""
    rig = Rig()
    rig.tell_good()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            for part, _name, make in BAD:
                rig.topics.tell(GOOD[part][0], make())
                rig.topics.tell("seen", _seen(_detection(x=NAN)))
                rig.world.snapshot()
                rig.world.latest()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said))
    for source in ("robot.pose.topic pose", "fingers", "joints", "battery", "detected object"):
        assert [words for words in said if source in words], source


numbers = st.floats() | st.sampled_from([NAN, INF, -INF, HUGE, -HUGE, 0.0])
names = st.lists(st.sampled_from(["finger", "lift", "elbow", "wheel"]), max_size=4)
states = st.builds(_joints, names, st.lists(numbers, max_size=4))
messages = st.one_of(
    st.tuples(
        st.just("pose"),
        st.builds(_pose, numbers, numbers, st.tuples(numbers, numbers, numbers, numbers), numbers),
    ),
    st.tuples(st.sampled_from(["fingers", "joints"]), states),
    st.tuples(st.just("battery"), st.builds(_battery, st.floats(width=32))),
    st.tuples(
        st.just("seen"),
        st.builds(
            _seen,
            st.builds(
                _detection,
                st.sampled_from(["", "cup"]),
                numbers,
                st.lists(numbers, max_size=2).map(tuple),
                numbers,
            ),
            frame=st.sampled_from(["", "map"]),
        ),
    ),
)


@given(st.lists(messages, max_size=4))
def test_the_world_can_be_asked_whatever_was_heard(heard: list[tuple[str, Any]]) -> None:
    """L4, R13: never an error, and what is known is made of finite numbers."""
    rig = Rig()
    rig.tell_good()
    told = {topic for topic, _ in heard}
    for topic, message in heard:
        rig.topics.tell(topic, message)
    assert {part for part, (topic, _) in GOOD.items() if topic not in told} <= rig.known()
    for known in (rig.world.snapshot(), rig.world.latest()):
        assert "NaN" not in known.model_dump_json()
        assert "Infinity" not in known.model_dump_json()
        assert known.robot is None or math.isfinite(known.robot.yaw_rad)


@given(st.tuples(numbers, numbers), st.tuples(numbers, numbers, numbers, numbers))
def test_a_pose_is_finite_or_none(at: tuple[float, ...], turn: tuple[float, ...]) -> None:
    """B21: also what feedback and results are read with."""
    position = SimpleNamespace(x=at[0], y=at[1])
    pose = planar(position, SimpleNamespace(**dict(zip("xyzw", turn, strict=True))), "map")
    assert pose is None or all(map(math.isfinite, (pose.x_m, pose.y_m, pose.yaw_rad)))
    quaternion_to_yaw(Quaternion(*turn))  # no error


@given(st.tuples(numbers, numbers, numbers), st.tuples(numbers, numbers, numbers, numbers))
def test_a_tool_pose_is_finite_or_not_known(at: tuple[float, ...], turn: tuple[float, ...]) -> None:
    """R13."""
    from robot_mcp_kit.ros.readings import TopicTool

    topics = Topics()
    section = RcpTcpSection(frame="base", topic="tool")
    tool = TopicTool(topics, topics, section)  # type: ignore[arg-type]
    fields = {
        "header": {"frame_id": "base"},
        "pose": {
            "position": dict(zip("xyz", at, strict=True)),
            "orientation": dict(zip("xyzw", turn, strict=True)),
        },
    }
    topics.tell("tool", _message("geometry_msgs/msg/PoseStamped", fields))
    try:
        pose = tool.pose()
    except NotKnown:
        return
    assert all(map(math.isfinite, (*pose.position_m, *pose.rotation)))
