"""Long-running work with an id: started at once, reported on, cancelled, remembered for a while.

Tasks belong to the manager, never to the request that started them: a body runs in an asyncio task of its own
with an empty context, so a client that goes away does not touch it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, get_args

from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.context import TaskContext
from robot_mcp_kit.errors import ArgumentError, TaskError
from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.failures import INTERNAL, failure_from
from robot_mcp_kit.journal import SavedTask, TaskJournal
from robot_mcp_kit.listeners import subscribe, tell
from robot_mcp_kit.loops import find_loop, resolve, running_loop
from robot_mcp_kit.models import TaskEvent, TaskFailure, TaskInfo, TaskState
from robot_mcp_kit.names import check_server_name, task_suffixes
from robot_mcp_kit.records import TaskRecord, clean_payload, utc
from robot_mcp_kit.start_checks import check_duration, check_triggers

__all__ = ["CANCEL_GRACE_S", "TaskBody", "TaskContext", "TaskError", "TaskManager"]

logger = logging.getLogger(__name__)

TaskBody = Callable[[TaskContext], Awaitable[dict[str, Any]]]
"""An async function that does the work and returns the result."""

CANCEL_GRACE_S = 5.0
"""How long a cancelled body may tear down before its task is called cancelled without it."""

_STATES: tuple[str, ...] = get_args(TaskState)
T = TypeVar("T")
_List = list  # the class below has a method of that name (K4)


class TaskManager:
    """Starts, remembers and cancels the tasks of one server.

    All methods may be called from any thread; bodies run on one event loop, the one where :meth:`start` was
    first called. Constructing needs no loop.

    Args:
        server_name: printable ASCII; its first four characters begin every task id.
        poster: where events go. It stays open when the manager closes.
        max_finished_retained: how many finished tasks stay readable, oldest finish out first; running ones
            always.
        cancel_grace_s: seconds that a cancelled body may take to tear down.
        on_event: called with each event as it is handed to the poster; see :meth:`add_listener`.
        journal: where tasks are saved for another process to :meth:`adopt`; nowhere by default.
        clock: monotonic time for the grace period.
        wall_clock: Unix seconds for ``created_at``, ``updated_at`` and ``ts``.
        new_suffix: makes the six hexadecimal digits of a task id; by default none comes twice in one process
            before all 16,777,216 came once (whoever keeps a history knows tasks by their id).

    Raises:
        ConfigError: unusable server name. (A ValueError.)
        ValueError: negative ``max_finished_retained``.
    """

    def __init__(
        self,
        server_name: str,
        poster: EventPoster,
        *,
        max_finished_retained: int = 200,
        cancel_grace_s: float = CANCEL_GRACE_S,
        on_event: Callable[[TaskEvent], None] | None = None,
        journal: TaskJournal | None = None,
        clock: Clock | None = None,
        wall_clock: WallClock = time.time,
        new_suffix: Callable[[], str] | None = None,
    ) -> None:
        if max_finished_retained < 0:
            raise ValueError(f"max_finished_retained: must not be negative, got {max_finished_retained}")
        self.server_name = check_server_name(server_name)
        self._poster = poster
        self.max_finished_retained = max_finished_retained
        self._cancel_grace_s = cancel_grace_s
        self._journal = journal
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._wall_clock = wall_clock
        self._new_suffix = new_suffix if new_suffix is not None else task_suffixes()
        self._is_taken: Callable[[str], bool] = lambda _: False
        # Re-entrant, because listeners are called under it and may read the manager.
        self._lock = threading.RLock()
        self._records: dict[str, TaskRecord] = {}
        self._finished: OrderedDict[str, None] = OrderedDict()
        self._listeners: list[Callable[[TaskEvent], None]] = []
        self._watchers: list[Callable[[TaskInfo], None]] = []
        # Strong references: asyncio itself keeps running tasks only weakly (K29).
        self._tasks: set[asyncio.Task[None]] = set()
        self._graces: set[asyncio.Future[None]] = set()
        """Of the cancelled bodies that tear down now; whoever has to end sooner cuts them short."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        if on_event is not None:
            self.add_listener(on_event)

    # -- starting -------------------------------------------------------------------------------------------

    def start(
        self,
        tool: str,
        body: TaskBody,
        triggers: list[dict[str, Any]] | None = None,
        est_duration_s: float | None = None,
    ) -> TaskInfo:
        """Register a task, schedule its body and return at once; the body has not begun yet (K21).

        From the loop, from a worker thread of an MCP server, or from any other thread once the loop is known.

        - the body returns a dict: ``succeeded``, event ``task_done`` ``{"result": <dict>}``
        - it raises TaskError: ``failed``, event ``task_failed`` with the failure's fields
        - it raises CancelledError: ``cancelled``, no event
        - anything else: ``failed`` with ``INTERNAL``, not recoverable, traceback in the log

        Args:
            tool: name of the tool that starts the task.
            body: async function; gets the :class:`TaskContext`.
            triggers: conditions attached by the caller; copied.
            est_duration_s: the caller's estimate in seconds.

        Raises:
            ArgumentError: a trigger that is no dict, or an estimate that is not finite and >= 0. (A
            ValueError.)
            RuntimeError: the manager is closed, or there is no event loop to run the body on.
        """
        attached = check_triggers(triggers)
        check_duration(est_duration_s)
        with self._lock:
            if self._closed:
                raise RuntimeError("the task manager is closed; it starts no more tasks")
            loop = self._loop = find_loop(self._loop)
            now = utc(self._wall_clock())
            info = TaskInfo(
                task_id=self._new_id(),
                server=self.server_name,
                tool=tool,
                state="running",
                created_at=now,
                updated_at=now,
                triggers=attached,
                est_duration_s=est_duration_s,
            )
            record = TaskRecord(info, wall_clock=self._wall_clock, emit=self._emit)
            self._records[info.task_id] = record
            snapshot = record.snapshot()
            self._schedule(record, body, loop)
            # Not flushed: whoever starts a task may have more to write in the same piece.
            self._save(record)
            self._changed(record)
        return snapshot

    def adopt(self, saved: SavedTask, body: TaskBody | None = None) -> TaskInfo:
        """Take over a task of an earlier process, with its id and its history.

        A running one goes on with ``body``: its next event gets the next sequence number, and triggers that
        fired do not fire again. One whose cancel had been accepted is cancelled now. A finished one can be
        read again, and counts among those retained; hand them over in the order in which they finished.

        Args:
            saved: what the journal kept.
            body: goes on with the work; needed while the task runs.

        Raises:
            ValueError: the id is known already, or a running task comes without a body.
            RuntimeError: the manager is closed, or there is no event loop to run the body on.
        """
        task_id = saved.info.task_id
        with self._lock:
            if self._closed:
                raise RuntimeError("the task manager is closed; it adopts no more tasks")
            if task_id in self._records:
                raise ValueError(f"task_id: {task_id} is known already")
            record = TaskRecord.restored(saved, wall_clock=self._wall_clock, emit=self._emit)
            if not record.running:
                self._records[task_id] = record
                self._retain(task_id)
                return record.snapshot()
            if saved.cancel_accepted:
                self._records[task_id] = record
                record.cancel_accepted = True
                self._finish(record, record.cancelled)
                return record.snapshot()
            if body is None:
                raise ValueError(f"body: the task {task_id} still runs and needs one")
            loop = self._loop = find_loop(self._loop)
            self._records[task_id] = record
            snapshot = record.snapshot()
            self._schedule(record, body, loop)
            self._changed(record)
        return snapshot

    def _schedule(self, record: TaskRecord, body: TaskBody, loop: asyncio.AbstractEventLoop) -> None:
        try:
            # Never run the body from here, not even up to its first await: an eager task factory would.
            if running_loop() is loop:
                loop.call_soon(self._spawn, record, body, context=contextvars.Context())
            else:
                loop.call_soon_threadsafe(self._spawn, record, body, context=contextvars.Context())
        except RuntimeError as exc:
            del self._records[record.info.task_id]
            raise RuntimeError("the event loop was closed; the task was not started") from exc

    def bind_loop(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Say which loop runs the bodies (default: the running one), for servers whose first start comes from
        a thread that the kit cannot trace to a loop, such as a ROS executor."""
        with self._lock:
            self._loop = loop if loop is not None else asyncio.get_running_loop()

    def avoid_ids(self, is_taken: Callable[[str], bool]) -> None:
        """Give no new task an id that is kept elsewhere (a ledger's row outlives the finished task here).

        Args:
            is_taken: asked under the manager's lock; quick, and never raising.
        """
        self._is_taken = is_taken

    def _new_id(self) -> str:
        for _ in range(1000):
            task_id = f"{self.server_name[:4]}-{self._new_suffix()}"
            if task_id not in self._records and not self._is_taken(task_id):
                return task_id
        raise RuntimeError("no free task id found; the generator of suffixes repeats itself")

    def _spawn(self, record: TaskRecord, body: TaskBody) -> None:
        with self._lock:
            if not record.running:
                return  # cancelled before the loop came to it
            loop = asyncio.get_running_loop()
            task = loop.create_task(
                self._run(record, body), name=f"task {record.info.task_id}", context=contextvars.Context()
            )
            record.task = task
            self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before its first step never enters its own try block (K82).
        task.add_done_callback(lambda _: self._finish(record, record.cancelled))

    # -- running --------------------------------------------------------------------------------------------

    async def _run(self, record: TaskRecord, body: TaskBody) -> None:
        task_id = record.info.task_id
        try:
            result: Any = await body(TaskContext(record, self._lock, self._changed))
        except asyncio.CancelledError:
            self._finish(record, record.cancelled)
        except Exception as exc:
            self._failed(record, exc)
        except GeneratorExit:  # the loop is gone; nobody will resume this
            self._finish(record, record.cancelled)
            raise
        except BaseException as exc:  # KeyboardInterrupt, SystemExit, or a group of them
            self._failed(record, exc)
            raise
        else:
            with self._lock:
                if record.cancel_accepted:
                    if record.running:
                        logger.warning(
                            "task %s returned although it was cancelled; it counts as cancelled", task_id
                        )
                    self._finish(record, record.cancelled)
                elif isinstance(result, dict):
                    self._finish(record, lambda: record.succeed(result))
                else:
                    message = f"The task's body returned {type(result).__name__} instead of a dict."
                    logger.error("task %s: %s", task_id, message)
                    failure = TaskFailure(error_code=INTERNAL, message=message, recoverable=False)
                    self._finish(record, lambda: record.fail(failure))

    def _failed(self, record: TaskRecord, exc: BaseException) -> None:
        with self._lock:
            if record.cancel_accepted or not record.running:
                # An accepted cancel wins (K87); the error is still worth reading.
                logger.warning("task %s raised while being cancelled", record.info.task_id, exc_info=exc)
                self._finish(record, record.cancelled)
                return
            failure = failure_from(exc)
            if failure.error_code == INTERNAL:
                logger.error("task %s failed", record.info.task_id, exc_info=exc)
            self._finish(record, lambda: record.fail(failure))

    def _finish(self, record: TaskRecord, outcome: Callable[[], None]) -> None:
        """Apply a terminal outcome; the first one wins."""
        with self._lock:
            if not record.running:
                return
            outcome()
            self._retain(record.info.task_id)
            record.task = None
            waiters, record.waiters = record.waiters, []
            for future in waiters:
                resolve(future)
            self._changed(record)

    def _retain(self, task_id: str) -> None:
        self._finished[task_id] = None
        while len(self._finished) > self.max_finished_retained:
            evicted, _ = self._finished.popitem(last=False)
            del self._records[evicted]

    # -- looking --------------------------------------------------------------------------------------------

    def get(self, task_id: str) -> TaskInfo | None:
        """A snapshot of one task, or ``None`` when it is unknown or no longer retained."""
        with self._lock:
            record = self._records.get(task_id)
            return None if record is None else record.snapshot()

    def task_ids(self) -> _List[str]:
        """Ids of all tasks that are retained, in the order of creation."""
        with self._lock:
            return [*self._records]

    def list(self, states: _List[TaskState] | None = None) -> _List[TaskInfo]:
        """Snapshots in the order of creation.

        Args:
            states: only these; ``None`` means all, an empty list means none.

        Raises:
            ArgumentError: an unknown state name. (A ValueError.)
        """
        if states is not None:
            for state in states:
                if state not in _STATES:
                    raise ArgumentError(
                        "states", f"unknown state {state!r}; use {', '.join(_STATES)}", allowed=_STATES
                    )
        with self._lock:
            return [
                record.snapshot()
                for record in self._records.values()
                if states is None or record.info.state in states
            ]

    async def wait(self, task_id: str, timeout_s: float | None = None) -> TaskInfo | None:
        """Wait until the task has a terminal state, at most ``timeout_s``; then its snapshot, whatever it
        says.

        ``None`` when the id is unknown. A time-out of the wait is not an outcome of the task.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            record = self._records.get(task_id)
            if record is None:
                return None
            if not record.running:
                return record.snapshot()
            future: asyncio.Future[None] = loop.create_future()
            record.waiters.append(future)
        try:
            bound = [asyncio.ensure_future(self._clock.sleep(timeout_s))] if timeout_s is not None else []
            try:
                await asyncio.wait({future, *bound}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for timer in bound:
                    timer.cancel()
        finally:
            future.cancel()
            with self._lock:
                if future in record.waiters:
                    record.waiters.remove(future)
        with self._lock:
            return record.snapshot()

    def annotate(self, task_id: str, progress: dict[str, Any]) -> TaskInfo | None:
        """Merge keys into a task's last progress, in any state, without an event.

        For what is learned after the end: a robot that confirms its stop later than the cancel's grace (K94).

        Returns:
            the new snapshot, or ``None`` when the task is not known any more.
        """
        if not isinstance(progress, dict):
            raise TypeError(f"progress: a dict is needed, got {type(progress).__name__}")
        with self._lock:
            record = self._records.get(task_id)
            if record is None:
                return None
            clean = clean_payload(progress, task_id=task_id, what="annotation")
            record.info.progress = {**(record.info.progress or {}), **clean}
            record.touch()
            self._changed(record)
            return record.snapshot()

    # -- listening ------------------------------------------------------------------------------------------

    def add_listener(self, listener: Callable[[TaskEvent], None]) -> Callable[[], None]:
        """Call ``listener`` with each event, in seq order, when it is handed to the poster.

        It runs under the manager's lock on whichever thread reports: be quick, do not block, do not wait for
        another thread. What it raises is logged. Returns a function that removes it.
        """
        return subscribe(self._listeners, listener)

    def add_change_listener(self, listener: Callable[[TaskInfo], None]) -> Callable[[], None]:
        """Call ``listener`` with a snapshot after each change that polling would show, also those without an
        event (start, cancel, :meth:`annotate`). Same rules as :meth:`add_listener`."""
        return subscribe(self._watchers, listener)

    def _emit(self, event: TaskEvent) -> None:
        record = self._records.get(event.task_id)
        if record is not None:
            self._save(record)
        self._poster.post_nowait(event)
        if self._journal is not None:
            self._journal.flush()
        tell(self._listeners, event)

    def _save(self, record: TaskRecord, *, flush: bool = False) -> None:
        if self._journal is None or not record.unsaved:
            return
        record.unsaved = False
        self._journal.stage(record.saved())
        if flush:
            self._journal.flush()

    def _changed(self, record: TaskRecord) -> None:
        self._save(record, flush=True)
        if self._watchers:
            tell(self._watchers, record.snapshot())

    # -- cancelling -----------------------------------------------------------------------------------------

    async def cancel(self, task_id: str) -> TaskInfo | None:
        """Cancel a task and wait until its body has torn down, at most ``cancel_grace_s``.

        An accepted cancel wins over whatever the body does afterwards (K86, K87); a task that had finished
        before keeps its state. No event is sent. A caller that goes away meanwhile changes nothing.

        Returns:
            the task with its terminal state, or ``None`` when the id is unknown.
        """
        with self._lock:
            record = self._records.get(task_id)
            if record is None:
                return None
            loop = self._loop
        if loop is not None and loop is not asyncio.get_running_loop() and loop.is_running():
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.cancel(task_id), loop))
        teardown = self._accept_cancel(record)
        if teardown is not None:
            await asyncio.shield(teardown)
        with self._lock:
            return record.snapshot()

    def _accept_cancel(self, record: TaskRecord) -> asyncio.Task[None] | None:
        """Make the cancel count from now on; returns what to wait for, ``None`` when there is nothing."""
        with self._lock:
            if not record.running:
                return None
            if record.teardown is not None:
                return record.teardown
            record.cancel_accepted = record.unsaved = True
            self._save(record)  # written with what follows: a stop does not wait for a disk
            task = record.task
            if task is None or task.get_loop() is not asyncio.get_running_loop():
                # Not begun yet, or its loop has ended and it will never run again.
                self._finish(record, record.cancelled)
                return None
            task.cancel()
            record.teardown = asyncio.get_running_loop().create_task(
                self._await_teardown(record, task), context=contextvars.Context()
            )
            self._tasks.add(record.teardown)
            record.teardown.add_done_callback(self._tasks.discard)
            return record.teardown

    async def _await_teardown(self, record: TaskRecord, task: asyncio.Task[None]) -> None:
        began_s = self._clock.now()
        grace = asyncio.ensure_future(self._clock.sleep(self._cancel_grace_s))
        self._graces.add(grace)
        try:
            await asyncio.wait({task, grace}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            grace.cancel()
            self._graces.discard(grace)
            record.teardown = None
            with self._lock:
                if record.running and not task.done():
                    logger.error(
                        "task %s ignored its cancel for %g s; it is called cancelled, its body may still run",
                        record.info.task_id,
                        round(self._clock.now() - began_s, 2),
                    )
                self._finish(record, record.cancelled)

    @property
    def closed(self) -> bool:
        """Whether :meth:`aclose` was called, so that nothing is started any more."""
        return self._closed

    async def aclose(self, grace_s: float | None = None) -> None:
        """Cancel everything that runs, together, and start nothing more. Idempotent; the poster stays open
        (K98).

        No failure events are sent; :meth:`get` and :meth:`list` still answer afterwards.

        Args:
            grace_s: instead of ``cancel_grace_s``, for a process that has to end sooner; counts from now on
                for tasks that were cancelled before, too.
        """
        with self._lock:
            self._closed = True
            loop = self._loop
            if grace_s is not None:
                self._cancel_grace_s = grace_s
        if loop is not None and loop is not asyncio.get_running_loop() and loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.aclose(grace_s), loop))
            return
        with self._lock:
            running = [record for record in self._records.values() if record.running]
            teardowns = [
                teardown for record in running if (teardown := self._accept_cancel(record)) is not None
            ]
        if not teardowns:
            return
        down: asyncio.Future[Any] = asyncio.gather(*(asyncio.shield(teardown) for teardown in teardowns))
        end: asyncio.Future[Any] = asyncio.ensure_future(self._clock.sleep(self._cancel_grace_s))
        try:
            await asyncio.wait({down, end}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            end.cancel()
        for grace in tuple(self._graces):
            grace.cancel()
        await down
