"""The simulated robot as a process: start, readiness, namespaces, signals, death."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from robot_mcp_kit.sim.domain import reserved_domain
from robot_mcp_kit.sim.messages import seconds
from robot_mcp_kit.sim.process import SimProcess, SimProcessError

pytestmark = pytest.mark.ros


@pytest.fixture
def domain() -> Iterator[int]:
    with reserved_domain() as number:
        yield number


def test_in_real_time_it_looks_like_a_real_robot_in_its_namespace(domain: int, make_robot: Any) -> None:
    """Wall time stamps, no /clock, everything under the namespace; parameters are honoured from the start."""
    from nav2_msgs.action import NavigateToPose
    from nav_msgs.msg import Odometry

    parameters = {"start_x_m": 2.0, "blocked_doors": ["kitchen_door"], "recovery_retries": 0}
    with SimProcess(domain_id=domain, parameters=parameters, namespace="robot7") as process:
        robot = make_robot(process, domain)
        odometry: list[Odometry] = []
        robot.node.create_subscription(Odometry, "robot7/odom", odometry.append, 10)
        robot.until(lambda: bool(odometry), "odometry")
        assert abs(seconds(odometry[-1].header.stamp) - time.time()) < 60.0
        assert robot.node.count_publishers("/clock") == 0
        name = "robot7/navigate_to_pose"
        goal = robot.send(NavigateToPose, name, pose=robot.pose(10.0, 6.5))
        assert goal.end()[1].error_code == 208
        assert process.stop() == 0
        assert not any("Traceback" in line for line in process.output)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_status_0_even_while_a_goal_runs(
    domain: int, make_robot: Any, number: signal.Signals
) -> None:
    process = SimProcess(domain_id=domain, real_time_factor=5.0).start()
    try:
        robot = make_robot(process, domain)
        robot.navigate(11.0, 4.0).until_feedback()
        os.kill(process.pid, number)
        robot.until(lambda: process.returncode is not None, "the end of the process", 10.0)
        assert process.returncode == 0
    finally:
        process.stop()
    assert not any("Traceback" in line for line in process.output)


def test_it_dies_without_a_word_when_told_to(domain: int, make_robot: Any) -> None:
    with SimProcess(domain_id=domain, real_time_factor=5.0) as process:
        robot = make_robot(process, domain)
        robot.navigate(11.0, 4.0).until_feedback()
        robot.set(die_after_s=0.2)
        robot.until(lambda: process.returncode is not None, "the death", 10.0)
        assert process.returncode == 9


def test_results_expire_after_the_time_that_was_set(domain: int, make_robot: Any) -> None:
    """C26: status 0 with a default result, which says success for docking."""
    parameters = {"result_timeout_s": 0}
    with SimProcess(domain_id=domain, real_time_factor=20.0, parameters=parameters) as process:
        robot = make_robot(process, domain)
        from nav2_msgs.action import UndockRobot

        def status() -> int:
            goal = robot.send(UndockRobot, "undock_robot")
            assert goal.accepted
            robot.until(lambda: 6 in goal.statuses, "the end")
            assert robot.state()["goals"]  # one more round trip: time for the result to expire
            return int(goal.end()[0])

        robot.until(lambda: status() == 0, "an expired result")


def test_it_can_be_killed_and_started_again(domain: int) -> None:
    process = SimProcess(domain_id=domain)
    with pytest.raises(SimProcessError, match="was not started"):
        _ = process.pid
    assert process.stop() is None
    process.start()
    with pytest.raises(SimProcessError, match="already"):
        process.start()
    process.kill()
    assert process.returncode == -signal.SIGKILL
    with SimProcess(domain_id=domain) as again:
        assert again.returncode is None
        assert again.pid != process.pid


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"start_x_m": 6.0, "start_y_m": 7.0}, "is not free"),
        ({"real_time_factor": 500.0}, "real_time_factor"),
        ({"blocked_doors": ["barn_door"]}, "barn_door"),
    ],
)
def test_wrong_parameters_stop_the_start_and_say_which(
    domain: int, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(SimProcessError, match=words):
        SimProcess(domain_id=domain, parameters=parameters).start()


def test_the_helper_does_not_import_ros() -> None:
    code = "import sys, robot_mcp_kit.sim.process; sys.exit('rclpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_odd_values_and_names_reach_the_command_line_intact(domain: int) -> None:
    process = SimProcess(
        domain_id=domain,
        parameters={"behavior_trees": ["it's.xml"], "blocked_doors": [], "stuck": True},
        namespace="/a/",
    )
    command = process.command()
    assert "behavior_trees:=['it''s.xml']" in command
    assert "blocked_doors:=['']" in command
    assert "stuck:=true" in command
    assert "__ns:=/a" in command
    with pytest.raises(TypeError):
        SimProcess(domain_id=domain, parameters={"x": {}}).command()


def test_it_ends_when_its_parent_is_killed(domain: int, tmp_path: Any) -> None:
    """An orphan would go on driving on its domain for ever."""
    code = (
        "import os, sys\n"
        "from robot_mcp_kit.sim.process import SimProcess\n"
        f"sim = SimProcess(domain_id={domain}).start()\n"
        "print(sim.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    pid = int(parent.stdout.readline())
    gone = os.pidfd_open(pid)
    parent.kill()
    parent.wait()
    readable, _, _ = select.select([gone], [], [], 20.0)
    os.close(gone)
    parent.stdin.close()
    parent.stdout.close()
    assert readable


@pytest.mark.parametrize(
    "arguments", [["--fly"], ["--ros-args", "-p", "no value"], ["--ros-args", "--bogus"]]
)
def test_wrong_command_lines_end_with_status_2_and_one_line(domain: int, arguments: list[str]) -> None:
    environment = SimProcess(domain_id=domain).environment()
    command = [sys.executable, "-m", "robot_mcp_kit.sim", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help_lists_every_parameter(domain: int) -> None:
    environment = SimProcess(domain_id=domain).environment()
    command = [sys.executable, "-m", "robot_mcp_kit.sim", "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0
    for name in ("real_time_factor", "blocked_doors", "die_after_s", "stop_on_failure"):
        assert name in done.stdout


def test_a_cancel_in_the_preemption_window_is_seen_only_for_the_newer_goal(
    domain: int, make_robot: Any
) -> None:
    """D36: while B is pending, Nav2 looks at B alone. A slow loop (0.5 Hz) makes the window wide."""
    parameters = {"feedback_hz": 0.5}
    with SimProcess(domain_id=domain, real_time_factor=3.0, parameters=parameters) as process:
        robot = make_robot(process, domain)
        first = robot.navigate(11.0, 4.0)
        first.until_feedback(lambda f: f.distance_remaining > 1.0)
        second = robot.navigate(8.0, 4.0)
        assert second.accepted
        assert first.cancel()  # accepted, and without effect
        assert first.end()[0] == 6
        second.until_feedback()
        third = robot.navigate(6.0, 4.0)
        assert third.accepted
        assert third.cancel()  # stops everything
        assert third.end()[0] == 5
        assert second.end()[0] == 6
        robot.until(lambda: robot.state()["speed"] == 0.0, "standstill")
