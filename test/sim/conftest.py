"""One simulated robot at twenty times real time serves all tests of this folder, through raw rclpy entities.

The client speaks the action's own services and topics under its own goal ids, so that nothing of an action
client
stands between a test and what the server really says.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from robot_mcp_kit.sim.domain import reserved_domain
from robot_mcp_kit.sim.process import SimProcess

FACTOR = 20.0
PATIENCE_S = 40.0

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6


class Goal:
    """One goal as a client sees it."""

    def __init__(self, action: Action, message: Any) -> None:
        self.action = action
        self.id = uuid.uuid4().bytes
        self.feedback: list[Any] = []
        self.feedback_at_end: int | None = None
        self.statuses: list[int] = []
        action.goals[self.id] = self
        types = action.types
        request = types.SendGoalService.Request(goal_id=action.robot.uuid(self.id), goal=message)
        self.response = action.send.call_async(request)
        self._result: Any = None

    @property
    def accepted(self) -> bool:
        return bool(self.action.robot.wait(self.response).accepted)

    def end(self) -> tuple[int, Any]:
        """Status and result message of the end."""
        assert self.accepted
        if self._result is None:
            request = self.action.types.GetResultService.Request(goal_id=self.action.robot.uuid(self.id))
            self._result = self.action.result.call_async(request)
        response = self.action.robot.wait(self._result)
        if self.feedback_at_end is None:
            self.feedback_at_end = len(self.feedback)
        return int(response.status), response.result

    def ask_cancel(self) -> Any:
        """The cancel reply."""
        from action_msgs.msg import GoalInfo
        from action_msgs.srv import CancelGoal

        request = CancelGoal.Request(goal_info=GoalInfo(goal_id=self.action.robot.uuid(self.id)))
        return self.action.robot.wait(self.action.cancel.call_async(request))

    def cancel(self) -> bool:
        """Whether the server agreed to cancel this goal."""
        return any(bytes(info.goal_id.uuid) == self.id for info in self.ask_cancel().goals_canceling)

    def until_feedback(self, wanted: Callable[[Any], bool] = lambda _: True) -> Any:
        """Wait for a feedback message that satisfies something, and return it."""
        self.action.robot.until(lambda: any(wanted(f) for f in self.feedback), "feedback")
        return next(f for f in self.feedback if wanted(f))


class Action:
    """The services and topics of one action."""

    def __init__(self, robot: Robot, action_type: Any, name: str) -> None:
        from action_msgs.msg import GoalStatusArray
        from action_msgs.srv import CancelGoal
        from rclpy.qos import qos_profile_action_status_default

        self.robot, self.types, self.type = robot, action_type.Impl, action_type
        node = robot.node
        self.goals: dict[bytes, Goal] = {}
        self.send = node.create_client(self.types.SendGoalService, f"{name}/_action/send_goal")
        self.result = node.create_client(self.types.GetResultService, f"{name}/_action/get_result")
        self.cancel = node.create_client(CancelGoal, f"{name}/_action/cancel_goal")
        node.create_subscription(
            self.types.FeedbackMessage, f"{name}/_action/feedback", self._on_feedback, 1000
        )
        node.create_subscription(
            GoalStatusArray, f"{name}/_action/status", self._on_status, qos_profile_action_status_default
        )
        clients = (self.send, self.result, self.cancel)
        robot.until(lambda: all(c.service_is_ready() for c in clients), f"server {name}")

    def _on_feedback(self, message: Any) -> None:
        goal = self.goals.get(bytes(message.goal_id.uuid))
        if goal is not None:
            goal.feedback.append(message.feedback)

    def _on_status(self, message: Any) -> None:
        for status in message.status_list:
            goal = self.goals.get(bytes(status.goal_info.goal_id.uuid))
            if goal is not None and goal.statuses[-1:] != [status.status]:
                goal.statuses.append(int(status.status))


class Robot:
    """A client node, spun by whoever waits."""

    def __init__(self, process: SimProcess, domain: int) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        self.process = process
        self.context = rclpy.Context()
        self.context.init(domain_id=domain)
        self.node = rclpy.create_node("test_client", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._actions: dict[str, Action] = {}
        self._services: dict[str, Any] = {}

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()

    @staticmethod
    def uuid(data: bytes) -> Any:
        from unique_identifier_msgs.msg import UUID

        return UUID(uuid=list(data))

    def until(self, true: Callable[[], bool], what: str = "that", patience_s: float = PATIENCE_S) -> None:
        """Spin until something is true; fails the test when it takes too long."""
        give_up = time.monotonic() + patience_s
        while not true():
            if time.monotonic() > give_up:
                pytest.fail(f"waited {patience_s:g} s in vain for {what}; {self.process.output[-5:]}")
            self.executor.spin_once(timeout_sec=0.1)

    def wait(self, future: Any) -> Any:
        self.until(future.done, "an answer")
        return future.result()

    def send(self, action_type: Any, name: str, **fields: Any) -> Goal:
        """Send a goal; does not wait."""
        if name not in self._actions:
            self._actions[name] = Action(self, action_type, name)
        return Goal(self._actions[name], action_type.Goal(**fields))

    def call(self, service: Any, name: str, request: Any) -> Any:
        if name not in self._services:
            self._services[name] = self.node.create_client(service, name)
            self.until(self._services[name].service_is_ready, f"service {name}")
        return self.wait(self._services[name].call_async(request))

    def trigger(self, name: str) -> Any:
        from std_srvs.srv import Trigger

        return self.call(Trigger, f"robot_sim/{name}", Trigger.Request())

    def state(self) -> dict[str, Any]:
        """The simulation's truth."""
        state: dict[str, Any] = json.loads(self.trigger("state").message)
        return state

    def set(self, **values: Any) -> list[str]:
        """Set parameters; the reasons of those that were refused."""
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter

        messages = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        request = SetParameters.Request(parameters=messages)
        response = self.call(SetParameters, "robot_sim/set_parameters", request)
        return [result.reason for result in response.results if not result.successful]

    def reset(self) -> None:
        """A healthy robot at its start pose."""
        self.set(stop_on_failure=True, allow_stalling=False, gripper_feedback=False)
        assert self.trigger("reset_faults").success
        self.until(lambda: bool(self.trigger("reset_world").success), "all goals to end")

    def pose(self, x_m: float, y_m: float, yaw_rad: float = 0.0, frame: str = "map") -> Any:
        from robot_mcp_kit.sim import messages
        from robot_mcp_kit.sim.floorplan import Pose

        return messages.pose_stamped(Pose(x_m, y_m, yaw_rad), frame, 0.0)

    def navigate(
        self, x_m: float, y_m: float, yaw_rad: float = 0.0, frame: str = "map", **fields: Any
    ) -> Goal:
        from nav2_msgs.action import NavigateToPose

        return self.send(
            NavigateToPose, "navigate_to_pose", pose=self.pose(x_m, y_m, yaw_rad, frame), **fields
        )


@pytest.fixture(scope="session")
def shared_robot() -> Iterator[Robot]:
    with reserved_domain() as domain, SimProcess(domain_id=domain, real_time_factor=FACTOR) as process:
        robot = Robot(process, domain)
        yield robot
        robot.close()


@pytest.fixture
def robot(shared_robot: Robot) -> Iterator[Robot]:
    """The shared robot, put back to its start before the test; it must not have failed inside afterwards."""
    shared_robot.reset()
    yield shared_robot
    shared_robot.trigger("reset_faults")
    for action in shared_robot._actions.values():
        for goal in action.goals.values():
            if goal.response.done() and goal.response.result().accepted and goal._result is None:
                goal.cancel()
        action.goals.clear()
    state = shared_robot.state()
    assert state["errors"] == []


@pytest.fixture
def make_robot() -> Iterator[Callable[[SimProcess, int], Robot]]:
    """Clients of processes that a test starts itself; closed afterwards."""
    made: list[Robot] = []

    def make(process: SimProcess, domain: int) -> Robot:
        made.append(Robot(process, domain))
        return made[-1]

    yield make
    for robot in made:
        robot.close()
