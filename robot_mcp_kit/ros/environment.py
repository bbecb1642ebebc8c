"""Make this process ready for rclpy. Imports no ROS itself, so it can run (and explain) without it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


class RosNotFoundError(RuntimeError):
    """rclpy cannot be imported here; the message says what to do."""


def prepare_environment() -> None:
    """Set what rclpy reads from the environment, where nobody did before.

    ``AMENT_PREFIX_PATH`` gets this Python's prefix when that is an ament prefix (ROS installed as wheels into
    a virtual environment) and no distribution was sourced: package look-ups fail without it.

    Raises:
        RosNotFoundError: no rclpy.
    """
    prefix = Path(sys.prefix)
    if not os.environ.get("AMENT_PREFIX_PATH") and (prefix / "share/ament_index/resource_index").is_dir():
        os.environ["AMENT_PREFIX_PATH"] = str(prefix)
    if importlib.util.find_spec("rclpy") is None:
        raise RosNotFoundError(
            f"rclpy was not found by {sys.executable}. "
            "On a robot: source the distribution first (source /opt/ros/<distro>/setup.bash). "
            "Without a ROS installation: run `make demo` in a checkout, which sets up ROS 2 in .venv."
        )
