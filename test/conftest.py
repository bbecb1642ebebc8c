"""What all tests share: a ROS domain of their own, before anything imports rclpy."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_mcp_kit.sim.domain import reserved_domain
from tools import warm_start

os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
# Tests kill processes at any moment. One that is killed while it makes a file in shared memory leaves Fast
# DDS waiting for that file for ever, in whichever process comes next. Demos, benches and soaks use it.
os.environ.setdefault("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
if not os.environ.get("AMENT_PREFIX_PATH") and (Path(sys.prefix) / "share/ament_index").is_dir():
    os.environ["AMENT_PREFIX_PATH"] = sys.prefix


def pytest_configure() -> None:
    warm_start.install()


def pytest_unconfigure() -> None:
    warm_start.uninstall()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("rclpy") is None:
        skip = pytest.mark.skip(reason="rclpy is not installed here; `make test` sets it up")
        for item in items:
            if item.get_closest_marker("ros"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def ros_domain_id() -> Iterator[int]:
    """A ROS domain of this test run's own, in the environment of this process and its children."""
    with reserved_domain() as domain:
        before = os.environ.get("ROS_DOMAIN_ID")
        os.environ["ROS_DOMAIN_ID"] = str(domain)
        yield domain
        if before is None:
            del os.environ["ROS_DOMAIN_ID"]
        else:
            os.environ["ROS_DOMAIN_ID"] = before
