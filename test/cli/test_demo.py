"""The whole story, as a stranger starts it, with every part in a process of its own."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
StartCli = Callable[..., Any]


def finish(demo: Any, timeout_s: float = 110) -> tuple[int, dict[str, Any]]:
    """Exit code, and the one object on standard output."""
    code = demo.process.wait(timeout=timeout_s)
    lines = demo.rest()
    assert len(lines) == 1, (lines, demo.errors)
    return code, json.loads(lines[0])


def test_one_call_drives_the_robot_and_every_claim_is_checked(start_cli: StartCli) -> None:
    code, told = finish(start_cli("demo", "--once", "--json", "--real-time-factor", "4"))
    assert told["checks"], told
    assert all(told["checks"].values()), told
    assert told["ok"] is True
    assert code == 0
    assert told["task"]["state"] == "running"
    assert told["final_task"]["state"] == "succeeded"
    events = [entry["event"] for entry in told["events"]]
    assert all(entry["verified"] for entry in told["events"])
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["type"] for event in events]
    assert kinds.count("progress") >= 3
    assert kinds.count("trigger_fired") == 1
    assert kinds[-1] == "task_done"
    (fired,) = [event for event in events if event["type"] == "trigger_fired"]
    assert fired["payload"]["trigger"] == {"type": "eta_below", "seconds": 10.0}
    assert 0 < fired["payload"]["eta_s"] <= 10.0
    assert told["measured"]["error_m"] <= told["measured"]["tolerance_m"]
    assert 0 < told["timings"]["call_to_task_info_s"] < told["timings"]["total_s"]
    assert 0 < told["timings"]["call_to_accepted_s"] < told["timings"]["total_s"]


def test_behind_a_shut_door_the_demo_fails_and_names_what_does_not_hold(start_cli: StartCli) -> None:
    demo = start_cli(
        "demo", "--once", "--json", "--real-time-factor", "20", "--fault", "blocked_doors=kitchen_door"
    )
    code, told = finish(demo)
    assert code == 1
    assert told["ok"] is False
    assert told["checks"]["accepted"] is True
    assert told["checks"]["seq_contiguous"] is True
    assert told["checks"]["task_done"] is False
    assert told["checks"]["final_pose_within_tolerance"] is False
    assert told["final_task"]["failure"]["error_code"] == "NAV2_NO_PATH"
    assert any("task_done" in line and "FAILED" in line for line in demo.errors)
    logs = Path(told["logs"])
    assert (logs / "bridge.log").stat().st_size > 0
    for file in logs.iterdir():
        file.unlink()
    logs.rmdir()


def test_a_drive_that_waits_for_a_person_says_so_and_how_to_let_it(
    start_cli: StartCli, tmp_path: Path
) -> None:
    """R18: on a file without standing approvals."""
    skills = tmp_path / "skills.yaml"
    template = (ROOT / "config" / "skills.yaml").read_text()
    skills.write_text(template.split("\n# What stands between")[0] + "\nsafety: {approval: required}\n")
    demo = start_cli("demo", "--once", "--skills", str(skills), "--real-time-factor", "6")
    assert "NOTHING MOVES YET" in demo.line_with("waits for a person", 60)
    command = demo.line_with("robot-mcp-kit approve ").split()
    assert "robot-mcp-kit reject " in demo.line()
    said = start_cli(*command[1:])
    assert said.process.wait(timeout=60) == 0, said.errors
    code, told = demo.process.wait(timeout=110), demo.rest()
    assert code == 0, told
    assert any("✓ task done" in line for line in told)


def test_a_place_that_the_skills_file_lacks_is_said_before_anything_starts(
    start_cli: StartCli, tmp_path: Path
) -> None:
    skills = tmp_path / "skills.yaml"
    text = (Path(__file__).parents[2] / "config" / "skills.yaml").read_text(encoding="utf-8")
    skills.write_text(text.replace("  kitchen:\n    x_m", "  pantry:\n    x_m", 1), encoding="utf-8")
    demo = start_cli("demo", "--json", "--skills", str(skills))
    assert demo.process.wait(timeout=60) == 2
    assert demo.rest() == []
    told = "\n".join(demo.errors)
    assert "the place kitchen" in told
    assert "pantry" in told
    assert "simulated robot" not in told


def test_kept_it_tells_how_to_connect_and_shows_what_others_call(start_cli: StartCli) -> None:
    demo = start_cli("demo", "--keep", "--real-time-factor", "8")
    url = demo.line_with("MCP endpoint: ", timeout_s=60).split("MCP endpoint: ")[1]
    demo.line_with("Ctrl-C ends it")
    drive = start_cli(url, "lobby", script="examples/drive.py")
    assert drive.process.wait(timeout=60) == 0, drive.errors
    assert '"place":"lobby"' in demo.line_with("task_done")
    assert demo.interrupt() == 130


def test_interrupted_in_the_middle_it_leaves_no_process_behind(start_cli: StartCli) -> None:
    mark = f"ROBOT_MCP_KIT_TEST_MARK={uuid.uuid4()}"
    demo = start_cli("demo", "--once", "--real-time-factor", "1", env=marked(mark))
    demo.line_with("progress", timeout_s=60)
    assert len(processes_with(mark)) >= 5, "demo, guardian, simulator, witness, bridge"
    assert demo.interrupt() == 130
    assert processes_with(mark) == []
    assert not any("Traceback" in line for line in demo.errors), demo.errors


def test_killed_it_leaves_no_process_behind_either(start_cli: StartCli) -> None:
    mark = f"ROBOT_MCP_KIT_TEST_MARK={uuid.uuid4()}"
    demo = start_cli("demo", "--once", "--real-time-factor", "1", env=marked(mark))
    demo.line_with("progress", timeout_s=60)
    assert len(processes_with(mark)) >= 5
    demo.process.kill()
    demo.process.wait()
    deadline_s = time.monotonic() + 30
    while processes_with(mark):
        assert time.monotonic() < deadline_s, "somebody is left"
        time.sleep(0.05)


def marked(mark: str) -> dict[str, str]:
    """An environment that shows in ``/proc``: that of a forked process is its parent's there."""
    name, value = mark.split("=")
    return {name: value, "ROBOT_MCP_KIT_COLD_START": "1"}


def processes_with(mark: str) -> list[int]:
    """Processes whose environment holds ``mark``; children inherit it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
