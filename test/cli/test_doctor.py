"""The doctor over real parts: a simulated robot, a verifying receiver, a real bridge, real files (B40).

Each fault must make exactly its own line fail, and leave the others as they were.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest

from robot_mcp_kit.cli.doctor.callback import check_events
from robot_mcp_kit.cli.doctor.machine import check_disk, check_endpoint, check_ledger, check_token
from robot_mcp_kit.cli.doctor.report import Line, as_data, rendered
from robot_mcp_kit.cli.doctor.ros import check_domain, pose_line, servers_line
from robot_mcp_kit.ros.facts import ActionFacts, GraphFacts, PoseFacts
from robot_mcp_kit.sim.domain import isolated_environment
from robot_mcp_kit.sim.process import SimProcess
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.sqlite_file import SqliteFile
from robot_mcp_kit.testing.receiver import DEFAULT_SECRET, RecordingReceiver, Reply

ROOT = Path(__file__).parents[2]
SKILLS = ROOT / "config" / "skills.yaml"
FREE_PORT = "0"

Checks = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def sim(ros_domain_id: int) -> Iterator[SimProcess]:
    with SimProcess(domain_id=ros_domain_id) as process:
        yield process


@pytest.fixture
def receiver() -> Iterator[RecordingReceiver]:
    with RecordingReceiver() as running:
        yield running


@pytest.fixture
def skills(tmp_path: Path) -> Callable[..., Path]:
    """The demo's skills file with texts replaced: old, new, old, new..."""

    def change(*texts: str) -> Path:
        text = SKILLS.read_text()
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            assert text.count(old) == 1, f"{old!r} is not unique in {SKILLS}"
            text = text.replace(old, new)
        path = tmp_path / "skills.yaml"
        path.write_text(text)
        return path

    return change


