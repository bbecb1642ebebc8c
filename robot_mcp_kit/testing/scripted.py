"""A scripted action server behind the bridge's port: no ROS, every step written by the test.

Example::

    port = ScriptedPort("/navigate_to_pose", "nav2_msgs/action/NavigateToPose")
    bridge = Bridge(manager, ScriptedPorts(port), config)
    info = await bridge.start("navigate_to", {"place": "kitchen"})
    goal = await port.next_goal()
    goal.feedback(message)
    goal.finish(GoalStatus.SUCCEEDED, result)
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal
from uuid import UUID

from robot_mcp_kit.bridge.base import (
    ActionPort,
    ActionPorts,
    CancelReply,
    GoalResponse,
    GoalResult,
    GoalWatch,
)
from robot_mcp_kit.bridge.waiting import first_of
from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.errors import GoalFieldError
from robot_mcp_kit.skills.base import GoalStatus

Acceptance = Literal["accept", "reject", "hold"]
"""``hold``: no answer until the test calls :meth:`ScriptedGoal.accept` or :meth:`ScriptedGoal.reject`."""

CancelPolicy = Literal["stop", "agree", "reject", "refuse", "unknown", "terminated", "silent"]
"""What a cancel does.

``stop``: agree and end as CANCELED; ``agree``: agree and go on; ``reject``: code 1; ``refuse``: code 0 with
an empty list, as rclpy servers do; ``unknown``: code 2; ``terminated``: code 3; ``silent``: never answer.
"""


class _Watch(GoalWatch):
    def __init__(
        self,
        port: ScriptedPort,
        goal_id: UUID,
        on_feedback: Callable[[Any], None],
        on_status: Callable[[int], None] | None,
        on_other: Callable[[], None] | None,
    ) -> None:
        self._port, self.goal_id = port, goal_id
        self.on_feedback, self.on_status, self.on_other = on_feedback, on_status, on_other

    def close(self) -> None:
        self._port.watches = [watch for watch in self._port.watches if watch is not self]


@dataclass(slots=True, eq=False)
class ScriptedGoal:
    """One goal as the server sees it. Its methods act at once."""

    port: ScriptedPort
    goal_id: UUID
    fields: dict[str, Any]
    answer: asyncio.Future[GoalResponse] = field(repr=False)
    result: asyncio.Future[GoalResult] = field(repr=False)
    accepted: bool = False

    def accept(self) -> None:
        """Answer the goal: accepted and executing. On a server with one goal at a time the older one is
        aborted.
        """
        self.accepted = True
        self.port.begin_executing(self)
        if not self.answer.done():
            self.answer.set_result(GoalResponse(accepted=True))

    def take_without_answer(self) -> None:
        """The server takes the goal, the answer is lost."""
        self.accepted = True
        self.port.begin_executing(self)

    def reject(self) -> None:
        """Answer the goal: refused."""
        if not self.answer.done():
            self.answer.set_result(GoalResponse(accepted=False))

    def feedback(self, message: Any) -> None:
        """Publish one feedback message."""
        for watch in self.port.watches_of(self.goal_id):
            watch.on_feedback(message)

    def status(self, status: int) -> None:
        """Publish a status."""
        for watch in self.port.watches_of(self.goal_id):
            if watch.on_status is not None:
                watch.on_status(status)

    def finish(self, status: int, result: Any = None) -> None:
        """End with that status; a second end does nothing."""
        if not self.result.done():
            message = SimpleNamespace(error_code=0, error_msg="") if result is None else result
            self.result.set_result(GoalResult(status, message))
            self.status(status)


class ScriptedPort(ActionPort):
    """One action server that does what the test says.

    Args:
        name: resolved action name.
        type_name: action type.
        clock: for :meth:`wait_for_server`.
        one_at_a_time: a newly accepted goal aborts the one that runs, with an empty result, as Nav2 does.
    """

    def __init__(
        self,
        name: str = "/navigate_to_pose",
        type_name: str = "nav2_msgs/action/NavigateToPose",
        *,
        clock: Clock | None = None,
        one_at_a_time: bool = True,
    ) -> None:
        self.name = name
        self.type_name = type_name
        self.acceptance: deque[Acceptance | Exception] = deque()
        """What happens to the next goals; when it is used up, goals are accepted."""
        self.cancel_policy: CancelPolicy = "stop"
        self.stops = 0
        """Cancels that may stop other goals of the server as well."""
        self.bad_field: GoalFieldError | None = None
        """Raised by :meth:`check_goal`."""
        self.goals: list[ScriptedGoal] = []
        """Everything sent, in order."""
        self.wire: list[tuple[str, UUID]] = []
        """Requests in the order in which they left: ``send``, ``cancel``, ``get_result``."""
        self.watches: list[_Watch] = []
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._one_at_a_time = one_at_a_time
        self._ready = asyncio.Event()
        self._ready.set()
        self._arrived = asyncio.Event()
        self._forgotten: set[UUID] = set()
        self._made = itertools.count(1)
        self._present = [next(self._made)]
        """Numbers of the servers in sight; the first has the goals, dead or alive."""

    # -- the test's side --------------------------------------------------------------------------

    async def next_goal(self, count: int = 1) -> ScriptedGoal:
        """Wait until ``count`` goals in all were sent, and return that one."""
        while len(self.goals) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self.goals[count - 1]

    def requests(self, kind: str) -> list[UUID]:
        """Goal ids of the requests of that kind, in order."""
        return [goal_id for made, goal_id in self.wire if made == kind]

    def die(self) -> None:
        """The server disappears; nothing that is asked of it is ever answered."""
        self._ready.clear()

    def come_back(self, *, remembers: bool = False) -> None:
        """It is there again; unless it ``remembers`` (was only out of sight), it is another one that knows no
        goal. Without :meth:`die` before, it was made anew without a gap.
        """
        if not remembers:
            self._forgotten.update(goal.goal_id for goal in self.goals)
            self._present = [next(self._made)]
        self._ready.set()

    def crash_and_respawn(self) -> None:
        """It dies and another takes its place at once, which knows no goal; the dead one stays in sight until
        :meth:`dead_one_leaves`.
        """
        self.join()
        self._forgotten.update(goal.goal_id for goal in self.goals)

    def dead_one_leaves(self) -> None:
        """The middleware misses the server that died."""
        self._present.pop(0)

    def join(self) -> None:
        """A second server of the same name comes; it answers first, and knows no goal of the first one."""
        self._present.append(next(self._made))

    def leave(self) -> None:
        """The second server goes."""
        self._present.pop()

    def forget(self, goal: ScriptedGoal) -> None:
        """The goal's result expires: asked for it, the server answers status 0."""
        self._forgotten.add(goal.goal_id)

    def other_client_takes_over(self) -> None:
        """Another client's goal starts: ours is aborted with an empty result, as Nav2 does it."""
        for watch in list(self.watches):
            if watch.on_other is not None:
                watch.on_other()
        for goal in self.goals:
            if goal.accepted:
                goal.finish(GoalStatus.ABORTED)

    def begin_executing(self, goal: ScriptedGoal) -> None:
        """The goal starts; called by :class:`ScriptedGoal`."""
        goal.status(GoalStatus.EXECUTING)
        for watch in list(self.watches):
            if watch.goal_id != goal.goal_id and watch.on_other is not None:
                watch.on_other()
        if self._one_at_a_time:
            for older in self.goals:
                if older is not goal and older.accepted:
                    older.finish(GoalStatus.ABORTED)

    def watches_of(self, goal_id: UUID) -> list[_Watch]:
        """Open subscriptions to one goal."""
        return [watch for watch in self.watches if watch.goal_id == goal_id]

    # -- the bridge's side ------------------------------------------------------------------------

    def server_ready(self) -> bool:
        return self._ready.is_set()

    def servers(self) -> dict[bytes, str]:
        if not self._ready.is_set():
            return {}
        return {bytes([made]): f"/server_{n}" for n, made in enumerate(self._present)}

    async def wait_for_server(self, timeout_s: float) -> bool:
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await first_of(self._clock, ready, timeout_s=timeout_s)
        finally:
            ready.cancel()
        return self._ready.is_set()

    def check_goal(self, fields: Mapping[str, Any]) -> None:  # noqa: ARG002
        if self.bad_field is not None:
            raise self.bad_field

    async def send_goal(self, goal_id: UUID, fields: Mapping[str, Any]) -> GoalResponse:
        if any(goal.goal_id == goal_id for goal in self.goals):
            raise AssertionError(f"the goal {goal_id} was sent twice")
        loop = asyncio.get_running_loop()
        goal = ScriptedGoal(self, goal_id, dict(fields), loop.create_future(), loop.create_future())
        self.goals.append(goal)
        self.wire.append(("send", goal_id))
        self._arrived.set()
        decision = self.acceptance.popleft() if self.acceptance else "accept"
        if isinstance(decision, Exception):
            raise decision
        if self._ready.is_set():
            if decision == "accept":
                goal.accept()
            elif decision == "reject":
                goal.reject()
        return await asyncio.shield(goal.answer)

    async def get_result(self, goal_id: UUID) -> GoalResult:
        self.wire.append(("get_result", goal_id))
        if not self._ready.is_set():
            await asyncio.get_running_loop().create_future()
        goal = self._known(goal_id)
        other_answers = len(self._present) > 1 and goal is not None and not goal.result.done()
        if goal is None or not goal.accepted or other_answers:
            return GoalResult(GoalStatus.UNKNOWN, SimpleNamespace(error_code=0, error_msg=""))
        return await asyncio.shield(goal.result)

    async def cancel_goal(self, goal_id: UUID, *, only_this: bool = False) -> CancelReply:
        if not only_this:
            self.stops += 1
        reply = await self._cancel(goal_id)
        return reply if len(self._present) == 1 else CancelReply(code=2, canceling=False)

    async def _cancel(self, goal_id: UUID) -> CancelReply:
        self.wire.append(("cancel", goal_id))
        if not self._ready.is_set() or self.cancel_policy == "silent":
            await asyncio.get_running_loop().create_future()
        goal = self._known(goal_id)
        if goal is None or not goal.accepted or self.cancel_policy == "unknown":
            return CancelReply(code=2, canceling=False)
        if goal.result.done() or self.cancel_policy == "terminated":
            return CancelReply(code=3, canceling=False)
        if self.cancel_policy == "reject":
            return CancelReply(code=1, canceling=False)
        if self.cancel_policy == "refuse":
            return CancelReply(code=0, canceling=False)
        if self.cancel_policy == "stop":
            asyncio.get_running_loop().call_soon(goal.finish, GoalStatus.CANCELED)
        return CancelReply(code=0, canceling=True)

    def watch(
        self,
        goal_id: UUID,
        *,
        on_feedback: Callable[[Any], None],
        on_status: Callable[[int], None] | None = None,
        on_other_goal_executing: Callable[[], None] | None = None,
    ) -> GoalWatch:
        watch = _Watch(self, goal_id, on_feedback, on_status, on_other_goal_executing)
        self.watches.append(watch)
        return watch

    def _known(self, goal_id: UUID) -> ScriptedGoal | None:
        if goal_id in self._forgotten:
            return None
        return next((goal for goal in self.goals if goal.goal_id == goal_id), None)


class ScriptedPorts(ActionPorts):
    """The graph: these ports and no others. Names are found with or without their leading slash."""

    def __init__(self, *ports: ScriptedPort) -> None:
        self.ports = ports

    def port(self, action_name: str, action_type: str) -> ActionPort:
        for port in self.ports:
            if port.name.lstrip("/") == action_name.lstrip("/") and port.type_name == action_type:
                return port
        raise LookupError(f"no port for the action '{action_name}' ({action_type})")

    def action_names(self) -> list[str]:
        return sorted(port.name for port in self.ports if port.server_ready())
