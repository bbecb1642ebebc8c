"""What several commands share: exit codes, errors for people, ROS argument handling, addresses."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class CliError(Exception):
    """A sentence for the person at the terminal; ends the command without a traceback."""

    def __init__(self, message: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def split_ros_arguments(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split at the first ``--ros-args``: (ours, ROS's). argparse must not see ``-p name:=value``."""
    words = list(argv)
    if "--ros-args" in words:
        at = words.index("--ros-args")
        return words[:at], words[at:]
    return words, []


def ros_arguments(
    parameters: Mapping[str, str | int | float | bool | None],
    *,
    namespace: str | None = None,
    extra: Sequence[str] = (),
) -> list[str]:
    """Turn options into ``--ros-args -p name:=value ...``; ``None`` values are left to the node's defaults.

    ``extra`` (the user's own ``--ros-args`` words) comes last, because the last one wins in ROS.
    Strings are YAML-quoted: unquoted, a file named ``1e3`` would reach the node as a number.
    """
    words: list[str] = []
    for name, value in parameters.items():
        if value is None:
            continue
        words += ["-p", f"{name}:={_yaml_scalar(value)}"]
    if namespace is not None:
        words += ["-r", f"__ns:=/{namespace.strip('/')}"]
    if words:
        words = ["--ros-args", *words, "--"]
    return [*words, *extra]


def _yaml_scalar(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def existing_file(path: str, option: str) -> str:
    """The absolute path of a file that must exist.

    Raises:
        CliError: names the option and the path.
    """
    found = Path(path).expanduser()
    if not found.is_file():
        raise CliError(f"{option} {path}: there is no such file.")
    return str(found.resolve())


def require(module: str, why: str, extra: str) -> None:
    """Check that an optional dependency is installed, without importing it.

    Raises:
        CliError: exit code 2, with the way out.
    """
    if importlib.util.find_spec(module) is None:
        raise CliError(f"{why} needs the Python package {module!r}: pip install 'robot-mcp-kit[{extra}]'.")


def require_ros(command: str) -> None:
    """Prepare the environment for rclpy and check that it can be found (not imported here).

    Raises:
        CliError: exit code 2, with the ways to get ROS.
    """
    from robot_mcp_kit.ros.environment import RosNotFoundError, prepare_environment

    try:
        prepare_environment()
    except RosNotFoundError as error:
        raise CliError(f"{command} needs ROS 2: {error}") from error


def parse_address(text: str, *, default_host: str = "127.0.0.1") -> tuple[str, int]:
    """``HOST:PORT``, ``PORT``, ``[::1]:PORT`` → (host, port). Port 0 means: any free one.

    Raises:
        CliError: says what was expected.
    """
    host, _, port_text = text.rpartition(":")
    host = host.strip("[]") or default_host
    try:
        port = int(port_text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise CliError(f"{text!r} is not an address: give HOST:PORT, for example 127.0.0.1:8000.")
    return host, port


def default_skills_file() -> Path:
    """``config/skills.yaml`` of this package: beside a source tree, or where it was installed to.

    Raises:
        CliError: it was not installed.
    """
    package = Path(__file__).resolve().parents[1]
    candidates = [package.parent, Path(sys.prefix) / "share" / "robot_mcp_kit"]
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    candidates += [Path(prefix) / "share" / "robot_mcp_kit" for prefix in prefixes if prefix]
    for directory in candidates:
        found = directory / "config" / "skills.yaml"
        if found.is_file():
            return found
    raise CliError("config/skills.yaml of robot_mcp_kit was not found; give one with --skills FILE.")
