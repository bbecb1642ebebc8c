"""The receiving half of a chat app: verify events, apply each once, poll where one is missing.

    export RVC_EVENT_SECRET=$(openssl rand -hex 32)       # the same in the bridge's environment
    python examples/receive_events.py --port 8000 --robot http://127.0.0.1:8765/mcp
    RVC_CALLBACK_URL=http://127.0.0.1:8000/api/agent/events robot-mcp-kit run --skills config/skills.yaml

Push is the optimisation, polling is the truth: at its start, and whenever a sequence number is missing, it
asks the robot's own tools.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from robot_mcp_kit.client import Inbox
from robot_mcp_kit.client.session import connect


class ChatApp:
    """Knows the state of every task it has heard of."""

    def __init__(self, secrets: dict[str, str], robot_url: str) -> None:
        self.inbox = Inbox(secrets)
        self.robot_url = robot_url
        self.states: dict[str, str] = {}

    async def events(self, request: Request) -> JSONResponse:
        """``POST /api/agent/events``."""
        receipt = self.inbox.receive(request.headers, await request.body())
        if receipt.event is None:
            print("refused:", receipt.reason, flush=True)
            return JSONResponse({"reason": receipt.reason}, status_code=receipt.status)
        event = receipt.event
        if receipt.accepted:
            ended = {"task_done": "succeeded", "task_failed": "failed"}.get(event.type)
            if ended or event.task_id not in self.states:
                self.states[event.task_id] = ended or "running"
            print(event.task_id, event.seq, event.type, event.payload, flush=True)
        # Answer first, poll afterwards: the sender waits for the answer.
        poll = BackgroundTask(self.poll, event.task_id) if receipt.gap else None
        return JSONResponse({"ok": True}, background=poll)

    async def poll(self, task_id: str) -> None:
        """Ask the robot what became of a task."""
        async with connect(self.robot_url) as robot:
            task = await robot.call("get_task", task_id=task_id)
        self.states[task_id] = task.get("state", "failed")  # a task the server forgot: it restarted
        print(task_id, "polled:", self.states[task_id], flush=True)

    async def reconcile(self) -> None:
        """After our own restart: what is running now? The robot may be away; then events will tell."""
        with contextlib.suppress(Exception):
            async with connect(self.robot_url, timeout_s=5.0) as robot:
                listed: dict[str, Any] = await robot.call("list_tasks", states=["running"])
            self.states.update({task["task_id"]: "running" for task in listed["tasks"]})
        print("running at the start:", sorted(self.states), flush=True)


def build(chat: ChatApp) -> Starlette:
    """The ASGI application."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await chat.reconcile()
        yield

    routes = [Route("/api/agent/events", chat.events, methods=["POST"])]
    return Starlette(routes=routes, lifespan=lifespan)


def main() -> None:
    parser = argparse.ArgumentParser(description="Receive a robot's signed events.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--robot", default="http://127.0.0.1:8765/mcp", help="the robot's MCP endpoint")
    parser.add_argument("--server", default="robot", help="the robot's server_name")
    args = parser.parse_args()
    secret = os.environ.get("RVC_EVENT_SECRET", "")
    if not secret:
        raise SystemExit("RVC_EVENT_SECRET is not set: it is the secret that the robot's server has, too.")
    app = build(ChatApp({args.server: secret}, args.robot))
    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
