"""A real rclpy action server of any type, written by the test: JSON lines in on stdin, events out on stdout.

Arguments: ACTION_NAME TYPE [ACTION_NAME TYPE ...]; all by one node called ``any_action_server``.
In:  {"do": "feedback", "goal": HEX, "fields": {...}}
     {"do": "finish", "goal": HEX, "as": "succeed"|"abort"|"canceled", "fields": {...}}
Out: {"event": "ready"} {"event": "goal", "action": NAME, "goal": HEX, "fields": {...}}
     {"event": "cancel", "goal": HEX} {"event": "finished", "goal": HEX}
Fields are set and read by attribute here, without the package's own converter.
"""

import contextlib
import importlib
import json
import os
import queue
import sys
import threading

import rclpy
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor


def plain(value):
    """A message as JSON data, every value as rclpy holds it."""
    if hasattr(value, "get_fields_and_field_types"):
        return {name: plain(getattr(value, name)) for name in value.get_fields_and_field_types()}
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def fill(message, fields):
    for name, value in fields.items():
        if isinstance(value, dict):
            fill(getattr(message, name), value)
        elif value == "nan":
            setattr(message, name, float("nan"))
        else:
            setattr(message, name, value)
    return message


class Server:
    def __init__(self, actions):
        self.steps = {}
        self.out = threading.Lock()
        self.node = rclpy.create_node("any_action_server")
        self.servers = [self.serve(name, kind) for name, kind in actions]

    def serve(self, name, kind):
        package, _, short = kind.split("/")
        action = getattr(importlib.import_module(f"{package}.action"), short)
        return ActionServer(
            self.node,
            action,
            name,
            lambda handle: self.execute(name, action, handle),
            cancel_callback=self.on_cancel,
            callback_group=ReentrantCallbackGroup(),
        )

    def say(self, **event):
        with self.out:
            print(json.dumps(event), flush=True)

    def on_cancel(self, handle):
        self.say(event="cancel", goal=bytes(handle.goal_id.uuid).hex())
        return CancelResponse.ACCEPT

    def steps_of(self, goal):
        return self.steps.setdefault(goal, queue.Queue())

    def execute(self, name, action, handle):
        goal = bytes(handle.goal_id.uuid).hex()
        self.say(event="goal", action=name, goal=goal, fields=plain(handle.request))
        while True:
            step = self.steps_of(goal).get()
            if step["do"] == "feedback":
                handle.publish_feedback(fill(action.Feedback(), step["fields"]))
                continue
            {"succeed": handle.succeed, "abort": handle.abort, "canceled": handle.canceled}[step["as"]]()
            self.say(event="finished", goal=goal)
            return fill(action.Result(), step.get("fields", {}))

    def obey(self):
        for line in open(0, "rb", buffering=0, closefd=False):  # noqa: SIM115 - unbuffered: holds no lock at exit
            step = json.loads(line)
            self.steps_of(step["goal"]).put(step)
        os._exit(0)


def main():
    rclpy.init()
    server = Server(list(zip(sys.argv[1::2], sys.argv[2::2], strict=True)))
    executor = MultiThreadedExecutor(num_threads=16)
    executor.add_node(server.node)
    threading.Thread(target=server.obey, daemon=True).start()
    server.say(event="ready")
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        executor.spin()
    server.node.destroy_node()
    rclpy.try_shutdown()


main()
