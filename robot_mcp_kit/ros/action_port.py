"""The action port over rclpy: the action's own services and topics, addressed by our own goal UUID.

Instead of rclpy's ActionClient this speaks
``<name>/_action/{send_goal,get_result,cancel_goal,feedback,status}`` directly: one code path for a new goal
and for one adopted after a restart, nothing kept per goal that could leak, and no feedback lost between
acceptance and the first callback.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from action_msgs.msg import GoalInfo, GoalStatusArray
from action_msgs.srv import CancelGoal
from rclpy.qos import QoSProfile, qos_profile_action_status_default
from unique_identifier_msgs.msg import UUID as UuidMsg

from robot_mcp_kit.bridge.base import (
    ActionPort,
    ActionPorts,
    CancelReply,
    GoalResponse,
    GoalResult,
    GoalWatch,
)
from robot_mcp_kit.ros.convert import build_message
from robot_mcp_kit.ros.interface_types import load_interface
from robot_mcp_kit.ros.service import PacedService
from robot_mcp_kit.ros.signals import OutputPort
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.skills.base import GoalStatus, StopTopic

logger = logging.getLogger(__name__)

_FEEDBACK_DEPTH = 1000  # ten seconds of 100 Hz: what a stalled process finds again when it goes on
_TAKEN_AFTER_S = 0.02  # a server that is alive has taken a request by then
_DECIDED_AFTER_S = 2.0  # a goal without an answer stops holding back others: its server may be a new one
_ASK_AGAIN_S = 1.0
_STOP_DEPTH = 10
_HELD_FEEDBACK = 1000  # per goal, should the loop stall; the oldest go first
_READY_POLL_S = 0.02
_TERMINAL = frozenset({GoalStatus.SUCCEEDED, GoalStatus.CANCELED, GoalStatus.ABORTED})


def _goal_id(goal_id: UUID) -> Any:
    return UuidMsg(uuid=list(goal_id.bytes))


class _Watch(GoalWatch):
    """Feedback and status of one goal, batched from the rclpy thread to the loop in order."""

    def __init__(
        self,
        port: RosActionPort,
        key: bytes,
        on_feedback: Callable[[Any], None],
        on_status: Callable[[int], None] | None,
        on_other: Callable[[], None] | None,
    ) -> None:
        self._port = port
        self.key = key
        self._on_feedback = on_feedback
        self._on_status = on_status
        self._on_other = on_other
        self._held: deque[Any] = deque(maxlen=_HELD_FEEDBACK)
        self._drain_is_due = False
        self._closed = False

    def feedback_from_ros(self, feedback: Any) -> None:
        """rclpy thread: hold the message until the loop's next batch."""
        self._held.append(feedback)
        if not self._drain_is_due:
            self._drain_is_due = True
            self._port.ros.hand_over_soon(self._drain)

    def _drain(self) -> None:
        self._drain_is_due = False
        while self._held and not self._closed:
            feedback = self._held.popleft()
            try:
                self._on_feedback(feedback)
            except Exception:
                logger.exception("reading feedback of %s failed", self._port.name)

    def status(self, status: int) -> None:
        if self._on_status is not None and not self._closed:
            self._on_status(status)

    def other_goal_executing(self) -> None:
        if self._on_other is not None and not self._closed:
            self._on_other()

    def close(self) -> None:
        self._closed = True
        self._held.clear()
        self._port.forget(self)


