"""What all simulated action servers share: one worker, one goal in work, one pending, as Nav2's
SimpleActionServer.

Every accepted goal gets a :class:`Slot`. The server's worker thread runs one slot at a time; a goal that
arrives
meanwhile is *pending* until the running one notices it (``preempted``) and either is replaced in place or
ended.
The executor's own threads only wait for the slot to end and hand the result to rclpy.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import RCLError, ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup

if TYPE_CHECKING:
    from robot_mcp_kit.sim.node import RobotSim

End = Literal["succeeded", "canceled", "aborted"]


class SimulationEnded(Exception):
    """The simulation is shutting down: leave the goal's loop."""


class Slot:
    """One accepted goal from acceptance to its result."""

    def __init__(self, server: SimActionServer, handle: ServerGoalHandle) -> None:
        self.server = server
        self.handle = handle
        self.request: Any = handle.request
        self.accepted_s = server.sim.clock.now_s
        self.started_s = self.accepted_s
        self.finished = threading.Event()
        self.result: Any = None
        self._cancel_from_s: float | None = None
        self._lock = threading.Lock()

    @property
    def key(self) -> bytes:
        return bytes(self.handle.goal_id.uuid)

    def note_cancel(self, effective_s: float) -> None:
        """A cancel request was accepted; the loop may see it from that simulation time on."""
        if self._cancel_from_s is None:
            self._cancel_from_s = effective_s

    @property
    def cancel_requested(self) -> bool:
        if self._cancel_from_s is None or not self.handle.is_cancel_requested:
            return False
        return self.server.sim.clock.now_s >= self._cancel_from_s

    def feedback(self, message: Any) -> None:
        """Publish feedback unless that is switched off."""
        faults = self.server.sim.world.faults
        if faults.silent_feedback and faults.touches(self.server.name):
            return
        self.handle.publish_feedback(message)

    def end(self, how: End, result: Any = None) -> bool:
        """Put the goal into its terminal state, once. ``False`` if it already was.

        Canceled is only possible for a goal somebody asked to cancel: others abort instead, as in Nav2.
        """
        with self._lock:
            if self.finished.is_set():
                return False
            self.result = result if result is not None else self.server.action_type.Result()
            try:
                if how == "succeeded":
                    self.handle.succeed()
                elif how == "canceled" and self.handle.is_cancel_requested:
                    self.handle.canceled()
                else:
                    self.handle.abort()
            except RCLError as error:  # pragma: no cover  the context is gone while shutting down
                self.server.log.warning(f"goal could not end as {how}: {error}")
            self.finished.set()
            return True


