"""A process of real rclpy action servers whose motions are told by number, and which writes down each one.

``python motions.py JOURNAL COUNT [RESULT_TIMEOUT_S]`` offers ``/motion0`` ... of
``test_msgs/action/Fibonacci``. The goal's ``order`` says everything, see :func:`order`. The journal gets one
JSON line when a motion begins to execute and one when it ended; a motion number that begins twice was moved
twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

SLOW_CANCEL_S = 1.5
_DELAYS, _DURATIONS = 100, 1000


def order(motion: int, *, accept_s: float = 0.0, duration_s: float = 1.0, slow_cancel: bool = False) -> int:
    """The goal's ``order`` for a motion of that number (below 20,000).

    Args:
        motion: its number.
        accept_s: how long the server thinks before it accepts, up to 9.9.
        duration_s: how long it moves, up to 9.9.
        slow_cancel: it comes to rest only :data:`SLOW_CANCEL_S` after a cancel.
    """
    centiseconds = round(duration_s * 100) // 2 * 2 + slow_cancel
    return (motion * _DELAYS + round(accept_s * 10)) * _DURATIONS + centiseconds


def _read(value: int) -> tuple[int, float, float, bool]:
    rest, centiseconds = divmod(value, _DURATIONS)
    motion, tenths = divmod(rest, _DELAYS)
    return motion, tenths / 10, centiseconds // 2 * 2 / 100, bool(centiseconds % 2)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """What happened so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Motions:
    """The servers of one process."""

    def __init__(self, journal: str, count: int, result_timeout_s: int) -> None:
        import rclpy
        from rclpy.action import ActionServer, CancelResponse
        from rclpy.callback_groups import ReentrantCallbackGroup
        from test_msgs.action import Fibonacci

        self._fibonacci = Fibonacci
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lock = threading.Lock()
        self.node = rclpy.create_node("motions")
        self.servers = [
            ActionServer(
                self.node,
                Fibonacci,
                f"/motion{number}",
                self._execute,
                goal_callback=self._decide,
                cancel_callback=lambda _: CancelResponse.ACCEPT,
                callback_group=ReentrantCallbackGroup(),
                result_timeout=result_timeout_s,
            )
            for number in range(count)
        ]

    def _write(self, **line: Any) -> None:
        with self._lock:
            os.write(self._journal, (json.dumps({**line, "at_s": time.time()}) + "\n").encode())

    def _decide(self, goal: Any) -> Any:
        from rclpy.action import GoalResponse

        time.sleep(_read(goal.order)[1])
        return GoalResponse.ACCEPT

    def _execute(self, handle: Any) -> Any:
        motion, _, duration_s, slow_cancel = _read(handle.request.order)
        self._write(what="begin", motion=motion, goal=bytes(handle.goal_id.uuid).hex())
        end_s = time.monotonic() + duration_s
        stopping = False
        while (now_s := time.monotonic()) < end_s:
            if handle.is_cancel_requested and not stopping:
                stopping = True
                end_s = now_s + (SLOW_CANCEL_S if slow_cancel else 0.05)
            handle.publish_feedback(
                self._fibonacci.Feedback(sequence=[round(100 * (1 - (end_s - now_s) / duration_s))])
            )
            time.sleep(0.05)
        stopping = stopping or handle.is_cancel_requested
        (handle.canceled if stopping else handle.succeed)()
        self._write(what="end", motion=motion, ending="cancelled" if stopping else "succeeded")
        return self._fibonacci.Result(sequence=[motion])


def main() -> None:
    import rclpy
    from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor

    rclpy.init()
    motions = Motions(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 60)
    executor = MultiThreadedExecutor(num_threads=64)
    executor.add_node(motions.node)
    print("ready", flush=True)
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        executor.spin()
    for server in motions.servers:
        server.destroy()
    motions.node.destroy_node()
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
