"""A configuration that cannot be used stops the start, with exit code 2 and the name of what is wrong."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.sim.domain import isolated_environment

pytestmark = pytest.mark.ros
ARM = """\
arms: {a: {joints: {j: {range_rad: [-1.0, 1.0]}}}}
skills:
  move:
    action: move_action
    type: moveit_msgs/action/MoveGroup
    arm: a
    group: a
    end_effector_link: tool0
    frames: [base_link]
"""
SKILLS = Path(__file__).parents[2] / "config" / "skills.yaml"


@pytest.fixture(autouse=True)
def _root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _start(*arguments: str, skills: Path | str = SKILLS) -> int:
    from robot_mcp_kit.node.main import main

    return main(["--ros-args", "-p", f"skills_file:={skills}", *arguments])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("skills:\n  navigate_to:\n    actoin: x\n", ["skills.yaml", "line 3", "actoin", "action"]),
        ("places:\n  a: {x_m: .nan, y_m: 0.0, yaw_rad: 0.0}\n", ["skills.yaml", "line 2", "x_m"]),
        (
            "skills:\n  fly:\n    action: fly\n    type: drone_msgs/action/Fly\n",
            ["drone_msgs"],
        ),
        ("skills: [\n", ["skills.yaml"]),
        ("robot:\n  pose: {source: gps}\n", ["skills.yaml", "line 2", "source"]),
        ("io:\n  DI: {kind: digital_input, topic: t, field: state}\n", ["io.DI.field", "it has data"]),
        ("io:\n  DI: {kind: digital_input, topic: t, type: acme_msgs/msg/Io}\n", ["acme_msgs"]),
        (
            f"{ARM}rcp: {{programs: {{p: {{skill: move, arguments: {{target: up}}}}}}}}\n",
            ["rcp.programs.p", "target"],
        ),
        (f"{ARM}rcp: {{tcp: {{source: tf}}}}\n", ["rcp.tcp.source", "tf2_ros"]),
    ],
)
def test_a_fault_in_the_skills_file_is_named_with_its_line(
    ros_domain_id: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, words: list[str]
) -> None:
    skills = tmp_path / "skills.yaml"
    skills.write_text(text)
    assert _start("-p", "port:=0", skills=skills) == 2
    said = capfd.readouterr()
    for word in words:
        assert word in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-p", "port:=high"], ["port"]),
        (["-p", "port:=70000"], ["port", "65535"]),
        (["-p", "progress_period_s:=-1.0"], ["progress_period_s"]),
        (["-p", "feedback_timeout_s:=soon"], ["feedback_timeout_s"]),
        (["-p", "executor:=fast"], ["executor", "single_threaded"]),
        (["-p", "log_level:=loud"], ["log_level", "debug, info, warning, error"]),
        (["-p", "skills_file:=''"], ["skills_file", "--skills"]),
        (["-p", "skills_file:=/no/such/file.yaml"], ["/no/such/file.yaml"]),
        (["-p", "server_name:=''"], ["parameter server_name", "must not be empty"]),
        (["-p", "server_name:=Küche"], ["parameter server_name", "printable ASCII"]),
        (["-p", "feedback_timeout_s:=.nan"], ["parameter feedback_timeout_s"]),
        (["-p", "host:=0.0.0.0"], ["host", "ROBOT_MCP_TOKEN"]),
        (["-p", "host:=203.0.113.7"], ["host", "ROBOT_MCP_TOKEN"]),
        (["-p", "rcp_port:=70000"], ["rcp_port", "65535"]),
        (
            ["-p", "port:=0", "-p", "rcp_server:=true", "-p", "rcp_host:=0.0.0.0"],
            ["rcp_host", "ROBOT_MCP_RCP_TOKEN"],
        ),
    ],
)
def test_a_wrong_parameter_is_named(
    ros_domain_id: int, capfd: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    """B35, B41."""
    assert _start(*arguments) == 2
    said = capfd.readouterr()
    for word in words:
        assert word in said.err
    assert "Traceback" not in said.err


def test_the_protocols_server_needs_something_to_tell(
    ros_domain_id: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """R13."""
    skills = tmp_path / "skills.yaml"
    skills.write_text("robot: {name: wheels}\n")
    assert _start("-p", "port:=0", "-p", "rcp_server:=true", skills=skills) == 2
    assert (
        "parameter rcp_server: the skills file has neither an rcp section nor arms" in capfd.readouterr().err
    )


def test_the_protocols_server_without_its_library_says_what_to_install(
    ros_domain_id: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "websockets", None)
    assert _start("-p", "port:=0", "-p", "rcp_server:=true") == 2
    said = capfd.readouterr().err
    assert "pip install 'robot-mcp-kit[rcp]'" in said
    assert "Traceback" not in said


def _run(domain_id: int, folder: Path, *command: str, **parameters: object) -> tuple[int, str]:
    """A process of the bridge up to its end, which has to come by itself; its exit code and its stderr."""
    parameters = {"skills_file": SKILLS, "port": 0, **parameters}
    words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    ended = subprocess.run(
        [sys.executable, *command, "--ros-args", *words],
        env=isolated_environment(domain_id) | {"ROBOT_MCP_STATE_DIR": str(folder / "state")},
        cwd=SKILLS.parents[1],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


FAILING = str(Path(__file__).with_name("failing_bridge.py"))


@pytest.mark.parametrize("name", ['""', "ä"])
def test_a_process_with_an_unusable_name_ends_and_names_the_parameter(
    ros_domain_id: int, tmp_path: Path, name: str
) -> None:
    """B35."""
    code, said = _run(ros_domain_id, tmp_path, "-m", "robot_mcp_kit", "run", server_name=name)
    assert code == 2, said
    assert "parameter server_name: " in said
    assert "Traceback" not in said


def test_an_error_that_nobody_expects_ends_the_process_with_its_traceback(
    ros_domain_id: int, tmp_path: Path
) -> None:
    """B28, B38: a node that neither serves nor ends would not be started again by whoever watches it."""
    code, said = _run(ros_domain_id, tmp_path, FAILING, "error", log_format="json")
    assert code == 1, said
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    (told,) = [line for line in lines if line["event"] == "an error while trying to configure"]
    assert told["exception"][0]["exc_type"] == "KeyError"
    assert "failing_bridge.py" in said
    assert any(line["event"].startswith("the node ends: ") for line in lines)


def test_a_ledger_on_a_full_disk_is_named(ros_domain_id: int, tmp_path: Path) -> None:
    """B25, B35."""
    ledger = tmp_path / "ledger.db"
    code, said = _run(ros_domain_id, tmp_path, FAILING, "full", ledger_file=ledger)
    assert code == 2, said
    assert f"parameter ledger_file: {ledger}" in said
    assert "name a file on another one" in said
    assert "Traceback" not in said


def test_a_managed_node_goes_back_after_an_error_that_nobody_expects() -> None:
    """B38: whoever manages it may try again; what went wrong is kept."""
    from rclpy.lifecycle import TransitionCallbackReturn

    from robot_mcp_kit.ros.lifecycle import Transitions

    begun: list[str] = []

    def step(name: str, error: Exception | None = None) -> Callable[[], None]:
        def take() -> None:
            begun.append(name)
            if error is not None:
                raise error

        return take

    def transitions(error: Exception, *, cleanup: Exception | None = None) -> Any:
        return Transitions(
            configure=step("configure", error),
            activate=step("activate"),
            deactivate=step("deactivate"),
            cleanup=step("clean up", cleanup),
            shutdown=step("shut down"),
            reasons=(LookupError,),
        )

    accident = KeyError("frame")
    made = transitions(accident)
    assert made.on_configure(None) is TransitionCallbackReturn.ERROR
    assert made.on_error(None) is TransitionCallbackReturn.SUCCESS
    assert begun == ["configure", "clean up"]
    assert made.failure is accident
    assert made.state == "unconfigured"

    made = transitions(accident, cleanup=RuntimeError("the socket is stuck"))
    assert made.on_configure(None) is TransitionCallbackReturn.ERROR
    assert made.on_error(None) is TransitionCallbackReturn.ERROR
    assert made.failure is accident
    assert made.state == "finalized"

    reason = LookupError("no such type")
    made = transitions(reason)
    assert made.on_configure(None) is TransitionCallbackReturn.FAILURE
    assert made.failure is reason