@pytest.fixture
def doctor(ros_domain_id: int, receiver: RecordingReceiver) -> Callable[..., tuple[int, Checks]]:
    """Run the command as a person would; its exit code and its lines by name."""

    def run(*options: str, env: dict[str, str] | None = None) -> tuple[int, Checks]:
        environment = isolated_environment(ros_domain_id) | {
            "PYTHONPATH": str(ROOT),
            "RVC_CALLBACK_URL": receiver.url,
            "RVC_EVENT_SECRET": receiver.secret,
            **(env or {}),
        }
        done = subprocess.run(
            [sys.executable, "-m", "robot_mcp_kit", "doctor", "--json", "--port", FREE_PORT, *options],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.stdout, done.stderr
        said = json.loads(done.stdout)
        assert said["ok"] is (done.returncode == 0)
        return done.returncode, {line["name"]: line for line in said["checks"]}

    return run


def failing(checks: Checks) -> list[str]:
    return [name for name, line in checks.items() if line["level"] == "FAILED"]


# -- the robot's side ---------------------------------------------------------------------------------------


@pytest.mark.ros
def test_a_healthy_robot_has_no_failed_line_and_exit_code_0(
    doctor: Callable[..., tuple[int, Checks]], sim: SimProcess, receiver: RecordingReceiver, tmp_path: Path
) -> None:
    """B40."""
    code, checks = doctor("--skills", str(SKILLS), "--ledger", str(tmp_path / "ledger.db"), "--timeout", "30")
    assert code == 0, checks
    assert {line["level"] for line in checks.values()} <= {"ok", "warning"}, checks
    for name in (
        "ROS 2",
        "middleware",
        "domain",
        "skills file",
        "graph",
        "servers",
        "pose",
        "events",
        "clock",
    ):
        assert checks[name]["level"] == "ok", checks[name]
    assert "rclpy" in checks["ROS 2"]["text"]
    assert "rmw_" in checks["middleware"]["text"]
    assert "(1.50, 4.00) m" in checks["pose"]["text"], "the simulated robot stands in front of its dock"
    assert receiver.events == [], "looking must not put an event into the chat app"
    assert not (tmp_path / "ledger.db").exists(), "looking must not make the file, perhaps as the wrong user"


@pytest.mark.ros
@pytest.mark.parametrize(
    ("changes", "line", "words"),
    [
        (
            ["action: navigate_to_pose", "action: navigate_to_posse"],
            "servers",
            "nearest: /navigate_to_pose",
        ),
        (
            ["action: spin\n", "action: arm_controller/follow_joint_trajectory\n"],
            "servers",
            "is a control_msgs/action/FollowJointTrajectory, the file says nav2_msgs/action/Spin",
        ),
        (
            ["action: spin\n", "action: wait\n"],
            "servers",
            "'/wait' is configured as nav2_msgs/action/Spin and as nav2_msgs/action/Wait",
        ),
        (
            ["source: topic\n    topic: amcl_pose", "source: topic\n    topic: amcl_posse"],
            "pose",
            "is published on /amcl_pose",
        ),
        (
            ["map_frame: map\n", "map_frame: earth\n", "  frames: [map]\n", "  frames: [earth, map]\n"],
            "pose",
            "is in the frame 'map'",
        ),
        (["    source: topic", "    source: nose"], "skills file", "robot.pose.source"),
        (
            [
                "\nskills:\n",
                "\nskills:\n  sing: {action: sing, type: choir_msgs/action/Sing, description: Sings.}\n",
            ],
            "interfaces",
            "'choir_msgs'",
        ),
    ],
)
def test_a_fault_in_the_skills_file_fails_exactly_its_line(
    doctor: Callable[..., tuple[int, Checks]],
    sim: SimProcess,
    skills: Callable[..., Path],
    changes: list[str],
    line: str,
    words: str,
) -> None:
    code, checks = doctor("--skills", str(skills(*changes)), "--timeout", "4")
    assert code == 1
    assert failing(checks) == [line], checks
    assert words in checks[line]["text"]
    assert checks[line]["fix"], "every failure says what to do"


@pytest.mark.ros
def test_two_servers_of_one_name_fail_the_servers_line_with_both_node_names(
    doctor: Callable[..., tuple[int, Checks]], sim: SimProcess, ros_domain_id: int
) -> None:
    with SimProcess(domain_id=ros_domain_id):
        code, checks = doctor("--skills", str(SKILLS), "--timeout", "30")
    assert code == 1
    assert failing(checks) == ["servers"], checks
    assert "/navigate_to_pose has 2 servers: /" in checks["servers"]["text"]


@pytest.mark.ros
@pytest.mark.parametrize(
    ("env", "line", "words"),
    [
        ({"ROS_DOMAIN_ID": "seven"}, "domain", "'seven'"),
        ({"ROS_DOMAIN_ID": "233"}, "domain", "from 0 to 232"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "HOUSE"}, "domain", "'HOUSE'"),
        ({"RMW_IMPLEMENTATION": "rmw_pigeon_cpp"}, "middleware", "rmw_pigeon_cpp"),
    ],
)
def test_a_wrong_ros_environment_fails_one_line_and_what_depends_on_it_is_not_judged(
    doctor: Callable[..., tuple[int, Checks]], env: dict[str, str], line: str, words: str
) -> None:
    code, checks = doctor("--skills", str(SKILLS), env=env)
    assert code == 1
    assert failing(checks) == [line], checks
    assert words in checks[line]["text"]
    assert checks["servers"]["level"] == checks["pose"]["level"] == "skipped"
    assert checks["events"]["level"] == "ok", "what needs no ROS is looked at all the same"


@pytest.mark.ros
def test_an_empty_graph_is_a_warning_and_every_server_is_missing(
    doctor: Callable[..., tuple[int, Checks]],
) -> None:
    code, checks = doctor("--skills", str(SKILLS), "--timeout", "1.5", "--namespace", "nobody_is_here")
    assert code == 1
    assert failing(checks) == ["servers", "pose"]
    assert "/nobody_is_here/navigate_to_pose" in checks["servers"]["text"]


