"""ROS nodes that know nothing of the bridge: publish what the safety layer reads, and count at the robot.

JSON lines in: ``{"set": {"estop": false, "door": null, "floor": "ground"}}`` (``null``: fall silent),
``{"lifecycle": "activate"}`` (a transition of the managed node ``probe_planner``),
``{"describe": "<robot/>"}`` (latched, as robot_state_publisher does), ``{"ask": n}``. JSON lines out:
``{"ready": true}``, ``{"answer": n, "truth": {...}}``.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from typing import Any

import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

PERIOD_S = 0.05


def say(**content: Any) -> None:
    print(json.dumps(content), flush=True)


def main() -> None:
    rclpy.init()
    node = rclpy.create_node("robot_probe")
    planner = LifecycleNode("probe_planner")
    values: dict[str, bool | str | None] = {"estop": False, "door": False, "floor": None}
    kinds = {name: String if name == "floor" else Bool for name in values}
    publishers = {name: node.create_publisher(kind, name, 10) for name, kind in kinds.items()}
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    description = node.create_publisher(String, "probe_description", latched)
    client = node.create_client(Trigger, "/robot_sim/state")

    def beat() -> None:
        for name, value in values.items():
            if value is not None:
                publishers[name].publish(kinds[name](data=value))

    node.create_timer(PERIOD_S, beat)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    executor.add_node(planner)

    def listen() -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if "set" in order:
                for name, value in order["set"].items():
                    values[name] = value
                    if value is not None:
                        publishers[name].publish(kinds[name](data=value))
            if "describe" in order:
                description.publish(String(data=order["describe"]))
            if "lifecycle" in order:
                with contextlib.suppress(RCLError):  # is there already; Jazzy raises, Kilted returns
                    getattr(planner, f"trigger_{order['lifecycle']}")()
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
