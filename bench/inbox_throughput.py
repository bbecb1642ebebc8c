"""The verified inbox against a bare Starlette endpoint behind the same server, and what one event costs
inside.

    python bench/inbox_throughput.py
    python bench/inbox_throughput.py --million      also a million events through deduplication, and the
    memory it takes

Both endpoints run in one process of their own and are asked in turns, so that both see the same machine. The
ratio holds on other machines too; milliseconds do not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.inbox import Inbox
from robot_mcp_kit.client.verifying import EventVerifier
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.signing import sign

SECRET = "a secret of thirty-two characters"  # noqa: S105
CONNECTIONS = 8
"""As many as the kit's poster keeps in flight."""


def event(number: int, tasks: int = 50) -> dict[str, Any]:
    """One of a stream of events of several tasks."""
    return {
        "schema_version": 1,
        "event_id": f"8c1f0e2a-6f5e-4a6e-9f6f-{number:012d}",
        "task_id": f"navi-{number % tasks:06x}",
        "server": "navigation",
        "tool": "navigate_to",
        "type": "progress",
        "seq": number // tasks + 1,
        "ts": "2026-06-12T14:03:00.123Z",
        "payload": {"eta_s": 22.4, "distance_m": 14.1, "percent": 60.0, "pose": {"x_m": 1.0, "y_m": 2.0}},
    }


def serve(listener: socket.socket, database: str) -> None:
    """The server process: ``/bare`` and the inbox."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from robot_mcp_kit.client.asgi import events_route

    async def bare(request: Request) -> JSONResponse:
        await request.json()
        return JSONResponse({"ok": True})

    async def empty(request: Request) -> JSONResponse:
        await request.body()
        return JSONResponse({"ok": True})

    inbox = Inbox({"navigation": SECRET}, book=TaskBook(database))
    app = Starlette(
        routes=[
            Route("/bare", bare, methods=["POST"]),
            Route("/empty", empty, methods=["POST"]),
            events_route(inbox),
        ]
    )
    config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


def raw_request(path: str, body: bytes) -> bytes:
    """The bytes of one request, signed."""
    at = int(time.time())
    head = (
        f"POST {path} HTTP/1.1\r\nHost: chat\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nX-RVC-Server: navigation\r\nX-RVC-Timestamp: {at}\r\n"
        f"X-RVC-Signature: sha256={sign(SECRET, at, body)}\r\n\r\n"
    )
    return head.encode() + body


def cpu_s(pid: int) -> float:
    """Computing time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def drive(port: int, pid: int, requests: list[bytes]) -> float:
    """Requests for a second of the server's computing, over a few connections; every answer must be 200."""

    async def one(mine: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in mine:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(head.decode())
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()

    begun_s = cpu_s(pid)
    await asyncio.gather(*(one(requests[index::CONNECTIONS]) for index in range(CONNECTIONS)))
    return len(requests) / (cpu_s(pid) - begun_s)


@contextlib.contextmanager
def server(database: str) -> Iterator[tuple[int, int]]:
    """The server in a process of its own: port and process id."""
    listener = socket.create_server(("127.0.0.1", 0))
    process = multiprocessing.get_context("fork").Process(
        target=serve, args=(listener, database), daemon=True
    )
    process.start()
    port = listener.getsockname()[1]
    listener.close()
    try:
        yield port, process.pid or 0
    finally:
        process.terminate()
        process.join()


async def throughput(rounds: int, each: int) -> dict[str, Any]:
    """Interleaved rounds; medians and their ratio."""
    found: dict[str, list[float]] = {"/bare": [], "/empty": [], "/api/agent/events": []}
    number = 0
    with tempfile.TemporaryDirectory() as folder, server(f"{folder}/chat.db") as (port, pid):
        await asyncio.sleep(1.0)
        for turn in range(rounds + 1):
            for path, rates in found.items():
                requests = []
                for _ in range(each):
                    requests.append(raw_request(path, json.dumps(event(number)).encode()))
                    number += path.startswith("/api")
                # In order over one connection each: a lane a task, as the poster sends them.
                rate = await drive(port, pid, requests)
                if turn:  # the first round warms up
                    rates.append(rate)
    bare, empty, inbox = (statistics.median(rates) for rates in found.values())
    return {
        "bare_json_per_cpu_s": round(bare),
        "bare_body_per_cpu_s": round(empty),
        "inbox_per_cpu_s": round(inbox),
        "ratio_to_bare_json": round(inbox / bare, 3),
        "ratio_to_bare_body": round(inbox / empty, 3),
    }


def inside(count: int) -> dict[str, Any]:
    """Microseconds of each part, without HTTP."""
    verifier = EventVerifier({"navigation": SECRET})
    bodies = [json.dumps(event(number)).encode() for number in range(count)]
    at = int(time.time())
    headers = [
        [
            ("x-rvc-server", "navigation"),
            ("x-rvc-timestamp", str(at)),
            ("x-rvc-signature", f"sha256={sign(SECRET, at, body)}"),
        ]
        for body in bodies
    ]
    begun_s = time.process_time()
    verdicts = [verifier.judge(*pair) for pair in zip(headers, bodies, strict=True)]
    verify_us = (time.process_time() - begun_s) / count * 1e6
    events = [verdict.event for verdict in verdicts if verdict.event is not None]
    taken_us = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, path in (("memory", None), ("disk", Path(folder) / "chat.db")):
            book = TaskBook(path)
            begun_s = time.process_time()
            for one in events:
                book.take_event(one)
            taken_us[name] = (time.process_time() - begun_s) / count * 1e6
            book.close()
    return {
        "verify_us": round(verify_us, 1),
        "write_down_us": {name: round(value, 1) for name, value in taken_us.items()},
    }


def resident_mb() -> float:
    """Memory of this process now; a high-water mark hides growth behind what other parts have used."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def million(count: int) -> dict[str, Any]:
    """So many different events, each sent twice; the memory that this process grows by."""
    with tempfile.TemporaryDirectory() as folder:
        book = TaskBook(Path(folder) / "chat.db", max_remembered=2 * count)
        template = TaskEvent.model_validate(event(0))
        before_mb = middle_mb = most_mb = resident_mb()
        begun_s = time.process_time()
        for number in range(count):
            content = event(number, tasks=1000)
            one = template.model_copy(update={key: content[key] for key in ("event_id", "task_id", "seq")})
            if book.take_event(one).duplicate:
                raise SystemExit(f"event {number} was taken for a repetition")
            if not book.take_event(one).duplicate:
                raise SystemExit(f"event {number} was taken twice")
            if number % 1000 == 0:
                most_mb = max(most_mb, resident_mb())
            if number == count // 2:
                middle_mb = most_mb
        seconds = time.process_time() - begun_s
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        book.close()
    return {
        "events": count,
        "each_sent": 2,
        "seconds": round(seconds, 1),
        "resident_before_mb": round(before_mb, 1),
        "memory_growth_mb": round(most_mb - before_mb, 1),
        "of_that_in_the_second_half_mb": round(most_mb - middle_mb, 1),
        "file_mb": round(size / 1e6, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--each", type=int, default=1000, help="requests of one kind in a round")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--events", type=int, default=1_000_000, help="with --million")
    args = parser.parse_args()
    report: dict[str, Any] = {}
    if args.million:  # first, in a process that has used little
        report["deduplication"] = million(args.events)
    report["throughput"] = asyncio.run(throughput(args.rounds, args.each))
    report["inside"] = inside(5_000)
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
