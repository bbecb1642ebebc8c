"""The friendly face of a capability server: start a task, follow it, await its end, cancel it, find it again.

::

    outcome = await robot.run("navigate_to", place="kitchen", on_progress=lambda p: print(p["eta_s"]))
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.calling import CallFailed, ToolAnswer, ToolCaller
from robot_mcp_kit.client.intents import Intent, Intents, same_call
from robot_mcp_kit.client.reconciling import Reconciler
from robot_mcp_kit.client.rows import TaskRecord
from robot_mcp_kit.client.updates import TaskUpdate
from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.errors import ArgumentError
from robot_mcp_kit.models import TaskFailure, TaskInfo, TaskState

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT_S = 30.0
START_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.2
_CLOCK_SLACK_S = 5.0
"""How much earlier than our own note a server's clock may say that a task was made."""

OnUpdate = Callable[[TaskUpdate], object]
OnProgress = Callable[[dict[str, Any]], object]


class StartRefused(Exception):
    """The server refused the call; nothing has begun.

    Attributes:
        tool: the tool's name.
        message: its words.
        details: its structured content, ``{}`` when there was none.
    """

    def __init__(self, tool: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(f"{tool}: {message}")
        self.tool, self.message, self.details = tool, message, dict(details)


class StartUnknown(Exception):
    """The call was sent, its answer was lost, and the server does not tell whether the task has begun.

    Attributes:
        key: call again with this ``idempotency_key`` to find out once the server can be reached.
        candidates: ids of tasks of which one may be it.
    """

    def __init__(self, server: str, tool: str, key: str, candidates: list[str], why: str) -> None:
        super().__init__(f"{server} {tool}: not known whether it has begun: {why}")
        self.key, self.candidates = key, candidates


class NotATask(Exception):
    """The tool has done what it does, and that was not to start a task."""


class StopNotConfirmed(Exception):
    """The cancel could not be delivered: the robot may still move."""


class TaskFailed(Exception):
    """The task ended, and not as asked for.

    Attributes:
        outcome: how.
    """

    def __init__(self, outcome: TaskOutcome) -> None:
        failure = outcome.failure
        words = f"{failure.error_code}: {failure.message}" if failure else outcome.state
        super().__init__(f"{outcome.tool} {outcome.task_id}: {words}")
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a task ended."""

    server: str
    task_id: str
    tool: str
    state: TaskState
    result: dict[str, Any] | None = None
    failure: TaskFailure | None = None
    progress: dict[str, Any] | None = None
    """The last that was reported."""


class TaskHandle:
    """One task. Dropping the handle, or ceasing to wait, does not touch the task."""

    def __init__(self, robot: Robot, task_id: str, *, since: int | None = None) -> None:
        self._robot = robot
        self._since = robot.book.position if since is None else since
        self.server = robot.name
        self.task_id = task_id

    def __repr__(self) -> str:
        return f"TaskHandle({self.server!r}, {self.task_id!r})"

    @property
    def record(self) -> TaskRecord:
        """What is known just now."""
        record = self._robot.book.task(self.server, self.task_id)
        if record is None:
            raise LookupError(f"the task {self.task_id} of {self.server} is not known here any more")
        return record

    async def updates(self) -> AsyncGenerator[TaskUpdate]:
        """What happens since this handle was got, to the end and with it; nothing when it had ended
        before.
        """
        queue: asyncio.Queue[TaskUpdate] = asyncio.Queue()

        def hear(update: TaskUpdate) -> None:
            if (update.server, update.task_id) == (self.server, self.task_id):
                queue.put_nowait(update)

        remove = self._robot.book.add_listener(hear)
        try:
            position = self._since
            while missed := self._robot.book.updates_after(position):
                position = missed[-1].position
                for update in missed:
                    if (update.server, update.task_id) == (self.server, self.task_id):
                        yield update
            while not (self.record.ended and queue.empty()):
                update = await queue.get()
                if update.position > position:
                    yield update
        finally:
            remove()

    async def wait(self) -> TaskOutcome:
        """Wait for the end, however it ends, whatever is restarted meanwhile."""
        async for _ in self.updates():
            pass
        return self.outcome()

    def outcome(self) -> TaskOutcome:
        """How it ended.

        Raises:
            RuntimeError: it has not.
        """
        record = self.record
        if record.running:
            raise RuntimeError(f"the task {self.task_id} has not ended")
        outcome = record.outcome or {}
        result = outcome.get("result")
        failure = None
        if record.state == "failed":
            try:
                failure = TaskFailure.model_validate(outcome)
            except ValidationError:
                failure = TaskFailure(error_code="UNREADABLE_FAILURE", message=str(outcome)[:500])
        return TaskOutcome(
            server=self.server,
            task_id=self.task_id,
            tool=record.tool,
            state=record.state,
            result=result if isinstance(result, dict) and record.state == "succeeded" else None,
            failure=failure,
            progress=outcome.get("progress", record.progress),
        )

    async def cancel(self, *, timeout_s: float = CANCEL_TIMEOUT_S) -> TaskState:
        """Cancel the task and wait until the server has confirmed it; its state then. Safe to repeat.

        Raises:
            StopNotConfirmed: not within ``timeout_s``; the robot may still move.
        """
        return await self._robot._cancel(self.task_id, timeout_s)


class Robot:
    """Calls one capability server and follows its tasks.

    Args:
        name: the server's name, as in its events.
        caller: calls its tools.
        book: what is known of its tasks.
        reconciler: keeps the book true; must know the server.
        clock: for pauses between attempts.
        wall_clock: Unix seconds.
    """

    def __init__(
        self,
        name: str,
        caller: ToolCaller,
        book: TaskBook,
        reconciler: Reconciler,
        *,
        clock: Clock | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.book = book
        self._caller = caller
        self._reconciler = reconciler
        self._intents = Intents(book)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._wall_clock = wall_clock

    def task(self, task_id: str) -> TaskHandle:
        """A task that is known here, after a restart too; whether it still runs is found out by polling.

        Raises:
            LookupError: not known here; see :meth:`adopt`.
        """
        handle = TaskHandle(self, task_id)
        if handle.record.running:
            self._reconciler.poll_soon(self.name, task_id)
        return handle

    async def adopt(self, task_id: str) -> TaskHandle:
        """Follow a task that somebody else started.

        Raises:
            LookupError: the server does not know it.
            CallFailed: the server could not be asked.
        """
        info = await self._reconciler.source(self.name).get_task(task_id)
        if info is None:
            raise LookupError(f"{self.name} does not know the task {task_id}")
        self.book.take_info(self.name, info)
        return TaskHandle(self, task_id)

    async def start(
        self,
        tool: str,
        /,
        *,
        triggers: list[dict[str, Any]] | None = None,
        idempotency_key: str | None = None,
        **arguments: Any,
    ) -> TaskHandle:
        """Start a task. Under one key, one task is started, however often this is called, restarts included.

        Args:
            tool: the tool that starts it.
            triggers: conditions to be told of by ``trigger_fired`` updates.
            idempotency_key: any text, such as mission and step; with it a chat app that was killed while it
                started the task finds out whether it did. Default: a new one.
            arguments: the tool's own.

        Raises:
            StartRefused: the tool refused; nothing has begun.
            CallFailed: the server was not reached; nothing has begun.
            StartUnknown: it may have begun.
            NotATask: the tool does not start tasks.
            ArgumentError: the key was used for another call.
        """
        if triggers is not None:
            arguments["triggers"] = triggers
        key = idempotency_key if idempotency_key is not None else str(uuid4())
        intent = self._intents.get(self.name, key)
        if intent is not None:
            if not same_call(intent, tool, arguments):
                raise ArgumentError("idempotency_key", f"{key!r} was used for another call of {intent.tool}")
            if intent.task_id is not None:
                return await self._known(intent.task_id)
        sent_before = intent is not None
        takes_key = await self._caller.accepts(tool, "idempotency_key")
        if intent is None:
            intent = Intent(self.name, key, tool, dict(arguments), self._wall_clock(), None)
            self._intents.write(intent)
        return await self._start(intent, sent_before=sent_before, takes_key=takes_key)

    async def _known(self, task_id: str) -> TaskHandle:
        try:
            return self.task(task_id)
        except LookupError:  # ended and forgotten long ago
            return await self.adopt(task_id)

    async def _start(self, intent: Intent, *, sent_before: bool, takes_key: bool) -> TaskHandle:
        arguments = dict(intent.arguments)
        if takes_key:
            arguments["idempotency_key"] = intent.key
        pause_s, why = _FIRST_PAUSE_S, "the answer was lost"
        since = self.book.position
        for attempt in range(START_ATTEMPTS):
            if attempt:
                await self._clock.sleep(pause_s)
                pause_s *= 4
            if sent_before and not takes_key:
                # It may run already, and the server cannot tell a repetition from a second wish: look first.
                try:
                    found = await self._find(intent)
                except CallFailed as error:
                    why = error.message
                    continue
                if found is not None:
                    return self._begun(intent, found, since)
            try:
                answer = await self._caller.call(intent.tool, arguments)
            except CallFailed as error:
                sent_before, why = sent_before or error.sent, error.message
                if not sent_before:
                    self._intents.remove(intent)
                    raise
                continue
            return self._begun(intent, self._read(intent, answer), since)
        raise StartUnknown(self.name, intent.tool, intent.key, [], why)

    def _read(self, intent: Intent, answer: ToolAnswer) -> TaskInfo:
        content = answer.content()
        if answer.is_error:
            self._intents.remove(intent)
            raise StartRefused(intent.tool, answer.text, content if answer.structured else {})
        try:
            return TaskInfo.model_validate(content)
        except ValidationError:
            raise NotATask(
                f"{intent.tool} answered, but not with a task: it is no tool that starts one"
            ) from None

    def _begun(self, intent: Intent, info: TaskInfo, since: int) -> TaskHandle:
        with self.book.transaction():
            self._intents.write(
                Intent(
                    intent.server, intent.key, intent.tool, intent.arguments, intent.made_at_s, info.task_id
                )
            )
            self.book.take_info(self.name, info, "call")
        return TaskHandle(self, info.task_id, since=since)

    async def _find(self, intent: Intent) -> TaskInfo | None:
        """The task that a call of ours has started, if it has. Only for servers that take no key."""
        listed = await self._reconciler.source(self.name).list_tasks()
        claimed = self._intents.claimed(self.name)
        triggers = intent.arguments.get("triggers")
        found = [
            info
            for info in listed
            if info.tool == intent.tool
            and info.task_id not in claimed
            and info.created_at.timestamp() >= intent.made_at_s - _CLOCK_SLACK_S
            and (triggers is None or info.triggers == triggers)
        ]
        if len(found) > 1:
            ids = [info.task_id for info in found]
            raise StartUnknown(self.name, intent.tool, intent.key, ids, f"it may be any of {', '.join(ids)}")
        return found[0] if found else None

    async def run(
        self,
        tool: str,
        /,
        *,
        on_progress: OnProgress | None = None,
        on_update: OnUpdate | None = None,
        triggers: list[dict[str, Any]] | None = None,
        idempotency_key: str | None = None,
        **arguments: Any,
    ) -> TaskOutcome:
        """Start a task and wait for its success. Cancelling this call cancels the task, and so does a
        callback that raises: nobody would follow it any more.

        Args:
            tool: the tool that starts it.
            on_progress: called (and awaited, if async) with each progress payload.
            on_update: the same with every :class:`TaskUpdate`.
            triggers: see :meth:`start`.
            idempotency_key: see :meth:`start`.
            arguments: the tool's own.

        Raises:
            TaskFailed: it failed or was cancelled.
            StopNotConfirmed: this call was cancelled, and the cancel could not be delivered.
            StartRefused, StartUnknown, NotATask, CallFailed, ArgumentError: see :meth:`start`.
        """
        starting = asyncio.create_task(
            self.start(tool, triggers=triggers, idempotency_key=idempotency_key, **arguments)
        )
        try:
            handle = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The call may be on its way: only what has an id can be stopped.
            await self._stop_when_started(starting)
            raise
        try:
            async for update in handle.updates():
                if on_update is not None:
                    await _told(on_update(update))
                if on_progress is not None and update.kind == "progress":
                    await _told(on_progress(update.payload))
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(handle.cancel()))
            raise
        outcome = handle.outcome()
        if outcome.state != "succeeded":
            raise TaskFailed(outcome)
        return outcome

    async def _stop_when_started(self, starting: asyncio.Task[TaskHandle]) -> None:
        async def stop() -> None:
            try:
                handle = await starting
            except (StartRefused, NotATask, CallFailed, ArgumentError):
                return  # nothing has begun
            await handle.cancel()

        await asyncio.shield(asyncio.ensure_future(stop()))

    async def _cancel(self, task_id: str, timeout_s: float) -> TaskState:
        source = self._reconciler.source(self.name)
        deadline_s = self._clock.now() + timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                state = await source.cancel_task(task_id)
                if state is None:
                    self.book.take_vanished(self.name, task_id)
                    return "failed"
                info = await source.get_task(task_id)  # also says whether the robot has stopped
            except CallFailed as error:
                if self._clock.now() + pause_s >= deadline_s:
                    raise StopNotConfirmed(
                        f"{self.name} {task_id}: the cancel could not be delivered, the robot may still "
                        f"move: {error.message}"
                    ) from error
                await self._clock.sleep(pause_s)
                pause_s = min(2.0, pause_s * 2)
                continue
            if info is not None:
                return self.book.take_info(self.name, info, "call").state
            self.book.take_cancelled(self.name, task_id)
            return state


async def _told(answer: object) -> None:
    if inspect.isawaitable(answer):
        await answer
