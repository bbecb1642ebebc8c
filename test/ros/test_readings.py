"""Joints, tool and description over real rclpy: what is fresh, what is nonsense, and what says so."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.config.rcp import RcpSection
from robot_mcp_kit.skills.readings import NotKnown
from robot_mcp_kit.testing.eventually import assert_eventually

pytestmark = pytest.mark.ros

URDF = """<robot name="lathe">
  <joint name="waist" type="continuous"><limit velocity="1.5" effort="1"/></joint>
  <joint name="slide" type="prismatic"><limit lower="0.0" upper="0.4" velocity="0.2" effort="1"/></joint>
  <joint name="twin" type="revolute">
    <mimic joint="waist"/><limit lower="0" upper="1" velocity="1" effort="1"/>
  </joint>
  <joint name="bolt" type="fixed"/>
</robot>"""


class Robot:
    """Publishers of one robot."""

    def __init__(self, side: Any) -> None:
        from geometry_msgs.msg import PoseStamped
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from sensor_msgs.msg import JointState
        from std_msgs.msg import String

        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._side = side
        self._joints = side.node.create_publisher(JointState, "joint_states", 10)
        self._tool = side.node.create_publisher(PoseStamped, "tool_pose", 10)
        self._description = side.node.create_publisher(String, "robot_description", latched)

    def ready(self) -> bool:
        return bool(self._joints.get_subscription_count() and self._tool.get_subscription_count())

    async def joints(self, **positions: float) -> None:
        from sensor_msgs.msg import JointState

        message = JointState(name=list(positions), position=[float(value) for value in positions.values()])
        await self._side.thread.call(lambda: self._joints.publish(message))

    async def tool(self, frame: str = "base_link", x: float = 0.5, **q: float) -> None:
        from robot_mcp_kit.ros.convert import build_message
        from robot_mcp_kit.ros.interface_types import load_interface

        type_ = load_interface("geometry_msgs/msg/PoseStamped")
        fields = {"header": {"frame_id": frame}, "pose": {"orientation": q or {"w": 1.0}}}
        message = build_message(type_, fields)
        message.pose.position.x = x
        await self._side.thread.call(lambda: self._tool.publish(message))

    async def description(self, text: str) -> None:
        from std_msgs.msg import String

        await self._side.thread.call(lambda: self._description.publish(String(data=text)))


async def _made(side: Any, **section: Any) -> tuple[Robot, Any]:
    from robot_mcp_kit.ros.readings import RosReadings
    from robot_mcp_kit.ros.signals import RosSignals

    robot = await side.thread.call(lambda: Robot(side))
    signals = await side.thread.call(lambda: RosSignals(side.node, side.thread, {}))
    rcp = RcpSection(**section)
    readings = await side.thread.call(lambda: RosReadings(side.node, side.thread, rcp, signals))
    await assert_eventually(robot.ready)
    return robot, readings


def _known(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except NotKnown:
        return None


async def test_what_was_not_heard_names_its_topic(ros_side: Any) -> None:
    """R13."""
    _, readings = await _made(ros_side)
    for read, topic in (
        (readings.joints, "joint_states"),
        (readings.tool, "tool_pose"),
        (readings.description, "robot_description"),
    ):
        with pytest.raises(NotKnown, match=f"heard on {topic} yet"):
            read()


async def test_joints_of_several_publishers_come_together(ros_side: Any) -> None:
    """R15: the arm's and the gripper's broadcasters each tell their own."""
    robot, readings = await _made(ros_side)
    await robot.joints(waist=0.1, slide=0.2)
    await robot.joints(finger=0.03)
    await assert_eventually(lambda: len(_known(readings.joints) or {}) == 3)
    assert dict(readings.joints()) == {"waist": 0.1, "slide": 0.2, "finger": 0.03}
    await robot.joints(waist=math.nan)
    await assert_eventually(lambda: "waist" not in readings.joints())


async def test_old_joints_are_not_known(ros_side: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R13."""
    from robot_mcp_kit.ros import readings as module

    robot, readings = await _made(ros_side)
    await robot.joints(waist=0.1)
    await robot.tool()
    await assert_eventually(lambda: _known(readings.joints) and _known(readings.tool))
    real = module.time.monotonic
    monkeypatch.setattr(module.time, "monotonic", lambda: real() + 30.0)
    for read, topic in ((readings.joints, "joint_states"), (readings.tool, "tool_pose")):
        with pytest.raises(NotKnown, match=rf"nothing was heard on {topic} for 3\d\.\d s"):
            read()