@pytest.mark.ros
def test_a_running_bridge_at_the_port_is_fine(
    doctor: Callable[..., tuple[int, Checks]],
    sim: SimProcess,
    ros_domain_id: int,
    start_cli: Callable[..., Any],
) -> None:
    bridge = start_cli("run", "--skills", str(SKILLS), "--port", "0", env=isolated_environment(ros_domain_id))
    port = bridge.line_with("bridge ready ", 60).rsplit(":", 1)[1].split("/")[0]
    _, checks = doctor("--port", port, "--timeout", "1.5")
    assert checks["endpoint"]["level"] == "ok", checks["endpoint"]
    assert "a bridge answers there already (robot" in checks["endpoint"]["text"]
    assert bridge.interrupt() == 0


def test_without_ros_one_line_says_so_and_the_rest_is_checked() -> None:
    from test.cli.test_help import run_without

    done = run_without({"rclpy"}, "doctor", "--json", "--port", "0", "--skills", str(SKILLS))
    assert done.returncode == 1, done.stderr
    checks = {line["name"]: line for line in json.loads(done.stdout)["checks"]}
    assert failing(checks) == ["ROS 2"]
    assert "source" in checks["ROS 2"]["fix"][0]
    assert checks["servers"]["level"] == "skipped"
    assert checks["skills file"]["level"] == checks["packages"]["level"] == checks["disk"]["level"] == "ok"


def test_without_the_mcp_extra_the_packages_line_says_what_to_install() -> None:
    from test.cli.test_help import run_without

    missing = {"rclpy", "mcp", "uvicorn", "starlette", "structlog", "yaml", "rich"}
    done = run_without(missing, "doctor", "--json", "--port", "0", "--host", "0.0.0.0")
    checks = {line["name"]: line for line in json.loads(done.stdout)["checks"]}
    assert failing(checks) == ["packages", "token"], done.stderr  # nobody would be kept out of 0.0.0.0
    assert "robot-mcp-kit[mcp]" in checks["packages"]["fix"][0]


def test_wrong_usage_is_exit_code_2() -> None:
    from test.cli.test_help import run_without

    done = run_without({"rclpy"}, "doctor", "--skills", "no/such.yaml")
    assert done.returncode == 2
    assert "--skills no/such.yaml: there is no such file" in done.stderr
    assert run_without({"rclpy"}, "doctor", "--port", "70000").returncode == 2


