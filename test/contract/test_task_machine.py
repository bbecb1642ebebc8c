"""The life of tasks under any order of calls: starts, reports, endings, cancels, time, and the close.

Small for everyday runs; ``HYPOTHESIS_PROFILE=thorough`` runs ten thousand examples.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from robot_mcp_kit import TaskContext, TaskError, TaskEvent, TaskInfo, TaskManager
from robot_mcp_kit.testing import CollectingPoster, FakeClock
from robot_mcp_kit.triggers import canonical_key

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
TERMINAL = {"succeeded": "task_done", "failed": "task_failed", "cancelled": None}
TRIGGERS: list[dict[str, Any]] = [
    {"type": "progress_above", "percent": 50},
    {"percent": 50.0, "type": "progress_above"},
    {"type": "progress_above", "percent": 80, "repeat": True},
    {"type": "eta_below", "seconds": 10},
    {"type": "eta_below", "seconds": 10, "repeat": True},
]


class Script:
    """A body that does what the machine says, and the machine's knowledge of it."""

    def __init__(self, stubborn: bool) -> None:
        self.stubborn = stubborn
        self.inbox: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.context: TaskContext | None = None
        self.swallowed = 0
        self.over = False

    async def body(self, ctx: TaskContext) -> dict[str, Any]:
        self.context = ctx
        try:
            while True:
                try:
                    action, value = await self.inbox.get()
                except asyncio.CancelledError:
                    if not self.stubborn:
                        raise
                    self.swallowed += 1
                    continue
                if action == "progress":
                    await ctx.progress(value)
                elif action == "emit":
                    await ctx.emit(value)
                elif action == "fire":
                    await ctx.fire_trigger(value)
                elif action == "checkpoint":
                    ctx.raise_if_cancelled()
                elif action == "return":
                    return value  # type: ignore[no-any-return]
                else:
                    raise value
        finally:
            self.over = True