async def test_a_pose_in_another_frame_or_without_sense_is_not_used(ros_side: Any) -> None:
    """R14: nobody takes millimetres of another frame for the base's."""
    robot, readings = await _made(ros_side)
    await robot.tool(z=math.sin(0.5), w=math.cos(0.5))
    await assert_eventually(lambda: _known(readings.tool))
    assert readings.tool().position_m == (0.5, 0.0, 0.0)
    assert readings.tool().rotation.z == pytest.approx(math.sin(0.5))
    for frame, x, q, words in (
        ("world", 0.5, {"w": 1.0}, "is in the frame 'world', not in 'base_link'"),
        ("base_link", math.nan, {"w": 1.0}, "tells no pose"),
        ("base_link", 0.5, {"w": 0.5}, "tells no pose"),
    ):
        await robot.tool(frame, x, **q)

        def refused(words: str = words) -> bool:
            try:
                readings.tool()
            except NotKnown as error:
                return words in str(error)
            return False

        await assert_eventually(refused)


async def test_the_description_tells_name_kinds_and_limits(ros_side: Any) -> None:
    """R14: continuous joints have no limits, sliding ones are metres, mimics and fixed ones are left out."""
    robot, readings = await _made(ros_side)
    await robot.description(URDF)
    await assert_eventually(lambda: _known(readings.description))
    found = readings.description()
    assert found.name == "lathe"
    assert {name: (one.slides, one.lower, one.upper, one.speed) for name, one in found.joints.items()} == {
        "waist": (False, None, None, 1.5),
        "slide": (True, 0.0, 0.4, 0.2),
    }
    await robot.description("<robot name='broken'")
    await assert_eventually(lambda: _known(readings.description) is None)


async def test_tf_without_tf2_ros_says_what_to_install(ros_side: Any) -> None:
    if importlib.util.find_spec("tf2_ros") is not None:
        pytest.skip("tf2_ros is installed here")
    with pytest.raises(ConfigError, match=r"rcp\.tcp\.source: tf needs tf2_ros"):
        await _made(ros_side, tcp={"source": "tf"})


async def test_tf_is_asked_for_the_tool_and_its_age_counts(
    ros_side: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R14: with the interface of tf2_ros, as it is not among the packages that can be installed here."""
    import sys
    from types import ModuleType, SimpleNamespace

    from robot_mcp_kit.ros.readings import TfTool
    from robot_mcp_kit.skills.config.rcp import RcpTcpSection

    class TransformException(Exception):
        pass

    class Buffer:
        found: Any = None

        def lookup_transform(self, target: str, source: str, _time: Any) -> Any:
            assert (target, source) == ("base_link", "tool0")
            if Buffer.found is None:
                raise TransformException("two unconnected trees")
            return Buffer.found

    tf2 = ModuleType("tf2_ros")
    tf2.Buffer, tf2.TransformException = Buffer, TransformException  # type: ignore[attr-defined]
    tf2.TransformListener = lambda _buffer, _node: SimpleNamespace(unregister=lambda: None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tf2_ros", tf2)
    tool = TfTool(ros_side.node, ros_side.thread, RcpTcpSection(source="tf"))
    with pytest.raises(NotKnown, match="no transform from base_link to tool0: two unconnected trees"):
        tool.pose()

    def stamped(stamp: Any) -> Any:
        from geometry_msgs.msg import TransformStamped

        found = TransformStamped()
        found.header.stamp = stamp.to_msg()
        found.transform.translation.z = 0.7
        found.transform.rotation.w = 1.0
        return found

    from rclpy.duration import Duration

    now = ros_side.node.get_clock().now()
    Buffer.found = stamped(now)
    assert tool.pose().position_m == (0.0, 0.0, 0.7)
    Buffer.found = stamped(now - Duration(seconds=60.0))
    with pytest.raises(NotKnown, match=r"is 6\d\.\d s old"):
        tool.pose()
    tool.close()
