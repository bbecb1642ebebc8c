"""The simulator's node and its process: ``python -m robot_mcp_kit.sim``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from types import FrameType
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args
from std_msgs.msg import String
from std_srvs.srv import Trigger

from robot_mcp_kit.sim.actions import SimActionServer
from robot_mcp_kit.sim.arm import JOINT_NAMES
from robot_mcp_kit.sim.behaviors import BackUpServer, DriveOnHeadingServer, SpinServer, WaitServer
from robot_mcp_kit.sim.clock import SimClock
from robot_mcp_kit.sim.docking import DockRobotServer, UndockRobotServer
from robot_mcp_kit.sim.engine import Engine
from robot_mcp_kit.sim.faults import FIELDS, default, help_text
from robot_mcp_kit.sim.floorplan import Pose, describe
from robot_mcp_kit.sim.gripping import FINGER_JOINT, GripperServer
from robot_mcp_kit.sim.moveit import MoveGroupServer
from robot_mcp_kit.sim.navigation import Muxer, NavigateToPoseServer
from robot_mcp_kit.sim.parameters import START, FaultSwitches, declare_start
from robot_mcp_kit.sim.publishers import Publishers
from robot_mcp_kit.sim.signals import Signals
from robot_mcp_kit.sim.through_poses import NavigateThroughPosesServer
from robot_mcp_kit.sim.trajectory import TrajectoryServer
from robot_mcp_kit.sim.waypoints import FollowWaypointsServer
from robot_mcp_kit.sim.world import World

READY = "sim ready"
EXECUTOR_THREADS = 24
"""Every running goal holds one of the executor's threads; the rest answer cancels and parameters."""