def test_a_domain_that_collides_with_ephemeral_ports_is_a_warning() -> None:
    assert check_domain({"ROS_DOMAIN_ID": "150"}).level == "warning"
    assert check_domain({"ROS_DOMAIN_ID": "42", "ROS_LOCALHOST_ONLY": "1"}).level == "warning"
    assert check_domain({"ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}).level == "warning"
    assert check_domain({"ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF", "ROS_STATIC_PEERS": "r2"}).level == "ok"
    assert check_domain({}).level == "ok"


def test_a_server_built_from_other_definitions_is_a_failure_that_names_the_parts() -> None:
    action = ActionFacts(
        skill="spin",
        name="/spin",
        type="nav2_msgs/action/Spin",
        server_types=["nav2_msgs/action/Spin"],
        nodes=["/behavior_server"],
        ready=True,
        other_definition=["goal", "result"],
    )
    graph = GraphFacts(nodes=["/behavior_server"], actions=[action], served=["/spin"], looked_s=1.0)
    line = servers_line(graph, frozenset({"nav2_msgs/action/Spin"}))
    assert line.level == "FAILED"
    assert "goal and result of nav2_msgs/action/Spin have other fields" in line.text
    healthy = graph.model_copy(update={"actions": [action.model_copy(update={"other_definition": []})]})
    assert servers_line(healthy, frozenset({"nav2_msgs/action/Spin"})).level == "ok"


def test_a_silent_pose_topic_is_a_warning_and_matters_less_without_a_drive() -> None:
    drive = parse_config("skills: {go: {action: go, type: nav2_msgs/action/NavigateToPose}}")
    arm = parse_config("skills: {wait: {action: wait, type: nav2_msgs/action/Wait}}")
    silent = PoseFacts(topic="/amcl_pose", publishers=["/amcl"])
    assert pose_line(silent, drive).level == "warning"
    assert "initial pose" in pose_line(silent, drive).fix[0]
    assert pose_line(PoseFacts(topic="/amcl_pose"), drive).level == "FAILED"
    assert pose_line(PoseFacts(topic="/amcl_pose"), arm).level == "warning"


# -- the chat app's side ------------------------------------------------------------------------------------


def events_and_clock(url: str, secret: str = DEFAULT_SECRET, **more: Any) -> tuple[Line, Line]:
    events, clock = check_events({"RVC_CALLBACK_URL": url, "RVC_EVENT_SECRET": secret}, "robot", **more)
    return events, clock


def test_an_accepted_signature_is_ok_and_nothing_is_applied(receiver: RecordingReceiver) -> None:
    events, clock = events_and_clock(receiver.url)
    assert (events.level, clock.level) == ("ok", "ok")
    assert "refuses a wrong one" in events.text
    assert receiver.events == []


def test_a_receiver_that_is_not_there_fails_events_only(receiver: RecordingReceiver) -> None:
    receiver.stop()
    events, clock = events_and_clock(receiver.url)
    assert (events.level, clock.level) == ("FAILED", "skipped")
    assert "cannot be reached" in events.text


def test_another_secret_fails_events_only(receiver: RecordingReceiver) -> None:
    events, clock = events_and_clock(receiver.url, "another")
    assert (events.level, clock.level) == ("FAILED", "ok")
    assert "refuses our signature with 401" in events.text
    assert "RVC_EVENT_SECRET" in events.fix[0]


def test_clocks_that_differ_too_much_fail_the_clock_only() -> None:
    fast_s = 4000.0
    with RecordingReceiver(wall_clock=lambda: time() + fast_s) as receiver:
        receiver.answer_always(Reply(401, headers={"Date": formatdate(time() + fast_s, usegmt=True)}))
        events, clock = events_and_clock(receiver.url)
    assert (events.level, clock.level) == ("warning", "FAILED")
    assert "+4000 s" in clock.text or "+3999 s" in clock.text
    assert "clocks explain" in events.text


def test_clocks_that_drift_apart_are_a_warning(receiver: RecordingReceiver) -> None:
    receiver.answer_always(Reply(400, headers={"Date": formatdate(time() - 120, usegmt=True)}))
    _, clock = events_and_clock(receiver.url)
    assert clock.level == "warning"


@pytest.mark.parametrize(
    ("reply", "level", "words"),
    [
        (
            Reply(302, headers={"Location": "https://elsewhere/"}),
            "FAILED",
            "redirects (302) to https://elsewhere/",
        ),
        (Reply(404), "FAILED", "no events on that path (404)"),
        (Reply(503), "FAILED", "fails with 503"),
        (Reply(429), "warning", "busy (429)"),
        (Reply(200), "warning", "accepts a wrong signature too"),
        (Reply(422), "warning", "cannot be told"),
        (Reply(drop=True), "FAILED", "cannot be reached"),
    ],
)
def test_each_answer_of_a_receiver_is_told_apart(
    receiver: RecordingReceiver, reply: Reply, level: str, words: str
) -> None:
    receiver.answer_always(reply)
    events, _ = events_and_clock(receiver.url)
    assert events.level == level
    assert words in events.text


def test_a_real_event_is_posted_only_when_asked_for(receiver: RecordingReceiver) -> None:
    events, _ = events_and_clock(receiver.url, test_event=True)
    assert events.level == "ok"
    [event] = receiver.events
    assert (event.type, event.tool, event.server) == ("watch_event", "doctor", "robot")


def test_an_environment_that_stops_the_bridge_is_a_failure() -> None:
    assert events_and_clock("http://127.0.0.1:1/x", "")[0].level == "FAILED"
    assert events_and_clock("chat.app/events")[0].level == "FAILED"
    assert check_events({}, "robot")[0].level == "warning"


def test_the_secret_and_what_a_url_hides_are_never_shown(receiver: RecordingReceiver) -> None:
    url = receiver.url.replace("http://", "http://user:pa55word@") + "?key=k3y"
    for secret in (receiver.secret, "another-s3cret"):
        lines = events_and_clock(url, secret)
        assert not [word for word in ("pa55word", "k3y", secret) if word in str(as_data(lines))]


# -- this machine -------------------------------------------------------------------------------------------


def test_a_port_that_something_else_has_fails_the_endpoint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        other.settimeout(10)
        line, bridge = check_endpoint("127.0.0.1", port, {})
    assert (line.level, bridge) == ("FAILED", False)
    assert f"127.0.0.1:{port} is taken" in line.text
    assert check_endpoint("127.0.0.1", port, {})[0].level == "ok"


def test_a_port_of_another_http_server_is_not_taken_for_a_bridge(receiver: RecordingReceiver) -> None:
    line, bridge = check_endpoint("127.0.0.1", receiver.port, {})
    assert (line.level, bridge) == ("FAILED", False)
    assert "another HTTP server" in line.text


def test_an_address_of_another_machine_fails_the_endpoint() -> None:
    line, _ = check_endpoint("192.0.2.1", 8765, {})
    assert line.level == "FAILED"
    assert "ip addr" in line.fix[0]


def test_an_open_address_without_a_token_fails_the_token() -> None:
    pytest.importorskip("mcp")
    assert check_token("0.0.0.0", {}).level == "FAILED"
    assert check_token("0.0.0.0", {"ROBOT_MCP_TOKEN": "x" * 32}).level == "ok"
    assert check_token("0.0.0.0", {"ROBOT_MCP_TOKEN": "short"}).level == "warning"
    assert check_token("127.0.0.1", {}).level == "ok"


def test_a_ledger_is_opened_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE goal (id TEXT)")
    connection.close()
    before = path.read_bytes()
    assert check_ledger(str(path), bridge_runs=False).level == "ok"
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.db"]


def test_a_damaged_a_locked_and_an_impossible_ledger_fail(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"this is not a database, it is a love letter" * 100)
    assert check_ledger(str(damaged), bridge_runs=False).level == "FAILED"
    assert check_ledger(str(tmp_path / "no" / "folder" / "l.db"), bridge_runs=False).level == "FAILED"
    locked = tmp_path / "locked.db"
    holder = SqliteFile(locked)
    try:
        line = check_ledger(str(locked), bridge_runs=False)
        assert line.level == "FAILED"
        assert "another bridge" in line.fix[0]
        assert check_ledger(str(locked), bridge_runs=True).level == "ok", "a running bridge holds its file"
    finally:
        holder.close()
    assert check_ledger(str(locked), bridge_runs=False).level == "ok", "nobody holds it now"


def test_too_little_space_fails_the_disk(tmp_path: Path) -> None:
    environment = {"ROS_LOG_DIR": str(tmp_path / "not" / "yet")}
    assert check_disk(str(tmp_path / "ledger.db"), 0.001, environment).level in ("ok", "warning")
    line = check_disk(str(tmp_path / "ledger.db"), 1e12, environment)
    assert line.level == "FAILED"
    assert "for ledger in" in line.text


def test_what_strangers_write_cannot_move_the_cursor() -> None:
    text = rendered(
        Line("events", "FAILED", "says \x1b[2J\x07 hello", ("do\x1b[1A",)), columns=80, colour=False
    )
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "hello" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take other users' files away")
def test_a_ledger_folder_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert check_ledger(str(tmp_path / "file" / "ledger.db"), bridge_runs=False).level == "FAILED"
