"""Goals that one simulated server sends to another, through the real action interface.

Nav2's waypoint follower and docking server, and MoveIt, are action clients themselves; what others do to the
inner
server (preempt it, cancel all its goals) therefore reaches them, and must do so here.
"""

from __future__ import annotations

import threading
import uuid
from typing import Any

from action_msgs.msg import GoalInfo, GoalStatus
from action_msgs.srv import CancelGoal
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from unique_identifier_msgs.msg import UUID


class InnerGoal:
    """One goal sent to another server. Poll :attr:`done`."""

    def __init__(self, client: InnerClient) -> None:
        self._client = client
        self._id = UUID(uuid=list(uuid.uuid4().bytes))
        self._lock = threading.Lock()
        self._cancel_wanted = False
        self.accepted: bool | None = None
        self.status: int | None = None
        """GoalStatus of the end; ABORTED when the goal was not even accepted."""
        self.result: Any = None

    @property
    def done(self) -> bool:
        return self.status is not None

    @property
    def succeeded(self) -> bool:
        return self.status is not None and self.status == int(GoalStatus.STATUS_SUCCEEDED)

    def _send(self, goal: Any) -> None:
        request = self._client.types.SendGoalService.Request(goal_id=self._id, goal=goal)
        self._client.send.call_async(request).add_done_callback(self._on_response)

    def _on_response(self, future: Any) -> None:
        with self._lock:
            self.accepted = bool(future.result().accepted)
            wanted = self._cancel_wanted
        if not self.accepted:
            self.status = GoalStatus.STATUS_ABORTED
            return
        request = self._client.types.GetResultService.Request(goal_id=self._id)
        self._client.result.call_async(request).add_done_callback(self._on_result)
        if wanted:
            self._send_cancel(self._id)

    def _on_result(self, future: Any) -> None:
        response = future.result()
        self.result = response.result
        self.status = int(response.status)

    def cancel(self) -> None:
        """Ask the server to cancel this goal; as soon as it is accepted if it is not yet."""
        with self._lock:
            self._cancel_wanted = True
            if not self.accepted:
                return
        self._send_cancel(self._id)

    def cancel_all(self) -> None:
        """Ask the server to cancel *all* its goals, whoever sent them."""
        with self._lock:
            self._cancel_wanted = True
        self._send_cancel(UUID())

    def _send_cancel(self, goal_id: UUID) -> None:
        self._client.cancel.call_async(CancelGoal.Request(goal_info=GoalInfo(goal_id=goal_id)))


class InnerClient:
    """A raw client of one action, made once and kept."""

    def __init__(self, node: Node, action_type: Any, name: str) -> None:
        group = ReentrantCallbackGroup()
        self.types = action_type.Impl
        self.send = node.create_client(
            self.types.SendGoalService, f"{name}/_action/send_goal", callback_group=group
        )
        self.result = node.create_client(
            self.types.GetResultService, f"{name}/_action/get_result", callback_group=group
        )
        self.cancel = node.create_client(CancelGoal, f"{name}/_action/cancel_goal", callback_group=group)

    def ready(self) -> bool:
        """Whether all three services are matched."""
        return all(client.service_is_ready() for client in (self.send, self.result, self.cancel))

    def start(self, goal: Any) -> InnerGoal:
        """Send a goal; does not wait."""
        inner = InnerGoal(self)
        inner._send(goal)
        return inner
