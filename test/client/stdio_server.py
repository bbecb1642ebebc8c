"""A stdio MCP server for tests, in nothing but the standard library. Its first argument says how it
behaves.
"""

from __future__ import annotations

import json
import os
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}} for name in ("where", "hang", "flood", "die", "spam")
]


def answer(id: object, result: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\n")
    sys.stdout.flush()


def call(id: object, name: str) -> None:
    if name == "where":
        told = {"cwd": os.getcwd(), "env": dict(os.environ), "argv": sys.argv[1:], "pid": os.getpid()}
        answer(id, {"content": [{"type": "text", "text": json.dumps(told)}]})
    elif name == "hang":
        time.sleep(3600)
    elif name == "flood":
        sys.stdout.write("[" * 3_000_000)
        sys.stdout.flush()
        time.sleep(3600)
    elif name == "spam":
        sys.stdout.write("this is no message\n")
        answer(id, {"content": []})
    elif name == "die":
        sys.stderr.write("dying with s3cr3t-on-stderr\n")
        os._exit(3)


if MODE == "stubborn":
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if MODE == "chatty":
    sys.stderr.write("x" * 1_000_000)
    sys.stderr.flush()
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        answer(
            id,
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "stdio", "version": "1"},
            },
        )
    elif method == "tools/list":
        answer(id, {"tools": TOOLS})
    elif method == "tools/call":
        call(id, message["params"]["name"])
    elif id is not None:
        error = {"code": -32601, "message": "no"}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}) + "\n")
        sys.stdout.flush()
if MODE == "stubborn":
    while True:
        time.sleep(3600)