class RosActionPort(ActionPort):
    """One action server through its own services and topics. Build it on the rclpy thread."""

    def __init__(
        self, node: Any, ros: RosThread, name: str, type_name: str, stop: StopTopic | None = None
    ) -> None:
        self.name = name
        self.type_name = type_name
        self.ros = ros
        self._node = node
        self._action = load_interface(type_name)
        impl = self._action.Impl
        self._send = PacedService(
            ros, node, impl.SendGoalService, f"{name}/_action/send_goal", hold_s=_DECIDED_AFTER_S
        )
        self._result = PacedService(
            ros, node, impl.GetResultService, f"{name}/_action/get_result", hold_s=_TAKEN_AFTER_S
        )
        # Some servers answer a cancel only after the motion (MoveIt's ExecuteTrajectory).
        self._cancel = PacedService(
            ros, node, CancelGoal, f"{name}/_action/cancel_goal", hold_s=_TAKEN_AFTER_S, urgent=True
        )
        self._watches: dict[bytes, tuple[_Watch, ...]] = {}
        self._statuses: dict[bytes, int] = {}
        self._terminal: dict[bytes, asyncio.Future[None]] = {}
        feedback = node.create_subscription(
            impl.FeedbackMessage,
            f"{name}/_action/feedback",
            ros.guarded(self._feedback_from_ros),
            QoSProfile(depth=_FEEDBACK_DEPTH),
        )
        status = node.create_subscription(
            GoalStatusArray,
            f"{name}/_action/status",
            ros.guarded(self._status_from_ros),
            qos_profile_action_status_default,
        )
        self._subscriptions = (feedback, status)
        self._stop: tuple[Any, Any] | None = None
        self.has_stop_topic = stop is not None
        if stop is not None:
            # Made now: a publisher that is made for the stop itself has no subscriber yet.
            message = build_message(load_interface(stop.type), stop.fields)
            self._stop = (node.create_publisher(type(message), stop.topic, _STOP_DEPTH), message)

    def destroy(self) -> None:
        """Leave the action's services and topics. On the rclpy thread."""
        for service in (self._send, self._result, self._cancel):
            self._node.destroy_client(service.client)
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        if self._stop is not None:
            self._node.destroy_publisher(self._stop[0])

    def server_ready(self) -> bool:
        return self._send.ready() and self._result.ready() and self._cancel.ready()

    def servers(self) -> dict[bytes, str]:
        # Every action server publishes its own status topic. 33 us with one server.
        found = self._node.get_publishers_info_by_topic(f"{self.name}/_action/status")
        # The middleware may see a publisher a moment before it learns whose it is.
        return {
            bytes(info.endpoint_gid): "a node of unknown name"
            if "UNKNOWN" in info.node_name
            else f"{info.node_namespace.rstrip('/')}/{info.node_name}"
            for info in found
        }

    async def wait_for_server(self, timeout_s: float) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while not self.server_ready():
            left = end - loop.time()
            if left <= 0:
                return False
            await asyncio.sleep(min(_READY_POLL_S, left))
        return True

    def check_goal(self, fields: Mapping[str, Any]) -> None:
        build_message(self._action.Goal, fields)

    def has_place(self) -> bool:
        return self._send.has_place()

    async def reserve(self) -> None:
        await self._send.reserve()

    def give_back(self) -> None:
        self._send.give_back()

    async def send_goal(self, goal_id: UUID, fields: Mapping[str, Any]) -> GoalResponse:
        try:
            goal = build_message(self._action.Goal, fields)
            request = self._action.Impl.SendGoalService.Request(goal_id=_goal_id(goal_id), goal=goal)
        except BaseException:
            self._send.give_back()  # nothing leaves
            raise
        response = await self._send.call(request)
        return GoalResponse(accepted=bool(response.accepted))

    async def get_result(self, goal_id: UUID) -> GoalResult:
        request = self._action.Impl.GetResultService.Request(goal_id=_goal_id(goal_id))
        answer = await self._result.send(request)
        try:
            # A request or an answer lost on the way would be waited for until the end of time, so once the
            # status topic says that the goal ended, it is asked for again (asking does nothing to the goal).
            ended = self._ended(goal_id)
            await asyncio.wait({answer, ended}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({answer}, timeout=_ASK_AGAIN_S)
            if not answer.done():
                logger.warning("the result of goal %s of %s is late; asking again", goal_id, self.name)
                answer.cancel()
                response = await self._result.call_again(request, _ASK_AGAIN_S)
            else:
                response = answer.result()
        finally:
            answer.cancel()
            self._terminal.pop(goal_id.bytes, None)
        # The feedback that came before the result is told before it (B13).
        self.ros.run_batch()
        return GoalResult(status=int(response.status), result=response.result)

    def _ended(self, goal_id: UUID) -> asyncio.Future[None]:
        """Done once the status topic says that the goal is over."""
        future = self._terminal.setdefault(goal_id.bytes, asyncio.get_running_loop().create_future())
        if self._statuses.get(goal_id.bytes) in _TERMINAL and not future.done():
            future.set_result(None)
        return future

    async def cancel_goal(self, goal_id: UUID, *, only_this: bool = False) -> CancelReply:
        if self._stop is not None and not only_this:
            publisher, message = self._stop
            self.ros.guarded(lambda: publisher.publish(message))()
        request = CancelGoal.Request(goal_info=GoalInfo(goal_id=_goal_id(goal_id)))
        response = await self._cancel.call(request)
        return CancelReply(
            code=int(response.return_code),
            canceling=any(bytes(info.goal_id.uuid) == goal_id.bytes for info in response.goals_canceling),
        )

    def watch(
        self,
        goal_id: UUID,
        *,
        on_feedback: Callable[[Any], None],
        on_status: Callable[[int], None] | None = None,
        on_other_goal_executing: Callable[[], None] | None = None,
    ) -> GoalWatch:
        watch = _Watch(self, goal_id.bytes, on_feedback, on_status, on_other_goal_executing)
        # Whole values are replaced, never changed in place: the rclpy thread reads them without a lock.
        self._watches[watch.key] = (*self._watches.get(watch.key, ()), watch)
        known = self._statuses.get(watch.key)
        if known is not None:
            asyncio.get_running_loop().call_soon(watch.status, known)
        return watch

    def forget(self, watch: _Watch) -> None:
        """Stop delivering to ``watch``; called on the loop."""
        left = tuple(w for w in self._watches.get(watch.key, ()) if w is not watch)
        if left:
            self._watches[watch.key] = left
        else:
            self._watches.pop(watch.key, None)

    def _feedback_from_ros(self, message: Any) -> None:
        for watch in self._watches.get(bytes(message.goal_id.uuid), ()):
            watch.feedback_from_ros(message.feedback)

    def _status_from_ros(self, message: Any) -> None:
        statuses = {bytes(s.goal_info.goal_id.uuid): int(s.status) for s in message.status_list}
        self.ros.hand_over(lambda: self._apply_statuses(statuses))

    def _apply_statuses(self, statuses: dict[bytes, int]) -> None:
        self.ros.run_batch()
        before, self._statuses = self._statuses, statuses
        for key in [k for k in self._terminal if statuses.get(k) in _TERMINAL]:
            future = self._terminal.pop(key)
            if not future.done():
                future.set_result(None)
        for key, status in statuses.items():
            if before.get(key) == status:
                continue
            for watch in self._watches.get(key, ()):
                watch.status(status)
            if status == GoalStatus.EXECUTING:
                for other in [w for k, ws in self._watches.items() if k != key for w in ws]:
                    other.other_goal_executing()


class RosActionPorts(ActionPorts):
    """Ports by action name, each created once and kept for the life of the node."""

    def __init__(self, node: Any, ros: RosThread) -> None:
        self._node = node
        self._ros = ros
        self._ports: dict[str, RosActionPort | OutputPort] = {}

    async def create(
        self, action_name: str, action_type: str, stop: StopTopic | None = None
    ) -> RosActionPort | OutputPort:
        """As :meth:`add`, from the loop."""
        return await self._ros.call(lambda: self.add(action_name, action_type, stop))

    def add_outputs(self, port: OutputPort) -> None:
        """Take the port of the robot's outputs; it is closed with the others. On the rclpy thread."""
        self._ports[port.name] = port

    def add(
        self, action_name: str, action_type: str, stop: StopTopic | None = None
    ) -> RosActionPort | OutputPort:
        """Create an action's port ahead of its first use (discovery takes a moment). On the rclpy thread.

        Args:
            stop: what a cancel publishes as well; of the first who asks for this action.

        Raises:
            LookupError: a type cannot be imported, or the name is already used with another type.
        """
        name = str(self._node.resolve_service_name(action_name))
        known = self._ports.get(name)
        if known is None:
            load_interface(action_type)
            known = self._ports[name] = RosActionPort(self._node, self._ros, name, action_type, stop)
        if known.type_name != action_type:
            raise LookupError(f"the action '{name}' is configured as {known.type_name} and as {action_type}")
        return known

    async def ensure(self, action_name: str, action_type: str) -> ActionPort:
        return await self.create(action_name, action_type)

    def close(self) -> None:
        """Destroy every port's clients and subscriptions. On the rclpy thread, with no goal running."""
        for port in self._ports.values():
            port.destroy()
        self._ports.clear()

    def port(self, action_name: str, action_type: str) -> ActionPort:
        name = str(self._node.resolve_service_name(action_name))
        try:
            return self._ports[name]
        except KeyError:
            raise LookupError(f"no port was created for the action '{name}' ({action_type})") from None

    def readiness(self) -> dict[str, bool]:
        """Each configured action's full name, and whether its server is there."""
        return {name: port.server_ready() for name, port in self._ports.items()}

    def action_names(self) -> list[str]:
        suffix = "/_action/status"
        topics = self._node.get_topic_names_and_types()
        return sorted(name.removesuffix(suffix) for name, _ in topics if name.endswith(suffix))
