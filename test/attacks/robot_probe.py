"""A ROS node that knows nothing of the bridge: publishes what interlocks read, and counts at the robot.

JSON lines in: ``{"set": {"estop": false, "door": null}}`` (``null``: fall silent), ``{"ask": n}``. JSON lines
out: ``{"ready": true}``, ``{"answer": n, "truth": {...}}``.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

PERIOD_S = 0.05


def say(**content: Any) -> None:
    print(json.dumps(content), flush=True)


def main() -> None:
    rclpy.init()
    node = rclpy.create_node("robot_probe")
    values: dict[str, bool | None] = {"estop": False, "door": False}
    publishers = {name: node.create_publisher(Bool, name, 10) for name in values}
    client = node.create_client(Trigger, "/robot_sim/state")

    def beat() -> None:
        for name, value in values.items():
            if value is not None:
                publishers[name].publish(Bool(data=value))

    node.create_timer(PERIOD_S, beat)
    executor = SingleThreadedExecutor()
    executor.add_node(node)

    def listen() -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if "set" in order:
                for name, value in order["set"].items():
                    values[name] = value
                    if value is not None:
                        publishers[name].publish(Bool(data=value))
            if "ask" in order:
                number = order["ask"]
                client.call_async(Trigger.Request()).add_done_callback(
                    lambda done, number=number: say(answer=number, truth=json.loads(done.result().message))
                )
        executor.create_task(lambda: rclpy.try_shutdown())

    client.wait_for_service(30.0)
    say(ready=True)
    threading.Thread(target=listen, daemon=True).start()
    while rclpy.ok():
        executor.spin_once(timeout_sec=0.2)


if __name__ == "__main__":
    main()
