"""The command line answers without ROS and without MCP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Finders that do not find the forbidden packages: what a machine without them looks like to Python.
WITHOUT = """
import sys
class Blind:
    def __init__(self, finder): self.finder = finder
    def __getattr__(self, name): return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {forbidden!r}:
            return None
        return self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Blind(finder) for finder in sys.meta_path]
from robot_mcp_kit.cli import main
raise SystemExit(main({argv!r}))
"""


def run_without(forbidden: set[str], *argv: str) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(forbidden=forbidden, argv=list(argv))
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["run", "--help"],
        ["sim", "--help"],
        ["events", "--help"],
        ["demo", "--help"],
        ["doctor", "--help"],
        ["rcp", "--help"],
    ],
)
def test_help_imports_neither_ros_nor_mcp_nor_rich(argv: list[str]) -> None:
    done = run_without(
        {"rclpy", "mcp", "rich", "uvicorn", "starlette", "structlog", "yaml", "numpy", "websockets"}, *argv
    )
    assert done.returncode == 0, done.stderr
    assert "usage: robot-mcp-kit" in done.stdout


def test_help_names_the_commands() -> None:
    done = run_without(set(), "--help")
    for command in ("run", "sim", "rcp", "events", "demo", "doctor", "approve", "reject", "estop", "audit"):
        assert f"\n    {command} " in done.stdout


def test_no_command_prints_the_help_and_is_a_usage_error() -> None:
    done = run_without(set())
    assert done.returncode == 2
    assert "usage: robot-mcp-kit" in done.stderr


@pytest.mark.parametrize("argv", [["run"], ["sim"], ["demo", "--once", "--json"]])
def test_without_ros_a_sentence_says_how_to_get_it_and_the_exit_code_is_2(argv: list[str]) -> None:
    done = run_without({"rclpy"}, *argv)
    assert done.returncode == 2
    assert "needs ROS 2" in done.stderr
    assert "make demo" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_without_mcp_run_says_which_extra_brings_it() -> None:
    pytest.importorskip("rclpy")
    done = run_without({"mcp"}, "run")
    assert done.returncode == 2
    assert "pip install 'robot-mcp-kit[mcp]'" in done.stderr


def test_a_skills_file_that_does_not_exist_is_refused_by_name() -> None:
    done = run_without({"rclpy"}, "run", "--skills", "no/such.yaml")
    assert done.returncode == 2
    assert "--skills no/such.yaml: there is no such file" in done.stderr


def test_an_unknown_fault_lists_those_that_exist() -> None:
    done = run_without({"rclpy"}, "demo", "--fault", "flat_tyre=true")
    assert done.returncode == 2
    assert "blocked_doors" in done.stderr