class SimActionServer(abc.ABC):
    """One simulated action server. Subclasses implement :meth:`run` for one goal.

    ``rate_hz``: how often the loop looks at cancels and publishes feedback, in simulation time, and never
    more
    than 100 times a second of wall time.
    """

    rate_hz: float = 10.0

    def __init__(self, sim: RobotSim, name: str, action_type: Any) -> None:
        self.sim = sim
        self.name = name
        self.action_type = action_type
        self.world = sim.world
        self.clock = sim.clock
        self.log = sim.get_logger().get_child(name.replace("/", "."))
        self.current: Slot | None = None
        self._pending: Slot | None = None
        self._slots: dict[bytes, Slot] = {}
        self._condition = threading.Condition()
        self._closed = False
        self.server = ActionServer(
            sim,
            action_type,
            name,
            self._execute,
            goal_callback=self._on_goal,
            handle_accepted_callback=self._on_accepted,
            cancel_callback=self._on_cancel,
            callback_group=ReentrantCallbackGroup(),
            result_timeout=sim.result_timeout_s,
        )
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    # -- callbacks of rclpy ------------------------------------------------------------------------

    def _on_goal(self, request: Any) -> GoalResponse:
        faults = self.world.faults
        refused = not faults.active or (faults.reject_goals and faults.touches(self.name))
        if refused or self._closed or not self.acceptable(request):
            self.sim.record_goal(self.name, None, accepted=False)
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _on_accepted(self, handle: ServerGoalHandle) -> None:
        slot = Slot(self, handle)
        self._slots[slot.key] = slot
        self.sim.record_goal(self.name, slot.key.hex(), accepted=True)
        with self._condition:
            replaced, self._pending = self._pending, slot
            self._condition.notify_all()
        if replaced is not None:
            self.terminate(replaced)
        self.start_executing(handle)

    def start_executing(self, handle: ServerGoalHandle) -> None:
        """EXECUTING, and let the executor wait for the end."""
        try:
            handle.execute()
        except RCLError:
            # A cancel slipped in between: rclpy refuses EXECUTING after CANCELING. The goal still must run
            # to its end.
            self.server.notify_execute(handle, None)

    def _on_cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        faults = self.world.faults
        touched = faults.touches(self.name)
        slot = self._slots.get(bytes(handle.goal_id.uuid))
        if slot is None or (faults.refuse_cancel and touched):
            return CancelResponse.REJECT
        slot.note_cancel(self.clock.now_s + (faults.ignore_cancel_s if touched else 0.0))
        return CancelResponse.ACCEPT

    def _execute(self, handle: ServerGoalHandle) -> Any:
        slot = self._slots[bytes(handle.goal_id.uuid)]
        slot.finished.wait()
        del self._slots[slot.key]
        return slot.result

    # -- the worker --------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._condition:
                self.current = None
                while self._pending is None and not self._closed:
                    self._condition.wait()
                if self._closed:
                    break
                slot = self.current = self._pending
                self._pending = None
            if slot is None:
                continue
            slot.started_s = self.clock.now_s
            try:
                self.run(slot)
            except SimulationEnded:
                pass
            except Exception as error:
                self.log.error(f"the simulated server failed: {error!r}")
                self.sim.record_error(error)
            finally:
                self.terminate(self.current)
        self.terminate(self.current)
        self.terminate(self._pending)

    def close(self) -> None:
        """End all goals (they abort) and the worker."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join(timeout=1.0)
        for slot in list(self._slots.values()):
            self.terminate(slot)

    # -- for subclasses ----------------------------------------------------------------------------

    @abc.abstractmethod
    def run(self, slot: Slot) -> None:
        """Work on one goal until it has ended; what is still open on return aborts with a default result."""

    def acceptable(self, request: Any) -> bool:  # noqa: ARG002
        """Whether the goal is accepted at all. Nav2 servers accept anything while they are active."""
        return True

    def result(self, code: int = 0, text: str = "") -> Any:
        """A result message with its error fields set."""
        return self.action_type.Result(error_code=max(0, min(code, 65535)), error_msg=text)

    @property
    def busy(self) -> bool:
        """Whether any goal has not ended yet."""
        return bool(self._slots)

    def forget(self) -> None:  # noqa: B027  most have nothing to forget
        """Forget what earlier goals left behind; called when the world is reset."""

    @property
    def pending(self) -> Slot | None:
        return self._pending

    def take_pending(self) -> Slot:
        """Replace the running goal in place: the old one aborts with an empty result, code 0.

        It aborts even when somebody has asked to cancel it meanwhile.
        """
        with self._condition:
            new, old = self._pending, self.current
            if new is None:
                raise RuntimeError("nothing is pending")
            self.current, self._pending = new, None
        new.started_s = self.clock.now_s
        if old is not None:
            old.end("aborted")
        return new

    def drop_pending(self) -> None:
        """Abort the pending goal; the running one goes on."""
        with self._condition:
            slot, self._pending = self._pending, None
        self.terminate(slot)

    def terminate(self, slot: Slot | None) -> None:
        """End a goal with a default result: canceled if that was asked for, else aborted."""
        if slot is not None:
            slot.end("canceled")

    def ticks(self, rate_hz: float | None = None) -> Iterator[float]:
        """Yield the simulation time at the loop's rate.

        Raises:
            SimulationEnded: on shutdown.
        """
        period = 1.0 / (rate_hz or self.rate_hz)
        due = self.clock.now_s
        while True:
            if self._closed or self.clock.closed:
                raise SimulationEnded
            yield self.clock.now_s
            due = max(due + period, self.clock.now_s + 1e-9)
            if not self.clock.wait_until(due):
                raise SimulationEnded

    def sleep(self, seconds: float) -> None:
        """Wait simulation seconds. Raises SimulationEnded on shutdown."""
        if not self.clock.sleep(seconds):
            raise SimulationEnded

    def deactivated(self) -> Any:
        """Result of goals that end because the server was deactivated; ``None`` for the default one."""
        return None

    def forced_abort(self, slot: Slot) -> bool:
        """Carry out the switches ``active`` and ``abort_after_s``. ``True`` when the goal has ended by
        them.
        """
        faults = self.world.faults
        if not faults.active:
            return slot.end("canceled", self.deactivated())
        if faults.abort_after_s <= 0 or not faults.touches(self.name):
            return False
        if self.clock.now_s - slot.started_s < faults.abort_after_s:
            return False
        return slot.end("aborted", self.result(faults.abort_code, "aborted by a simulated fault"))
