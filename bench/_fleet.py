"""Scripted action servers for the benchmarks: many actions of one process, cheap enough not to be the limit.

Real rclpy action servers (``bench_01`` ..., nav2_msgs/action/NavigateToPose). Each goal runs until it is
cancelled, or succeeds at once with ``--quick``. Feedback is published straight on the action's feedback
topic, by one timer for all goals. On standard output, one JSON line an event with ``monotonic_s``, taken
first thing in the callback: ``goal``, ``cancel``, and ``ended`` with the number of messages ``sent``.

Once a second (``--spikes``) the feedback's pose jumps for one single message to x = 10, 20, 30 ... m, and is
at the origin otherwise: a trigger ``zone_entered`` around such a spot fires only if that very message was
evaluated. Each is told by a line ``spike`` with the time of day.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import sys
import threading
import time

import rclpy
import rclpy.executors
from _fleet_plan import FAR_M, SPIKES, spike_x_m
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionServer, CancelResponse
from rclpy.qos import QoSProfile
from rclpy.task import Future


class Fleet:
    def __init__(
        self, node: rclpy.node.Node, count: int, rate_hz: float, *, quick: bool, spikes: bool
    ) -> None:
        self._node = node
        self._quick = quick
        self._spikes = spikes
        self._rate_hz = rate_hz
        self._running: dict[bytes, tuple[str, object, object, Future]] = {}
        self._sent: dict[bytes, int] = {}
        self._out = threading.Lock()
        self._servers = []
        for number in range(1, count + 1):
            name = f"bench_{number:02}"
            feedback = node.create_publisher(
                NavigateToPose.Impl.FeedbackMessage, f"{name}/_action/feedback", QoSProfile(depth=100)
            )
            self._servers.append(self._serve(name, feedback))
        if rate_hz > 0:
            node.create_timer(1.0 / rate_hz, self._tick)

    def _serve(self, name: str, feedback: object) -> ActionServer:
        def accept(_request: object) -> object:
            self._say("goal", name)
            return rclpy.action.GoalResponse.ACCEPT

        def cancel(handle: object) -> object:
            self._say("cancel", name)
            running = self._running.get(bytes(handle.goal_id.uuid))
            if running is not None:
                running[3].set_result(None)
            return CancelResponse.ACCEPT

        async def execute(handle: object) -> object:
            if self._quick:
                handle.succeed()
                return NavigateToPose.Result()
            key = bytes(handle.goal_id.uuid)
            message = NavigateToPose.Impl.FeedbackMessage(goal_id=handle.goal_id)
            message.feedback.current_pose.header.frame_id = "map"
            message.feedback.current_pose.pose.orientation.w = 1.0
            message.feedback.distance_remaining = FAR_M
            end = Future(executor=self._node.executor)
            self._running[key] = (name, feedback, message, end)
            self._sent[key] = 0
            await end
            del self._running[key]
            self._say("ended", name, sent=self._sent.pop(key))
            handle.canceled()
            return NavigateToPose.Result()

        return ActionServer(
            self._node,
            NavigateToPose,
            name,
            execute,
            goal_callback=accept,
            cancel_callback=cancel,
            result_timeout=2,
        )

    def _tick(self) -> None:
        for key, (name, publisher, message, _) in list(self._running.items()):
            number = self._sent[key] = self._sent[key] + 1
            spike, rest = divmod(number, int(self._rate_hz))
            is_spike = self._spikes and rest == 0 and 1 <= spike <= SPIKES
            message.feedback.current_pose.pose.position.x = spike_x_m(spike) if is_spike else 0.0
            publisher.publish(message)
            if is_spike:
                self._say("spike", name, number=spike, wall_s=time.time())

    def _say(self, event: str, action: str, **more: float) -> None:
        line = {"event": event, "action": action, "monotonic_s": time.monotonic(), **more}
        with self._out:
            print(json.dumps(line), flush=True)


def make_executor(*, quick: bool) -> rclpy.executors.Executor:
    """The events executor costs least, where rclpy has it. Not for quick goals: when hundreds of finished
    goals expire, rclpy 9's events executor stands still for seconds, until their results have expired too.
    """
    if not quick:
        with contextlib.suppress(ImportError):
            from rclpy.experimental import EventsExecutor

            return EventsExecutor()
    return rclpy.executors.SingleThreadedExecutor()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=1)
    parser.add_argument("--hz", type=float, default=0.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--spikes", action="store_true")
    args = parser.parse_args()
    rclpy.init()
    node = rclpy.create_node("bench_fleet")
    executor = make_executor(quick=args.quick)
    executor.add_node(node)
    Fleet(node, args.actions, args.hz, quick=args.quick, spikes=args.spikes)
    ended = threading.Event()

    def until_stdin_ends() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=until_stdin_ends, daemon=True).start()
    gc.freeze()
    print("ready", flush=True)
    with contextlib.suppress(KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        while not ended.is_set() and rclpy.ok():
            executor.spin_once(timeout_sec=0.2)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
