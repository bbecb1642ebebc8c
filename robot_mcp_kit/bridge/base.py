"""Ports of the bridge: what one run of one goal needs from the world. Adapters live in ``ros/`` and
``testing/``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class GoalResponse:
    """Answer to a sent goal."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class GoalResult:
    """Answer to ``get_result``: ``status`` as on the wire (0 = the server does not know the goal)."""

    status: int
    result: Any
    """The result message itself, read by attribute."""


@dataclass(frozen=True, slots=True)
class CancelReply:
    """Answer to ``cancel_goal``.

    ``code``: ``action_msgs/srv/CancelGoal``: 0 none, 1 rejected, 2 unknown goal, 3 already terminated.
    ``canceling``: our goal is in ``goals_canceling`` (an rclpy server that refuses answers code 0 and an
    empty list).
    """

    code: int
    canceling: bool


class GoalWatch(abc.ABC):
    """A subscription to one goal's feedback and status. Closing it twice is harmless."""

    @abc.abstractmethod
    def close(self) -> None: ...


class ActionPort(abc.ABC):
    """One action server, addressed by goal UUID.

    All methods are called on the asyncio loop; callbacks of :meth:`watch` arrive on that loop too, in order.
    Awaiting methods may be cancelled; a cancelled ``send_goal`` may still reach the server.
    """

    name: str
    type_name: str
    has_stop_topic: bool = False
    """A cancel also publishes what stops other goals of the server."""

    @abc.abstractmethod
    def server_ready(self) -> bool:
        """Whether the action's services are matched right now. Cheap."""

    @abc.abstractmethod
    def servers(self) -> Mapping[bytes, str]:
        """The servers of this action that are there now, each with the full name of its node. Cheap.

        The key is a server's identity: one that is made anew has another one, also in the same node. More
        than one server is a fault of the graph (two robots of one name, B5). A server that was killed may
        stay in it until the middleware misses it (Fast DDS: 20 s). Empty where it cannot be told.
        """

    @abc.abstractmethod
    async def wait_for_server(self, timeout_s: float) -> bool:
        """Wait until :meth:`server_ready`; ``False`` after ``timeout_s``."""

    @abc.abstractmethod
    def check_goal(self, fields: Mapping[str, Any]) -> None:
        """Build the goal message and throw it away.

        Raises:
            GoalFieldError: a field that does not exist or does not hold that value; names the field's path.
        """

    def has_place(self) -> bool:
        """Whether :meth:`reserve` would not have to wait."""
        return True

    async def reserve(self) -> None:  # noqa: B027 - a port that holds nothing back has nothing to wait for
        """Wait until a goal can leave at once, and keep that place for the next :meth:`send_goal`."""

    def give_back(self) -> None:  # noqa: B027
        """The reserved place is not used."""

    @abc.abstractmethod
    async def send_goal(self, goal_id: UUID, fields: Mapping[str, Any]) -> GoalResponse:
        """Send one goal under our own UUID and wait for acceptance. Never call it twice for one UUID."""

    @abc.abstractmethod
    async def get_result(self, goal_id: UUID) -> GoalResult:
        """Wait for the terminal result. Never completes when the server dies: guard it with a watchdog."""

    @abc.abstractmethod
    async def cancel_goal(self, goal_id: UUID, *, only_this: bool = False) -> CancelReply:
        """Ask the server to cancel that goal. Handed to the ROS side before this first suspends.

        ``only_this``: without what stops other goals of the server as well (a stop topic).
        """

    @abc.abstractmethod
    def watch(
        self,
        goal_id: UUID,
        *,
        on_feedback: Callable[[Any], None],
        on_status: Callable[[int], None] | None = None,
        on_other_goal_executing: Callable[[], None] | None = None,
    ) -> GoalWatch:
        """Deliver that goal's feedback messages and status changes until closed.

        ``on_other_goal_executing``: some *other* goal of this server became EXECUTING (tells preemption
        apart).
        """


class ActionPorts(abc.ABC):
    """Finds the port of an action; ports are created once per action and kept for the life of the node."""

    @abc.abstractmethod
    def port(self, action_name: str, action_type: str) -> ActionPort:
        """Raises LookupError when the type cannot be imported, naming the missing package."""

    async def ensure(self, action_name: str, action_type: str) -> ActionPort:
        """As :meth:`port`, for an action that no configured skill uses: a goal of an earlier bridge may run
        there.
        """
        return self.port(action_name, action_type)

    @abc.abstractmethod
    def action_names(self) -> list[str]:
        """All action names in the graph now, for "did you mean"."""
