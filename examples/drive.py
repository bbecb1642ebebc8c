"""Drive the robot to a place and follow the task, with nothing but the official MCP client.

robot-mcp-kit demo --keep          # in another terminal; prints the address
python examples/drive.py http://127.0.0.1:8765/mcp kitchen
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from mcp import Client


async def drive(url: str, place: str) -> dict[str, Any]:
    """Start the drive, print what polling shows once a second, and return the finished task."""
    async with Client(url) as client:
        answer = await client.call_tool("navigate_to", {"place": place})
        if answer.is_error:  # refused: nothing moved, and the text says what would be right
            raise SystemExit(answer.content[0].text)
        task: dict[str, Any] = json.loads(answer.content[0].text)
        try:
            while task["state"] == "running":
                await asyncio.sleep(1.0)
                answer = await client.call_tool("get_task", {"task_id": task["task_id"]})
                task = json.loads(answer.content[0].text)
                progress = task["progress"] or {}
                print(
                    task["state"], progress.get("percent"), "%,", progress.get("eta_s"), "s left", flush=True
                )
        except asyncio.CancelledError:  # Ctrl-C: the robot does not stop by itself when its caller leaves
            await client.call_tool("cancel_task", {"task_id": task["task_id"]})
            raise
        return task


def main() -> None:
    parser = argparse.ArgumentParser(description="Drive the robot to a named place.")
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8765/mcp")
    parser.add_argument("place", nargs="?", default="kitchen")
    args = parser.parse_args()
    task = asyncio.run(drive(args.url, args.place))
    print(json.dumps(task["result"] or task["failure"], indent=2))
    raise SystemExit(0 if task["state"] == "succeeded" else 1)


if __name__ == "__main__":
    main()