class RobotSim(Node):  # type: ignore[misc]  # rclpy has no types that mypy can use
    """The simulated robot.

    Besides the robot's own topics and actions it offers, for tests and curious people:

    * ``~/state`` (std_srvs/Trigger): the truth as JSON: pose, speeds, objects, battery, counts of goals.
    * ``~/goals`` (std_msgs/String, transient local): one JSON object a goal request, as the server saw it.
    * ``~/reset_world`` (std_srvs/Trigger): robot and objects back to the start; refused while goals run.
    * faults: see :mod:`robot_mcp_kit.sim.faults`.
    """

    def __init__(self) -> None:
        super().__init__("robot_sim")
        values = declare_start(self)
        factor = float(values["real_time_factor"])
        self.feedback_hz = float(values["feedback_hz"])
        self.localization_noise_m = float(values["localization_noise_m"])
        self.recovery_retries = int(values["recovery_retries"])
        self.result_timeout_s = int(values["result_timeout_s"])
        self.behavior_trees = [str(name) for name in values["behavior_trees"]]
        if not self.behavior_trees:
            raise ValueError("behavior_trees: give at least one file name")
        self.clock = SimClock(real_time=factor == 1.0)
        start = Pose(values["start_x_m"], values["start_y_m"], values["start_yaw_rad"])
        self.world = World(self.clock, start=start, seed=int(values["seed"]))
        if self.world.planner.clearance.exact(start.x_m, start.y_m) < self.world.base.limits.radius_m:
            raise ValueError(f"start_x_m, start_y_m: ({start.x_m}, {start.y_m}) is not free; start elsewhere")
        self.world.battery.percentage = float(values["battery_percentage"])
        self.errors: list[str] = []
        self._counts: Counter[str] = Counter()
        self.engine = Engine(self.world, factor)
        self.switches = FaultSwitches(self, self.world)
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._goals = self.create_publisher(String, "~/goals", latched)
        self.create_service(Trigger, "~/state", self._on_state)
        self.create_service(Trigger, "~/reset_world", self._on_reset_world)
        self.signals = Signals(self)
        self.publishers_thread = Publishers(self)
        self.servers = self._make_servers()

    def _make_servers(self) -> list[SimActionServer]:
        muxer = Muxer()
        return [
            NavigateToPoseServer(self, muxer),
            NavigateThroughPosesServer(self, muxer),
            FollowWaypointsServer(self),
            SpinServer(self),
            BackUpServer(self),
            DriveOnHeadingServer(self),
            WaitServer(self),
            DockRobotServer(self),
            UndockRobotServer(self),
            TrajectoryServer(self),
            MoveGroupServer(self),
            GripperServer(self),
        ]

    def start(self) -> None:
        """Let time run."""
        self.engine.start()
        self.publishers_thread.start()

    def close(self) -> None:
        """Stop time; goals in work abort."""
        self.engine.stop()
        for server in self.servers:
            server.close()
        self.publishers_thread.join(timeout=1.0)

    # -- what servers and publishers ask for -------------------------------------------------------

    def joint_state(self) -> tuple[list[str], list[float], list[float]]:
        """Names, positions and velocities of all joints."""
        with self.world.lock:
            arm, gripper = self.world.arm, self.world.gripper
            names = [*JOINT_NAMES, FINGER_JOINT]
            return names, [*arm.positions, gripper.gap_m], [*arm.rates, gripper.speed]

    def wall_slack_s(self, wall_s: float) -> float:
        """Simulation seconds that pass in so much wall time beyond what would pass in real time."""
        return wall_s * max(0.0, self.engine.real_time_factor - 1.0)

    def count(self, what: str) -> None:
        """One more of these, for ``~/state``."""
        self._counts[what] += 1

    def record_goal(self, action: str, goal_id: str | None, *, accepted: bool) -> None:
        """Tell the world that a goal request arrived."""
        self._counts[f"{action}:{'accepted' if accepted else 'rejected'}"] += 1
        entry = {
            "action": action,
            "goal_id": goal_id,
            "accepted": accepted,
            "wall_time_s": time.time(),
            "sim_time_s": self.clock.now_s,
        }
        self._goals.publish(String(data=json.dumps(entry)))

    def record_error(self, error: Exception) -> None:
        """Something in the simulator itself went wrong; shown by ``~/state``."""
        self.errors.append(repr(error))

    def truth(self) -> dict[str, Any]:
        """The world as it is, as JSON-able data."""
        with self.world.lock:
            world, base = self.world, self.world.base
            world.carry()
            return {
                "sim_time_s": self.clock.now_s,
                "real_time_factor": self.engine.real_time_factor,
                "slipped_s": self.engine.slipped_s,
                "pose": [base.x_m, base.y_m, base.yaw_rad],
                "speed": base.speed,
                "yaw_rate": base.yaw_rate,
                "travelled_m": base.travelled_m,
                "room": world.plan.room_at(base.x_m, base.y_m),
                "docked_at": world.docked_at.name if world.docked_at else None,
                "battery": {"percentage": world.battery.percentage, "charging": world.battery.charging},
                "joints": dict(zip(JOINT_NAMES, world.arm.positions, strict=True)),
                "tool": list(world.tool_in_map()),
                **self.signals.truth(),
                "gripper": {
                    "gap_m": world.gripper.gap_m,
                    "holding": world.gripper.held.spec.name if world.gripper.held else None,
                },
                "objects": {name: [t.x_m, t.y_m, t.z_m] for name, t in world.things.items()},
                "goals": dict(self._counts),
                "errors": list(self.errors),
                "floor_plan": describe(world.plan),
            }

    def _on_state(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = not self.errors and self.engine.error is None
        response.message = json.dumps(self.truth())
        return response

    def _on_reset_world(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        busy = [server.name for server in self.servers if server.busy]
        response.success = not busy
        if busy:
            response.message = f"goals are running ({', '.join(busy)}): cancel them first"
            return response
        self.world.reset()
        self.signals.reset()
        for server in self.servers:
            server.forget()
        response.message = "everything is back where it was"
        return response


def _exit_soon(after_s: float, status: int) -> None:
    """Whatever hangs, the process ends: somebody pressed Ctrl-C."""
    timer = threading.Timer(after_s, os._exit, args=(status,))
    timer.daemon = True
    timer.start()


def _parser() -> argparse.ArgumentParser:
    lines = [f"  {name} (default {start.default}): {start.text}" for name, start in START.items()]
    lines += [f"  {name} (default {default(name)}): {help_text(name)}" for name in FIELDS]
    parser = argparse.ArgumentParser(
        prog="python -m robot_mcp_kit.sim",
        description="A simulated robot made of real ROS 2 action servers.",
        epilog="\n".join(["ROS parameters (--ros-args -p NAME:=VALUE):", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--end-with-stdin", action="store_true", help="end when standard input does (the parent is gone)"
    )
    return parser


def _watch_stdin(stop: threading.Event) -> None:
    def watch() -> None:
        while os.read(0, 4096):
            pass
        stop.set()

    threading.Thread(target=watch, name="stdin", daemon=True).start()


def main(args: Sequence[str] | None = None) -> int:
    """Run the simulated robot until SIGINT or SIGTERM; returns the exit status.

    ``args``: command line without the program's name (default ``sys.argv[1:]``); ROS arguments are honoured.
    Prints the line ``sim ready`` on stdout once all servers are up. Status 2: a wrong argument or parameter,
    1: the simulator itself failed.
    """
    argv = list(sys.argv[1:] if args is None else args)
    parser = _parser()
    try:
        options = parser.parse_args(remove_ros_args(argv))
    except RuntimeError as error:  # what rcl raises for wrong ROS arguments
        parser.error(f"wrong ROS arguments: {str(error).splitlines()[0]}")
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    if options.end_with_stdin:
        _watch_stdin(stop)
    try:
        rclpy.init(args=argv, signal_handler_options=SignalHandlerOptions.NO)
        sim = RobotSim()
    except Exception as error:
        print(f"the simulated robot cannot start: {error}", file=sys.stderr)
        rclpy.try_shutdown()
        return 2
    executor = MultiThreadedExecutor(num_threads=EXECUTOR_THREADS)
    executor.add_node(sim)
    failure: list[BaseException] = []

    def spin() -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            pass
        except BaseException as error:
            failure.append(error)
        finally:
            stop.set()

    spinner = threading.Thread(target=spin, name="executor", daemon=True)
    spinner.start()
    sim.start()
    print(READY, flush=True)
    while not stop.wait(timeout=0.5):
        if sim.engine.error is not None:
            failure.append(sim.engine.error)
            break
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the tidying
    _exit_soon(3.0, 1 if failure else 0)
    sim.close()
    executor.shutdown(timeout_sec=1.0)
    rclpy.try_shutdown()
    spinner.join(timeout=1.0)
    if failure:
        print(f"the simulated robot failed: {failure[0]!r}", file=sys.stderr)
        return 1
    return 0
