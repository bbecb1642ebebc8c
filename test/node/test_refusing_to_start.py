"""A configuration that cannot be used stops the start, with exit code 2 and the name of what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

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
