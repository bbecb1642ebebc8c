"""Says what it is; see ``test_warm_start.py``."""

from __future__ import annotations

import json
import os
import sys
import threading

if sys.argv[1] == "echo":
    print("files:", *sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1], file=sys.stderr)
    sys.stdout.write(sys.stdin.read())
    raise SystemExit(7)
if sys.argv[1] == "wait":
    try:
        print("waiting", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        raise SystemExit(5) from None
print(
    json.dumps(
        {
            "argv": sys.argv,
            "cwd": os.getcwd(),
            "colour": os.environ.get("COLOUR"),
            "parent": os.getppid(),
            "preloaded": "robot_mcp_kit.node.endpoint" in sys.modules,
            "leads_session": os.getsid(0) == os.getpid(),
        }
    )
)
