"""The checks of the robot's side: ROS found, middleware, domain, interfaces, action servers, pose.

What needs rclpy runs in a process of its own (:mod:`robot_mcp_kit.ros.checks`); this module asks it and puts
the answers in words.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from robot_mcp_kit.cli.doctor.report import Line, failed, ok, skipped, warning
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.ros.facts import (
    FACTS,
    ActionFacts,
    Facts,
    GraphFacts,
    MiddlewareFacts,
    PoseFacts,
    Question,
    RosFacts,
    TypesFacts,
)
from robot_mcp_kit.skills.config import RobotConfig, load_config
from robot_mcp_kit.skills.config.nav2 import DriveSection
from robot_mcp_kit.skills.text import nearest

TESTED = ("jazzy", "kilted")
RANGES = ("SUBNET", "LOCALHOST", "OFF", "SYSTEM_DEFAULT")
MAX_DOMAIN = 232
_SAFE_DOMAINS = range(102)
_PATIENCE_S = 20.0  # rclpy's start on a slow computer
_SHOWN = 4
_REPORT = "run `python -m robot_mcp_kit.ros.checks <<< '{}'` to see more"


def check_ros(environment: Mapping[str, str]) -> Line:
    """Whether this Python finds rclpy."""
    from robot_mcp_kit.ros.environment import RosNotFoundError, prepare_environment

    try:
        prepare_environment()
    except RosNotFoundError as error:
        found, _, way = str(error).partition(". ")
        here = f" ROS_DISTRO is {environment['ROS_DISTRO']}." if environment.get("ROS_DISTRO") else ""
        return failed("ROS 2", f"{found}.{here}", way)
    return ok("ROS 2", f"Python {platform.python_version()} ({sys.executable})")


def check_domain(environment: Mapping[str, str]) -> Line:
    """ROS_DOMAIN_ID and how far discovery goes."""
    text = environment.get("ROS_DOMAIN_ID", "").strip()
    if text and not (text.isascii() and text.isdigit() and int(text) <= MAX_DOMAIN):
        return failed(
            "domain",
            f"ROS_DOMAIN_ID is {text!r}, not a whole number from 0 to {MAX_DOMAIN}",
            "export ROS_DOMAIN_ID with the number that the robot's other nodes use, or unset it for 0",
        )
    domain = int(text or 0)
    reach = environment.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "").strip()
    peers = environment.get("ROS_STATIC_PEERS", "").strip()
    words = (
        f"{domain}{'' if text else ' (ROS_DOMAIN_ID is not set)'}, discovery {reach or 'SUBNET (default)'}"
    )
    if reach and reach.upper() not in RANGES:
        return failed(
            "domain",
            f"ROS_AUTOMATIC_DISCOVERY_RANGE is {reach!r}, which ROS does not know",
            f"one of {', '.join(RANGES)}",
        )
    if environment.get("ROS_LOCALHOST_ONLY", "0") not in ("", "0"):
        return warning(
            "domain",
            f"{words}; ROS_LOCALHOST_ONLY is deprecated and takes precedence over the range",
            "unset ROS_LOCALHOST_ONLY and set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST",
        )
    if reach.upper() == "OFF" and not peers:
        return warning(
            "domain",
            f"{words}: this process sees no other",
            "set ROS_AUTOMATIC_DISCOVERY_RANGE to LOCALHOST or SUBNET, or name ROS_STATIC_PEERS",
        )
    if domain not in _SAFE_DOMAINS:
        return warning(
            "domain",
            f"{words}: ports of domains above {_SAFE_DOMAINS[-1]} collide with those Linux hands out",
            f"use a domain from 0 to {_SAFE_DOMAINS[-1]}",
        )
    return ok("domain", words)


def check_skills(path: str | None) -> tuple[Line, RobotConfig | None]:
    """Whether the skills file can be used, as far as it can be judged without ROS."""
    if path is None:
        return skipped("skills file", "none given; with --skills FILE its actions are checked too"), None
    try:
        config = load_config(path)
    except ConfigError as error:
        faults = str(error).splitlines()
        return failed(
            "skills file", _some(faults, "; "), "correct the file; docs/reference.md lists the keys"
        ), None
    enabled = [name for name, section in config.skills.items() if section.enabled]
    if not enabled:
        return warning(
            "skills file", f"{path} has no enabled skill", "add one; config/skills.yaml has all"
        ), config
    return ok("skills file", f"{path}: {len(enabled)} skills, {len(config.places)} places"), config


def ask(question: Question, environment: Mapping[str, str]) -> tuple[dict[str, Facts], str]:
    """Facts by kind, and why there are no more of them (empty when all came)."""
    root = str(Path(__file__).resolve().parents[3])
    known = environment.get("PYTHONPATH", "")
    child = {**environment, "PYTHONPATH": os.pathsep.join(part for part in (root, known) if part)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "robot_mcp_kit.ros.checks"],
            input=question.model_dump_json(),
            env=child,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=question.wait_s + _PATIENCE_S,
            check=False,
        )
        output, errors, end = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        output, errors, end = _text(late.stdout), _text(late.stderr), None
    facts: dict[str, Facts] = {}
    for row in output.splitlines():
        try:
            kind = json.loads(row)["kind"]
            facts[kind] = FACTS[kind].model_validate_json(row)
        except (ValueError, KeyError, TypeError, ValidationError):
            continue  # something else printed into our output
    if end == 0:
        return facts, ""
    last = next((row for row in reversed(errors.splitlines()) if row.strip()), "")
    how = "did not answer in time" if end is None else f"ended with {end}"
    return facts, f"the process that loads rclpy {how}{': ' if last else ''}{last.strip()}"


def _text(output: str | bytes | None) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""


def ros_lines(question: Question, config: RobotConfig | None, environment: Mapping[str, str]) -> list[Line]:
    """All lines that need ROS (rclpy is there and the domain is sound), in order."""
    facts, trouble = ask(question, environment)
    found = _ros_line(facts.get("ros"), trouble)
    if found.level == "FAILED":
        middleware = skipped("middleware", "not looked at: needs ROS 2")
    else:
        middleware = _middleware_line(facts.get("middleware"), trouble, environment)
    lines = [found, middleware]
    broken = any(line.level == "FAILED" for line in lines)
    lines.append(_types_line(facts.get("types"), config))
    graph = facts.get("graph")
    if broken or not isinstance(graph, GraphFacts):
        why = "not looked at, because of the lines above"
        sight = skipped("graph", why) if broken else failed("graph", f"looking broke off: {trouble}", _REPORT)
        return [*lines, sight, skipped("servers", why), skipped("pose", why)]
    types = facts.get("types")
    usable = frozenset(types.usable) if isinstance(types, TypesFacts) else frozenset()
    return [*lines, _graph_line(graph), servers_line(graph, usable), pose_line(facts.get("pose"), config)]


def _ros_line(facts: Facts | None, trouble: str) -> Line:
    python = f"Python {platform.python_version()}"
    if not isinstance(facts, RosFacts) or facts.error:
        why = facts.error if isinstance(facts, RosFacts) else trouble
        return failed(
            "ROS 2",
            f"rclpy cannot be loaded by {python} ({sys.executable}): {why}",
            "use the Python that this ROS distribution was built for; source its setup.bash in a fresh shell",
        )
    distribution = facts.distribution or "distribution unknown"
    name = f"{distribution}, rclpy {facts.version or '?'} in {facts.path}, {python}"
    if facts.distribution and facts.distribution not in TESTED:
        return warning("ROS 2", name, f"tested with {' and '.join(TESTED)}")
    return ok("ROS 2", name)


def _middleware_line(facts: Facts | None, trouble: str, environment: Mapping[str, str]) -> Line:
    wanted = environment.get("RMW_IMPLEMENTATION", "")
    fix = (
        f"install it (apt install ros-$ROS_DISTRO-{wanted.replace('_', '-')}) or unset RMW_IMPLEMENTATION"
        if wanted
        else "see the message; RMW_IMPLEMENTATION chooses another middleware"
    )
    if not isinstance(facts, MiddlewareFacts):
        about = f"RMW_IMPLEMENTATION={wanted}: " if wanted else ""
        return failed("middleware", f"{about}no node could be made; {trouble or 'no reason was given'}", fix)
    if facts.error:
        return failed("middleware", f"no node could be made: {facts.error}", fix)
    return ok("middleware", f"{facts.name}{'' if wanted else ' (RMW_IMPLEMENTATION is not set)'}")


def _types_line(facts: Facts | None, config: RobotConfig | None) -> Line:
    if config is None or not isinstance(facts, TypesFacts):
        return skipped("interfaces", "no skills file to take the types from")
    if facts.errors:
        return failed(
            "interfaces", _some(list(facts.errors.values()), "; "), "then source the workspace again"
        )
    if facts.entry_faults:
        return failed(
            "interfaces", _some(facts.entry_faults, "; "), "correct these entries of the skills file"
        )
    words = f"all {len(facts.usable)} types that the file names can be imported"
    if not facts.own_topics:
        return warning(
            "interfaces",
            f"{words}; robot_mcp_kit_msgs is not: no ~/task_events, ~/tasks and ~/watch_events",
            "build it from msg/ (colcon build --base-paths src src/robot-mcp-kit/msg), or do without",
        )
    return ok("interfaces", words)


def _graph_line(facts: GraphFacts) -> Line:
    if not facts.nodes:
        return warning(
            "graph",
            "no other node is visible",
            "is the robot running, with the same ROS_DOMAIN_ID, discovery range and middleware?",
        )
    bridges = [name for name in facts.nodes if name.rsplit("/", 1)[-1] == "bridge"]
    words = f"{len(facts.nodes)} other nodes, {len(facts.served)} actions"
    return ok("graph", f"{words}, a bridge among them ({bridges[0]})" if bridges else words)


def servers_line(facts: GraphFacts, usable: frozenset[str]) -> Line:
    """Whether each action of the file has one server, of its type and definition."""
    actions = [action for action in facts.actions if action.type in usable]
    if not actions:
        return skipped("servers", f"no action to look for; served here: {_some(facts.served) or 'none'}")
    problems, steps = [], []
    for action in actions:
        problem, step = _server_problem(action, facts)
        if problem:
            problems.append(problem)
            if step not in steps:
                steps.append(step)
    if problems:
        count = f"{len(problems)} of {len(actions)}: " if len(problems) > 1 else ""
        return failed("servers", count + _some(problems, "; "), *steps)
    return ok("servers", f"all {len({action.name for action in actions})} action servers are up")


def _server_problem(action: ActionFacts, facts: GraphFacts) -> tuple[str, str]:
    if action.fault:
        return f"{action.skill}: {action.fault}", "correct `action:` or `type:` in the file"
    if not action.nodes:
        close = nearest(action.name, facts.served) or facts.served[:3]
        there = f"; nearest: {', '.join(close)}" if close else ""
        return (
            f"{action.name} ({action.skill}) has no server{there}",
            "start it, or correct `action:` in the file (relative names are resolved in --namespace)",
        )
    if len(action.nodes) > 1:
        return (
            f"{action.name} has {len(action.nodes)} servers: {', '.join(action.nodes)}",
            "stop all but one, or give each robot a namespace: goals to it are refused",
        )
    if action.server_types and action.type not in action.server_types:
        return (
            f"{action.name} is a {', '.join(action.server_types)}, the file says {action.type}",
            "correct `type:` in the file",
        )
    if action.other_definition:
        parts = " and ".join(action.other_definition)
        return (
            f"{action.name}: {parts} of {action.type} have other fields at the server than here",
            "build both sides from one version of the interface package",
        )
    if not action.ready:
        return (
            f"{action.name} ({', '.join(action.nodes)}) is announced, but its services do not answer to us",
            "is its node shutting down or of another middleware? Try again with a longer --timeout",
        )
    return "", ""


def pose_line(facts: Facts | None, config: RobotConfig | None) -> Line:
    """Whether the robot's own position is known."""
    if config is None or not isinstance(facts, PoseFacts):
        return skipped("pose", "no skills file to take the source from")
    section = config.robot.pose
    drives = any(isinstance(s, DriveSection) and s.enabled for s in config.skills.values())
    # Without a drive nothing is measured by it.
    bad = failed if drives else warning
    source = (
        facts.topic if section.source == "topic" else f"{config.robot.map_frame} -> {config.robot.base_frame}"
    )
    if facts.pose is not None:
        at = facts.pose
        return ok("pose", f"({at.x_m:.2f}, {at.y_m:.2f}) m, {at.yaw_rad:.2f} rad in {at.frame} from {source}")
    if facts.error:
        return bad("pose", facts.error, "correct robot.pose in the file")
    if facts.wrong_frame:
        return bad(
            "pose",
            f"{source} is in the frame {facts.wrong_frame!r}, robot.map_frame is {config.robot.map_frame!r}",
            "name a topic that is in the map frame, or correct robot.map_frame",
        )
    if section.source == "tf":
        return bad("pose", f"no transform {source}", "is the robot localized? Set its initial pose")
    if not facts.publishers:
        near = f"; {section.type} is published on {', '.join(facts.near)}" if facts.near else ""
        return bad(
            "pose",
            f"nobody publishes {source}{near}",
            "start localization, or correct robot.pose in the file",
        )
    # AMCL says nothing before it was told where it is: the robot is as it should be after its start.
    return warning(
        "pose",
        f"{', '.join(facts.publishers)} publishes {source}, but nothing was heard",
        "set the robot's initial pose, or move it a little",
    )


def _some(words: Sequence[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return separator.join(words[:_SHOWN]) + more
