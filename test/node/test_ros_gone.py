"""ROS goes away under the running node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from robot_mcp_kit.sim.domain import isolated_environment

from .conftest import ROOT, SKILLS

SCRIPT = str(Path(__file__).with_name("dying_bridge.py"))


@pytest.mark.ros
def test_the_node_ends_with_a_failure_and_leaves_its_files_in_order(
    ros_domain_id: int, tmp_path: Path
) -> None:
    """Case E47: a bridge without ROS can do nothing any more; whoever watches over it starts it again."""
    environment = isolated_environment(ros_domain_id) | {"ROBOT_MCP_STATE_DIR": str(tmp_path / "state")}
    ledger = tmp_path / "ledger.db"
    parameters = {"skills_file": SKILLS, "ledger_file": ledger, "port": 0}
    words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    with (tmp_path / "log").open("w") as log:
        bridge = subprocess.Popen(
            [sys.executable, SCRIPT, "--ros-args", *words],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert bridge.stdout is not None
            assert bridge.stdout.readline().startswith("bridge ready"), (tmp_path / "log").read_text()
            bridge.communicate("now\n", timeout=60)
        finally:
            bridge.kill()
            bridge.wait()
    said = (tmp_path / "log").read_text()
    assert bridge.returncode == 1, said
    assert "ROS is gone" in said
    trail = "".join(file.read_text() for file in (tmp_path / "state" / "audit").glob("*.jsonl"))
    assert '"event":"closed"' in trail.splitlines()[-1]
