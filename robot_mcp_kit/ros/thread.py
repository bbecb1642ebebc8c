"""One thread that does all of rclpy's work, and the bridge between it and asyncio.

Every rclpy call that sends or creates something runs on this thread (calls from elsewhere can lose responses,
ros2/rclpy#1123); results come back by ``call_soon_threadsafe``. Read-only graph queries are an exception:
they take no part in the wait set. Urgent requests are another: a stop does not wait behind a heap of
feedback.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import rclpy
from rclpy.context import Context

logger = logging.getLogger(__name__)
T = TypeVar("T")

_SPIN_TIMEOUT_S = 0.5
_BATCH_S = 0.01
_MAX_CONSECUTIVE_FAULTS = 100


EXECUTORS = ("auto", "events", "single_threaded", "multi_threaded")
"""``auto``: the events executor where rclpy has it (``bench/feedback_load.py`` compares them), else the plain
one. ``multi_threaded`` is there to be measured: its callbacks leave the one thread that rclpy is safe on.
"""


def _make_executor(context: Any, kind: str) -> tuple[Any, str]:
    from rclpy import executors

    if kind == "multi_threaded":
        return executors.MultiThreadedExecutor(context=context), kind
    if kind != "single_threaded":
        try:
            from rclpy.experimental import EventsExecutor
        except ImportError:
            if kind == "events":
                raise LookupError("executor: this rclpy has no events executor; use auto") from None
        else:
            return EventsExecutor(context=context), "events"
    return executors.SingleThreadedExecutor(context=context), "single_threaded"


class RosGoneError(RuntimeError):
    """The rclpy thread does not spin (any more): nothing can be done on it."""


class RosThread:
    """Owns a context's executor and the thread that spins it.

    Args:
        context: an initialised rclpy context.
        node: the node whose entities are served.
        loop: the asyncio loop that results and callbacks are handed to.
        on_death: called on the loop, once, with the reason, when the executor stops without being asked to.
        executor: one of :data:`EXECUTORS`.

    Raises:
        LookupError: this rclpy does not have that executor.
    """

    def __init__(
        self,
        context: Context,
        node: Any,
        loop: asyncio.AbstractEventLoop,
        *,
        on_death: Callable[[str], None] | None = None,
        executor: str = "auto",
    ) -> None:
        self._loop = loop
        self._on_death = on_death
        self._context = context
        self._executor, self.executor_kind = _make_executor(context, executor)
        self._executor.add_node(node)
        self._stopping = threading.Event()
        self._over = False
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self.callback_faults = 0
        self._batch: deque[Callable[[], object]] = deque()
        self._batch_is_due = False
        self._thread = threading.Thread(target=self._run, name="rclpy", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the executor still spins."""
        return self._thread.is_alive() and not self._stopping.is_set() and not self._over

    def start(self) -> None:
        """Start spinning."""
        self._thread.start()

    def stop(self, timeout_s: float = 3.0) -> None:
        """Stop spinning and join the thread. Blocks for at most ``timeout_s``; harmless when repeated."""
        self._stopping.set()
        if self._thread.is_alive():
            self._executor.create_task(lambda: None)  # wakes the spin at once
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                logger.error("the rclpy thread did not stop within %.1f s", timeout_s)
                return
        self._executor.shutdown()

    def post(self, function: Callable[[], object]) -> None:
        """Run ``function`` on the rclpy thread soon; its exceptions are logged and counted."""
        self._executor.create_task(self.guarded(function))

    async def call(self, function: Callable[[], T]) -> T:
        """Run ``function`` on the rclpy thread and return what it returns (or raise what it raises).

        Raises:
            RosGoneError: the thread has ended, before or meanwhile.
        """
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        self._calls.add(done)
        done.add_done_callback(self._calls.discard)
        self._executor.create_task(run)
        if self._over:
            self._give_up_calls()
        return await asyncio.wrap_future(done, loop=self._loop)

    def _give_up_calls(self) -> None:
        for done in tuple(self._calls):
            # The caller may cancel it just now, or do the same as this.
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                done.set_exception(RosGoneError("the rclpy thread has ended"))

    def request(self, client: Any, request: Any, *, urgent: bool = False) -> asyncio.Future[Any]:
        """Call a service: the request is queued for the rclpy thread before this returns.

        ``urgent``: it is sent before this returns, from the caller's thread, ahead of everything that the
        rclpy thread still has to do. Only for requests that may be repeated when their answer gets lost.

        Cancelling the returned future forgets the pending request, so that answers which never come do not
        pile up.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settle(pending: Any) -> None:
            if answer.done():
                return
            error = pending.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(pending.result())

        def send() -> None:
            # Sent even when nobody waits any more: a cancel that was asked for must not be lost.
            try:
                pending = client.call_async(request)
            except Exception as error:
                failure = error
                self.hand_over(lambda: None if answer.done() else answer.set_exception(failure))
                return
            pending.add_done_callback(lambda p: self.hand_over(lambda: settle(p)))
            self.hand_over(lambda: answer.add_done_callback(lambda a: self._forget(client, pending, a)))

        if urgent:
            send()
        else:
            self._executor.create_task(send)
        return answer

    def _forget(self, client: Any, pending: Any, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled() and not pending.done():
            self.post(lambda: client.remove_pending_request(pending))

    def hand_over(self, function: Callable[[], object]) -> None:
        """Run ``function`` on the asyncio loop soon; dropped quietly once that loop is closed."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            logger.debug("the event loop is closed; a ROS callback was dropped")

    def hand_over_soon(self, function: Callable[[], object]) -> None:
        """As :meth:`hand_over`, together with what else comes within :data:`_BATCH_S`; in order.

        For what comes often and may wait a moment (feedback): each wake-up of the loop costs a system call
        and a fight for Python's lock, a quarter of all the work at 2,000 messages a second. From the rclpy
        thread.
        """
        self._batch.append(function)
        if not self._batch_is_due:
            self._batch_is_due = True
            self.hand_over(lambda: self._loop.call_later(_BATCH_S, self.run_batch))

    def run_batch(self) -> None:
        """Run what :meth:`hand_over_soon` holds, now; on the loop."""
        self._batch_is_due = False  # first: what is added from here on makes a new batch
        while self._batch:
            self._batch.popleft()()

    def guarded(self, function: Callable[..., object]) -> Callable[..., None]:
        """Wrap a callback so that one bad message cannot end the executor (rclpy#983)."""

        @functools.wraps(function)  # rclpy looks at the signature to decide what it passes
        def run(*arguments: Any) -> None:
            try:
                function(*arguments)
            except Exception:
                self.callback_faults += 1
                logger.exception("a ROS callback failed")

        return run

    def _run(self) -> None:
        reason = "the rclpy context was shut down"
        faults = 0
        try:
            while not self._stopping.is_set() and rclpy.ok(context=self._context):
                try:
                    self._executor.spin_once(timeout_sec=_SPIN_TIMEOUT_S)
                    faults = 0
                except Exception as error:  # a message that cannot be taken raises here (rclpy#881)
                    if self._stopping.is_set() or not rclpy.ok(context=self._context):
                        break
                    faults += 1
                    self.callback_faults += 1
                    logger.exception("the rclpy executor raised; it goes on")
                    if faults >= _MAX_CONSECUTIVE_FAULTS:
                        reason = f"the rclpy executor failed {faults} times in a row: {error}"
                        break
        except BaseException as error:
            reason = f"the rclpy thread died: {error!r}"
            logger.critical("%s", reason, exc_info=True)
        self._over = True
        self._give_up_calls()
        if not self._stopping.is_set():
            logger.critical("ROS is gone: %s", reason)
            if self._on_death is not None:
                on_death = self._on_death
                self.hand_over(lambda: on_death(reason))
