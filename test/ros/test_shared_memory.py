"""What a killed process leaves in shared memory does not keep the bridge from starting."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_mcp_kit.ros.shared_memory import FOLDER, OLD_S, remove_unfinished_ports
from robot_mcp_kit.sim.domain import isolated_environment

pytestmark = pytest.mark.ros
START = """
from robot_mcp_kit.ros.side import RosSide
side = RosSide()
print("up", flush=True)
side.close()
"""


def _made(file: Path, *, age_s: float, text: str = "") -> Path:
    file.write_text(text)
    then_s = time.time() - age_s
    os.utime(file, (then_s, then_s))
    return file


def test_only_old_and_empty_port_files_are_removed(tmp_path: Path) -> None:
    """Case E47: whatever else is there belongs to somebody who lives, or to nobody's way."""
    old_s = OLD_S + 1.0
    gone = {_made(tmp_path / name, age_s=old_s).name for name in ("fastdds_port9915", "fastrtps_port7411")}
    kept = [
        _made(tmp_path / "fastdds_port7413", age_s=0.0),
        _made(tmp_path / "fastdds_port7415", age_s=old_s, text="a port"),
        _made(tmp_path / "fastdds_port7415_el", age_s=old_s),
        _made(tmp_path / "fastdds_75839892cfa7e0cd_el", age_s=old_s),
        _made(tmp_path / "somebody_elses_port1", age_s=old_s),
    ]
    assert set(remove_unfinished_ports(tmp_path)) == gone
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(file.name for file in kept)
    assert remove_unfinished_ports(tmp_path / "nowhere") == []


@pytest.fixture
def unfinished(ros_domain_id: int) -> Iterator[None]:
    """The ports of the domain's first participants, as a process leaves them that was killed there."""
    first = 7400 + 250 * ros_domain_id + 11
    names = [f"{kind}_port{first + 2 * n}" for n in range(8) for kind in ("fastdds", "fastrtps")]
    files = [FOLDER / name for name in names if not (FOLDER / name).exists()]
    for file in files:
        _made(file, age_s=60.0)
    yield
    for file in files:
        file.unlink(missing_ok=True)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no shared memory here")
def test_a_process_starts_over_what_a_killed_one_left_unfinished(
    unfinished: None, ros_domain_id: int
) -> None:
    """Case E47: without the removal it would wait until it is killed itself."""
    environment = {**isolated_environment(ros_domain_id), "FASTDDS_BUILTIN_TRANSPORTS": "DEFAULT"}
    done = subprocess.run(
        [sys.executable, "-c", START], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "up" in done.stdout
