"""A configuration that cannot be used stops the start, with exit code 2 and the name of what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.ros
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
