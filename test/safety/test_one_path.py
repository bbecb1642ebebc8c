"""There is one path to an actuator: read from the source, so that a second one is found before it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "robot_mcp_kit"
SIMULATED = "sim"
"""The robot's own side: its servers may do what robots do."""

MAKES_CLIENTS = {
    "ros/service.py": "the action port's services and lifecycle states, through PacedService",
}
MAKES_PUBLISHERS = {
    "ros/action_port.py": "stop topics, published with a cancel",
    "ros/signals.py": "outputs, published where a goal is sent",
    "ros/topics.py": "task events and the list of tasks",
    "ros/diagnostics.py": "diagnostics",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(f"{SIMULATED}/"):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def calls_of(method: str) -> list[tuple[str, ast.Call]]:
    """Every call of a method or function of that name."""
    found = []
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if called == method:
                    found.append((name, node))
    return found


def test_goals_are_sent_in_one_place_and_only_what_a_permit_holds() -> None:
    """R18, R19."""
    sends = [(name, ast.unparse(call)) for name, call in calls_of("send_goal")]
    assert sends == [("bridge/run.py", "self.port.send_goal(permit.goal_id, permit.spend())")]


def test_the_permit_of_that_place_comes_from_the_guard() -> None:
    """R18."""
    tree = dict(modules())["bridge/run.py"]
    (function,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef) and "send_goal" in ast.unparse(node)
        if node.name == "_send_once"
    ]
    permits = [
        ast.unparse(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "permit"
    ]
    assert permits == ["await self._get_permit(goal_id)"]
    assert [name for name, call in calls_of("permit") if "guard.permit" in ast.unparse(call)] == [
        "bridge/guarding.py",
        "rcp/guarded.py",
    ]


def test_only_the_guard_makes_permits() -> None:
    """R18."""
    assert [name for name, _ in calls_of("make_permit")] == ["safety/guard.py"]
    assert [name for name, _ in calls_of("Permit")] == ["safety/clearance.py"]


def test_nothing_waits_between_the_permit_and_the_goal() -> None:
    """R23: what the guard has just seen must still hold."""
    tree = dict(modules())["bridge/run.py"]
    function = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "_send_once"
    )
    body = [ast.unparse(statement) for statement in function.body]
    begin = next(index for index, text in enumerate(body) if "_get_permit" in text)
    end = next(index for index, text in enumerate(body) if "send_goal" in text)
    assert begin < end
    assert not [text for text in body[begin + 1 : end + 1] if "await " in text]


@pytest.mark.parametrize("name", ["ActionClient", "send_goal_async"])
def test_no_other_way_to_send_a_goal_is_used(name: str) -> None:
    """R18."""
    users = [module for module, tree in modules() if any(_names(tree, name))]
    assert users == []


def _names(tree: ast.Module, name: str) -> Iterator[bool]:
    for node in ast.walk(tree):
        if (isinstance(node, ast.Name) and node.id == name) or (
            isinstance(node, ast.Attribute) and node.attr == name
        ):
            yield True
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            yield True


def test_services_are_called_and_topics_published_by_known_modules_only() -> None:
    clients = {name for name, _ in calls_of("create_client")}
    publishers = {name for name, _ in calls_of("create_publisher")}
    assert clients <= MAKES_CLIENTS.keys(), "a module that could command the robot past the guard"
    assert publishers <= MAKES_PUBLISHERS.keys(), "a module that could command the robot past the guard"


def test_an_outputs_command_is_published_only_where_a_goal_is_sent() -> None:
    """R8: the port of the outputs has no other way to its topics."""
    tree = dict(modules())["ros/signals.py"]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    publishing = [node.name for node in functions if ".publish(" in ast.unparse(node)]
    assert publishing == ["send_goal"]
