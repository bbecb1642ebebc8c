"""Run it.

    export ROBOT_EVENT_SECRET=$(openssl rand -hex 32) SLEEPER_EVENT_SECRET=$(openssl rand -hex 32)
    export RVC_CALLBACK_URL=http://127.0.0.1:8000/api/agent/events
    RVC_EVENT_SECRET=$ROBOT_EVENT_SECRET robot-mcp-kit run --skills config/skills.yaml
    RVC_EVENT_SECRET=$SLEEPER_EVENT_SECRET python examples/sleeper.py
    python -m examples.chat_app --mission m1 --place kitchen

Kill it at any moment and start it again: the mission goes on where the robot is.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import uvicorn

from examples.chat_app.app import ChatApp
from robot_mcp_kit.client import Timing


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.chat_app", description="A chat app in small.")
    parser.add_argument("--config", type=Path, default=Path(__file__).with_name("mcp.yaml"))
    parser.add_argument("--db", type=Path, default=Path("chat_app.db"), help="its file")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--mission", help="begin this mission, or go on with it")
    parser.add_argument("--place", default="kitchen")
    parser.add_argument(
        "--silence", type=float, default=15.0, metavar="S", help="ask about a task after so long a silence"
    )
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    timing = Timing(
        silence_s=args.silence,
        unreachable_s=args.silence,
        vanished_again_s=min(Timing().vanished_again_s, args.silence),
    )
    app = ChatApp(args.config, args.db, timing=timing)
    if args.mission:
        app.begin(args.mission, args.place)
    uvicorn.run(app.asgi(), host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
