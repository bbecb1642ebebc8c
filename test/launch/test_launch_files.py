"""The launch files, run by upstream's launch where a ROS installation has it (B35, B39).

The wheels have no launch: there these tests are skipped. The ROS containers of the workflow run them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LAUNCH = ROOT / "launch"
STARTED_WITHIN_S = 60.0

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("launch_ros") is None,
        reason="launch_ros is not installed: it comes with a ROS distribution, not with the wheels",
    ),
    pytest.mark.ros,
]

# What `ros2 launch FILE name:=value ...` does, for installations without ros2launch.
RUN = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
path, *pairs = sys.argv[1:]
service = LaunchService(noninteractive=True)
service.include_launch_description(LaunchDescription([IncludeLaunchDescription(
    PythonLaunchDescriptionSource(path), launch_arguments=[tuple(pair.split(":=", 1)) for pair in pairs])]))
sys.exit(service.run())
"""


class Launched:
    """A running launch file: waits for lines of its output, ends it as Ctrl-C does."""

    def __init__(self, file: str, *arguments: str) -> None:
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(LAUNCH / file), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "RCUTILS_COLORIZED_OUTPUT": "0"},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._new.put(line)
        self._new.put(None)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that matches, or a failure with all that was printed."""
        deadline = time.monotonic() + STARTED_WITHIN_S
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._new.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                break
            self.lines.append(line)
            if match := re.search(pattern, line):
                return match
        pytest.fail(f"no line matches {pattern!r}:\n{''.join(self.lines)}")

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self._reader.join(timeout=10)
            assert self.process.stdout is not None
            self.process.stdout.close()


@contextlib.contextmanager
def launched(file: str, *arguments: str) -> Iterator[Launched]:
    running = Launched(file, *arguments)
    try:
        yield running
    finally:
        running.end()


@pytest.fixture(autouse=True)
def installed(ros_domain_id: int) -> None:
    """A ROS domain of our own, and the package where launch looks for it."""
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        get_package_prefix("robot_mcp_kit")
    except PackageNotFoundError:
        pytest.skip("robot_mcp_kit is not in AMENT_PREFIX_PATH: colcon build, or `make test`")


# In a process of its own: launch changes how this one logs.
ARGUMENTS = """
import json, sys
from launch.actions import DeclareLaunchArgument
from launch.launch_description_sources import get_launch_description_from_python_launch_file
description = get_launch_description_from_python_launch_file(sys.argv[1])
arguments = [entity for entity in description.entities if isinstance(entity, DeclareLaunchArgument)]
print(json.dumps({one.name: [one.default_value is not None, one.description] for one in arguments}))
"""


@pytest.mark.parametrize("file", ["bridge.launch.py", "demo.launch.py"])
def test_every_launch_argument_has_a_description_and_a_default(file: str) -> None:
    """B39."""
    done = subprocess.run(
        [sys.executable, "-c", ARGUMENTS, str(LAUNCH / file)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    arguments = json.loads(done.stdout)
    assert {"namespace", "port", "skills_file", "callback_url"} <= arguments.keys()
    for name, (has_default, description) in arguments.items():
        assert has_default, name
        assert description not in ("", "no description given"), name


@pytest.mark.slow
def test_the_demo_starts_a_robot_and_a_bridge_that_answers_and_both_end_on_ctrl_c() -> None:
    """B39."""
    with launched("demo.launch.py", "port:=0", "real_time_factor:=5.0", "namespace:=robot7") as running:
        url = running.wait_for(r"bridge ready (http://\S+)")[1]
        # A plain GET is no MCP: an answer from the endpoint, not from nobody.
        assert httpx.get(url).status_code in (400, 405, 406)
        assert running.end() == 0
    output = "".join(running.lines)
    assert "Traceback" not in output


@pytest.mark.slow
def test_an_argument_left_out_does_not_override_the_parameter_file(tmp_path: Path) -> None:
    parameters = tmp_path / "bridge.yaml"
    skills = ROOT / "config" / "skills.yaml"
    parameters.write_text(
        f"/**:\n  ros__parameters:\n    skills_file: {skills}\n    port: 0\n    server_name: from_the_file\n"
    )
    with launched("bridge.launch.py", f"params_file:={parameters}", "log_level:=info") as running:
        url = running.wait_for(r"bridge ready http://127\.0\.0\.1:(\d+)/mcp")
        assert url[1] != "8765"


@pytest.mark.slow
def test_a_bridge_without_a_description_of_the_robot_says_what_is_missing() -> None:
    with launched("bridge.launch.py") as running:
        running.wait_for(r"parameter skills_file: is empty")
        running.wait_for(r"process has died.*exit code 2")
        # With nothing left to run the launch ends by itself; Ctrl-C at that moment can hang it.
        running.process.wait(timeout=STARTED_WITHIN_S)


def test_a_port_that_is_no_number_stops_the_launch_with_the_arguments_name() -> None:
    with launched("bridge.launch.py", "port:=abc") as running:
        running.wait_for(r"launch argument port:=abc: not a number")
        assert running.process.wait(timeout=STARTED_WITHIN_S) != 0
