"""``robot-mcp-kit lint`` as a person and a build job use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.cli import main

TOOL: dict[str, Any] = {
    "name": "read_pose",
    "description": "Where the robot is in the map. Not for the arm.",
    "inputSchema": {"type": "object", "properties": {}},
}


def _file(folder: Path, *tools: dict[str, Any]) -> str:
    file = folder / "tools.json"
    file.write_text(json.dumps({"tools": list(tools)}))
    return str(file)


def test_errors_are_shown_and_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", _file(tmp_path, TOOL)]) == 1
    said = capsys.readouterr().out
    assert "S001" in said
    assert "does not pass" in said


def test_json_is_one_object_with_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", _file(tmp_path, TOOL), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["summary"] == {"errors": 1, "warnings": 0, "info": 1, "pass": False}
    assert report["promcp_version"] == "0.4.0"


def test_strict_makes_a_warning_fail(tmp_path: Path) -> None:
    short = _file(tmp_path, {**TOOL, "name": "look", "description": "Look."})
    assert main(["lint", short, "--rules", "units"]) == 0
    assert main(["lint", short, "--rules", "units", "--strict"]) == 1


def test_what_cannot_be_read_is_told_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", str(tmp_path / "nothing.json")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["lint", "http://127.0.0.1:9/mcp"]) == 2
    assert "no MCP endpoint" in capsys.readouterr().err
