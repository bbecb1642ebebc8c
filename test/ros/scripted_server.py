"""A real rclpy action server whose every step the test writes: JSON lines in on stdin, events out on stdout.

In:  {"do": "accept", "value": true|false}      answer to the next goals (default true)
     {"do": "cancel_answer", "value": true|false}
     {"do": "feedback", "goal": HEX, "count": N, "period_s": S}
     {"do": "finish", "goal": HEX, "as": "succeed"|"abort"|"canceled", "sequence": [..]}
     {"do": "bounce"}                            destroy the server and make it anew, in the same node
     {"do": "exit"}                              leave without a word (os._exit)
Out: {"event": "ready"} {"event": "told", "do": "accept"|"cancel_answer", "value": true|false}
     {"event": "goal", "goal": HEX, "order": N, "t": MONOTONIC}
     {"event": "cancel", "goal": HEX, "t": MONOTONIC} {"event": "finished", "goal": HEX}
     {"event": "bounced"}
An order of 0 succeeds at once by itself.
"""

import contextlib
import json
import os
import queue
import sys
import threading
import time

import rclpy
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from test_msgs.action import Fibonacci


class Server:
    def __init__(self, action_name: str, result_timeout_s: int) -> None:
        self.accept = True
        self.accept_cancel = True
        self.goals: dict[str, object] = {}
        self.orders: dict[str, queue.Queue] = {}
        self.out = threading.Lock()
        self.node = rclpy.create_node("scripted_server")
        self.executor = MultiThreadedExecutor(num_threads=64)
        self.executor.add_node(self.node)
        self.action_name, self.result_timeout_s = action_name, result_timeout_s
        self.server = self.make()

    def make(self) -> ActionServer:
        return ActionServer(
            self.node,
            Fibonacci,
            self.action_name,
            self.execute,
            goal_callback=self.on_goal,
            cancel_callback=self.on_cancel,
            callback_group=ReentrantCallbackGroup(),
            result_timeout=self.result_timeout_s,
        )

    def bounce(self) -> None:
        self.server.destroy()
        self.server = self.make()
        self.say(event="bounced")

    def say(self, **event: object) -> None:
        with self.out:
            print(json.dumps(event), flush=True)

    def on_goal(self, request: object) -> GoalResponse:
        return GoalResponse.ACCEPT if self.accept else GoalResponse.REJECT

    def on_cancel(self, handle: object) -> CancelResponse:
        self.say(event="cancel", goal=bytes(handle.goal_id.uuid).hex(), t=time.monotonic())
        return CancelResponse.ACCEPT if self.accept_cancel else CancelResponse.REJECT

    def execute(self, handle: object) -> Fibonacci.Result:
        goal = bytes(handle.goal_id.uuid).hex()
        steps = self.orders.setdefault(goal, queue.Queue())
        self.say(event="goal", goal=goal, order=handle.request.order, t=time.monotonic())
        if handle.request.order == 0:
            handle.succeed()
            return Fibonacci.Result(sequence=[0])
        while True:
            step = steps.get()
            if step["do"] == "feedback":
                for i in range(step["count"]):
                    handle.publish_feedback(Fibonacci.Feedback(sequence=[i]))
                    time.sleep(step.get("period_s", 0.0))
                continue
            {"succeed": handle.succeed, "abort": handle.abort, "canceled": handle.canceled}[step["as"]]()
            self.say(event="finished", goal=goal)
            return Fibonacci.Result(sequence=step.get("sequence", []))

    def obey(self) -> None:
        for line in open(0, "rb", buffering=0, closefd=False):  # noqa: SIM115 - unbuffered: holds no lock at exit
            step = json.loads(line)
            if step["do"] == "accept":
                self.accept = step["value"]
                self.say(event="told", **step)
            elif step["do"] == "cancel_answer":
                self.accept_cancel = step["value"]
                self.say(event="told", **step)
            elif step["do"] == "bounce":
                self.executor.create_task(self.bounce)
            elif step["do"] == "exit":
                os._exit(0)
            else:
                self.orders.setdefault(step["goal"], queue.Queue()).put(step)
        os._exit(0)


def main() -> None:
    rclpy.init()
    server = Server(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10)
    threading.Thread(target=server.obey, daemon=True).start()
    server.say(event="ready")
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        server.executor.spin()
    # An ordinary end leaves the graph at once; a process that just vanishes is missed for 20 s.
    server.server.destroy()
    server.node.destroy_node()
    rclpy.try_shutdown()


main()
