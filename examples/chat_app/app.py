"""Wires it together: definitions, connections, the verified inbox, reconciliation, and the missions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from examples.chat_app.journal import Journal
from examples.chat_app.mission import calls, due, unknown, verdict
from robot_mcp_kit.client import (
    ApprovalAdmission,
    Backoff,
    CallFailed,
    Consumer,
    Host,
    Inbox,
    NotATask,
    Reconciler,
    Robot,
    SqliteApprovals,
    StartRefused,
    StartUnknown,
    Supervisor,
    TaskBook,
    TaskUpdate,
    Tier,
    Timing,
    ToolTaskSource,
    events_route,
    materialize,
    read_source,
    resolve,
)

logger = logging.getLogger("chat_app")

RETRY_S = 1.0


class ChatApp:
    """One chat app. Everything that must outlive it is in one file.

    Args:
        config: its ``mcp.yaml``.
        database: its file.
        timing: when to poll.
    """

    def __init__(self, config: Path, database: Path, *, timing: Timing | None = None) -> None:
        resolution = resolve([read_source(config, Tier.USER)])
        for problem in (*resolution.problems, *(r.refusal for r in resolution.servers.values() if r.refusal)):
            raise SystemExit(f"{config}: {problem}")
        secrets = {}
        for name, one in resolution.servers.items():
            if one.definition is not None and one.definition.event_secrets:
                server = materialize(one.definition, os.environ)
                if server.unset:
                    raise SystemExit(f"{config}: {server.unset[0]}")
                secrets[name] = [secret.text for secret in server.event_secrets]
        self.book = TaskBook(database)
        self.inbox = Inbox(secrets, book=self.book)
        self.journal = Journal(self.book)
        # The operator of this app writes its mcp.yaml: being there is its approval.
        admission = ApprovalAdmission(SqliteApprovals(self.book.database), implicit=frozenset({Tier.USER}))
        self.supervisor = Supervisor(
            resolution,
            Host(admission, environment=os.environ),
            backoff=Backoff(attempts=2, again_after_s=1.0),
        )
        self.reconciler = Reconciler(
            self.book,
            {name: ToolTaskSource(name, caller) for name, caller in self.supervisor.servers.items()},
            timing=timing,
        )
        self.robots = {
            name: Robot(name, caller, self.book, self.reconciler)
            for name, caller in self.supervisor.servers.items()
        }
        self._changed = asyncio.Event()
        self._consumer = Consumer(self.book, "missions")

    # -- missions -------------------------------------------------------------------------------------------

    def begin(self, mission: str, place: str) -> None:
        """Begin a mission, or go on with it."""
        self.journal.begin(mission, place)
        self._changed.set()

    async def _take(self, update: TaskUpdate) -> None:
        self.journal.apply(self._consumer, update)
        logger.info("%s %s: %s", update.server, update.task_id, update.kind)
        self._changed.set()

    async def _plan(self) -> None:
        """Start what is due, whenever something has changed."""
        while True:
            self._changed.clear()
            for mission in self.journal.open_missions():
                await self._advance(mission)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), RETRY_S)

    async def _advance(self, mission: str) -> None:
        steps = self.journal.steps(mission)
        for name in due(steps):
            call = calls(self.journal.place(mission))[name]
            try:
                handle = await self.robots[call.server].start(
                    call.tool, triggers=call.triggers, idempotency_key=f"{mission}/{name}", **call.arguments
                )
            except CallFailed as error:
                logger.warning("%s %s: not started yet: %s", mission, name, error)
            except (StartRefused, NotATask) as error:
                self.journal.started(mission, name, call.server, None, str(error))
            except StartUnknown as error:
                logger.error("%s %s: %s", mission, name, error)
            else:
                self.journal.started(mission, name, call.server, handle.task_id)
        outcome = verdict(self.journal.steps(mission))
        if outcome is not None:
            logger.info("mission %s: %s", mission, outcome)
            self.journal.conclude(mission, outcome)

    # -- life -----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Everything, for as long as the block lasts."""
        self.reconciler.start()
        work = [asyncio.create_task(self._consumer.run(self._take)), asyncio.create_task(self._plan())]
        try:
            yield
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await self.reconciler.aclose()
            await self.supervisor.aclose()
            with contextlib.suppress(sqlite3.Error):
                self.book.close()

    # -- web ------------------------------------------------------------------------------------------------

    async def post_mission(self, request: Request) -> JSONResponse:
        """``POST /missions {"mission": "m1", "place": "kitchen"}``."""
        asked = await request.json()
        self.begin(str(asked["mission"]), str(asked.get("place", "kitchen")))
        return JSONResponse({"mission": asked["mission"]}, status_code=202)

    async def get_mission(self, request: Request) -> JSONResponse:
        """``GET /missions/m1``: the verdict, the steps, and what cannot be known just now."""
        mission = request.path_params["mission"]
        try:
            outcome = self.journal.verdict(mission)
        except KeyError:
            return JSONResponse({"error": "no such mission"}, status_code=404)
        steps = self.journal.steps(mission)
        return JSONResponse(
            {
                "verdict": outcome,
                "unknown": unknown(steps),
                "steps": {
                    name: {"task_id": step.task_id, "state": step.state, "why": step.why}
                    for name, step in steps.items()
                },
            }
        )

    def asgi(self) -> Starlette:
        """The web application."""

        @contextlib.asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            async with self.running():
                yield

        routes = [
            events_route(self.inbox),
            Route("/missions", self.post_mission, methods=["POST"]),
            Route("/missions/{mission}", self.get_mission),
        ]
        return Starlette(routes=routes, lifespan=lifespan)