class TaskMachine(RuleBasedStateMachine):
    """Invariants: one terminal event, contiguous numbers, nothing after it, a poll that is never behind."""

    tasks = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("robot_mcp_kit").setLevel(logging.CRITICAL + 1)
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.poster = CollectingPoster()
        self.retained = 3
        self.manager = TaskManager(
            "navigation",
            self.poster,
            max_finished_retained=self.retained,
            clock=self.clock,
            wall_clock=self.clock.wall,
            on_event=self.poll_at_event,
        )
        self.scripts: dict[str, Script] = {}
        self.seen: dict[str, TaskInfo] = {}
        self.ended: list[str] = []
        self.cancelling: list[asyncio.Task[Any]] = []
        self.closing: asyncio.Task[None] | None = None
        self.behind: list[str] = []

    def poll_at_event(self, event: TaskEvent) -> None:
        """What polling shows at the moment an event is handed over."""
        info = self.manager.get(event.task_id)
        if info is None:
            self.behind.append(f"{event.type}: unknown")
        elif event.type == "task_done" and (info.state, {"result": info.result}) != (
            "succeeded",
            event.payload,
        ):
            self.behind.append(f"task_done: {info}")
        elif event.type == "task_failed" and (info.state != "failed" or info.failure is None):
            self.behind.append(f"task_failed: {info}")
        elif event.type == "progress" and info.progress != event.payload:
            self.behind.append(f"progress: {info}")

    def turn(self, turns: int = 12) -> None:
        async def wait() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.loop.run_until_complete(wait())

    def on_loop(self, function: Any) -> Any:
        async def call() -> Any:
            return function()

        return self.loop.run_until_complete(call())

    @initialize()
    def bind(self) -> None:
        self.on_loop(self.manager.bind_loop)

    # -- what may happen ------------------------------------------------------------------------------------

    @precondition(lambda self: self.closing is None)
    @rule(
        target=tasks,
        triggers=st.lists(st.sampled_from(TRIGGERS), max_size=3),
        stubborn=st.booleans(),
        begun=st.booleans(),
    )
    def start(self, triggers: list[dict[str, Any]], stubborn: bool, begun: bool) -> str:
        script = Script(stubborn)
        info = self.on_loop(lambda: self.manager.start("t", script.body, triggers=triggers))
        assert info.state == "running"
        self.scripts[info.task_id] = script
        if begun:
            self.turn()
        return info.task_id

    def send(self, task: str, action: str, value: Any = None) -> None:
        self.scripts[task].inbox.put_nowait((action, value))

    @rule(task=tasks, percent=st.sampled_from([0, 49.9, 50, 79, 80, 100, float("nan"), "60", True, None]))
    def progress(self, task: str, percent: Any) -> None:
        self.send(task, "progress", {"percent": percent})

    @rule(task=tasks)
    def emit(self, task: str) -> None:
        self.send(task, "emit", {"seen": "cup"})

    @rule(task=tasks, trigger=st.sampled_from(TRIGGERS))
    def fire(self, task: str, trigger: dict[str, Any]) -> None:
        self.send(task, "fire", dict(trigger))

    @rule(task=tasks)
    def checkpoint(self, task: str) -> None:
        self.send(task, "checkpoint")

    @rule(task=tasks, value=st.sampled_from([{}, {"n": 1}, None, 5, {"x": float("nan")}]))
    def finish(self, task: str, value: Any) -> None:
        self.send(task, "return", value)

    @rule(
        task=tasks,
        error=st.sampled_from(
            [TaskError("A", "a"), ValueError("b"), asyncio.CancelledError(), TimeoutError()]
        ),
    )
    def fail(self, task: str, error: BaseException) -> None:
        self.send(task, "raise", error)

    @rule(task=tasks, wait=st.booleans())
    def cancel(self, task: str, wait: bool) -> None:
        async def begin() -> None:
            self.cancelling.append(asyncio.ensure_future(self.manager.cancel(task)))

        self.loop.run_until_complete(begin())
        if wait:
            self.turn()

    @rule(task=consumes(tasks))
    def cancel_by_a_client_that_goes_away(self, task: str) -> None:
        async def begin() -> None:
            caller = asyncio.ensure_future(self.manager.cancel(task))
            await asyncio.sleep(0)
            caller.cancel()

        self.loop.run_until_complete(begin())

    @rule(task=tasks)
    def report_from_outside(self, task: str) -> None:
        """A helper of the body that outlives it."""
        context = self.scripts[task].context
        if context is not None:
            self.loop.run_until_complete(context.progress({"percent": 99}))

    @rule(task=tasks)
    def annotate(self, task: str) -> None:
        info = self.manager.annotate(task, {"note": 1})
        assert info is None or info.progress is not None

    @rule()
    def let_the_loop_turn(self) -> None:
        self.turn()

    @rule(seconds=st.sampled_from([0.5, 4.9, 5.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(self.clock.advance(seconds))

    @rule(seconds=st.sampled_from([-3600.0, 3600.0]))
    def the_wall_clock_steps(self, seconds: float) -> None:
        self.clock.step_wall(seconds)

    @rule()
    def close(self) -> None:
        async def begin() -> None:
            self.closing = asyncio.ensure_future(self.manager.aclose())

        self.loop.run_until_complete(begin())

    # -- what must hold -------------------------------------------------------------------------------------

    @invariant()
    def numbers_are_contiguous_and_the_terminal_event_is_the_last(self) -> None:
        by_task: dict[str, list[TaskEvent]] = {}
        for event in self.poster.events:
            by_task.setdefault(event.task_id, []).append(event)
        for events in by_task.values():
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            endings = [e for e in events if e.type in ("task_done", "task_failed")]
            assert len(endings) <= 1
            assert not endings or events[-1] is endings[0]
        assert len({e.event_id for e in self.poster.events}) == len(self.poster.events)

    @invariant()
    def polling_is_not_behind_the_wire(self) -> None:
        assert self.behind == []

    @invariant()
    def a_terminal_state_is_final_and_fits_its_event(self) -> None:
        for task_id in self.scripts:
            info = self.manager.get(task_id)
            before = self.seen.get(task_id)
            if info is None:
                assert before is not None
                assert before.state != "running" or task_id not in self.ended
                continue
            assert info.updated_at >= info.created_at
            if before is not None and before.state != "running":
                assert (info.state, info.result, info.failure) == (
                    before.state,
                    before.result,
                    before.failure,
                )
            if info.state != "running" and task_id not in self.ended:
                self.ended.append(task_id)
            self.seen[task_id] = info
            endings = [e.type for e in self.poster.of(task_id) if e.type in ("task_done", "task_failed")]
            expected = TERMINAL.get(info.state)
            assert endings == ([] if expected is None else [expected])
            assert (info.result is not None) == (info.state == "succeeded")
            assert (info.failure is not None) == (info.state == "failed")

    @invariant()
    def triggers_fire_once_unless_they_repeat(self) -> None:
        fired: dict[tuple[str, str], int] = {}
        for event in self.poster.events:
            if event.type == "trigger_fired" and event.payload["trigger"].get("repeat") is not True:
                key = (event.task_id, canonical_key(event.payload["trigger"]))
                fired[key] = fired.get(key, 0) + 1
        assert all(count == 1 for count in fired.values())

    @invariant()
    def retention_is_bounded_and_running_tasks_stay(self) -> None:
        infos = self.manager.list()
        assert sum(info.state != "running" for info in infos) <= self.retained
        known = {info.task_id for info in infos}
        for task_id, script in self.scripts.items():
            if not script.over and self.manager.get(task_id) is None:
                # Gone while its body lives: only a body that ignored its cancel.
                assert script.stubborn or task_id in self.ended or script.context is None
        assert known <= set(self.scripts)

    @invariant()
    def nothing_runs_after_the_close(self) -> None:
        if self.closing is not None and self.closing.done():
            self.closing.result()
            assert self.manager.list(["running"]) == []

    def teardown(self) -> None:
        """A close ends within the grace, every cancel got its answer, nothing is left running."""
        self.close()
        self.loop.run_until_complete(self.clock.advance(5.0))
        assert self.closing is not None
        assert self.closing.done()
        self.nothing_runs_after_the_close()
        for cancel in self.cancelling:
            assert cancel.done()
            info = cancel.result()
            assert info is None or info.state != "running"
        count = len(self.poster.events)
        for task_id, script in self.scripts.items():
            script.stubborn = False
            self.send(task_id, "return", {"late": True})
        self.turn(30)
        assert len(self.poster.events) == count
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.turn(30)
        assert asyncio.all_tasks(self.loop) == set()
        self.loop.close()
        logging.getLogger("robot_mcp_kit").setLevel(logging.NOTSET)


class TestTaskMachine(TaskMachine.TestCase):  # type: ignore[misc,name-defined]
    """K22, K40, K42, K56, K67, K76, K81, K82, K85, K86, K91, K95, K101: in any order."""

    settings = settings(
        max_examples=10_000 if THOROUGH else 60,
        stateful_step_count=40 if THOROUGH else 25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
