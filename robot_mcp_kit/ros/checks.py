"""What is there of ROS, as JSON lines on standard output: ``python -m robot_mcp_kit.ros.checks``.

A process of its own (the question comes as JSON on standard input), because a middleware that is set up
wrongly ends the process that loads it, and whoever diagnoses that must survive it.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import re
import sys
from pathlib import Path

from robot_mcp_kit.ros.facts import Facts, Question, RosFacts

_WHEELS = ("jazzy", "kilted", "lyrical", "rolling")


def ros_facts() -> RosFacts:
    """Which ROS 2 this Python finds, without loading any of it."""
    spec = importlib.util.find_spec("rclpy")
    path = Path(spec.origin if spec is not None and spec.origin else "").parent
    distribution, version = os.environ.get("ROS_DISTRO", ""), ""
    installed = re.match(r"/opt/ros/(\w+)/", str(path))
    if installed:
        distribution = installed[1]
    for name in ("", *_WHEELS):
        try:
            version = importlib.metadata.version(f"ros-{name}-rclpy" if name else "rclpy")
        except importlib.metadata.PackageNotFoundError:
            continue
        distribution = distribution or name
    return RosFacts(distribution=distribution, version=version, path=str(path))


def main() -> int:
    """Read the question, print each kind of fact as soon as it is known."""
    question = Question.model_validate_json(sys.stdin.read())

    def say(facts: Facts) -> None:
        print(facts.model_dump_json(), flush=True)

    found = ros_facts()
    say(found)
    try:
        from robot_mcp_kit.ros.looking import answer
    except ImportError as error:  # another Python's extension modules, a package that is missing
        say(found.model_copy(update={"error": str(error)}))
        return 1
    asyncio.run(answer(question, say))
    return 0


if __name__ == "__main__":
    sys.exit(main())
