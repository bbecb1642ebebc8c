"""The import rule: arrows between rooms point one way, and ROS and MCP stay where they belong.

The rule is what keeps the contract usable without ROS or MCP, and the skills testable without a robot. The
test reads the source, so it also sees imports inside functions and under ``TYPE_CHECKING``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "robot_mcp_kit"
SOURCE = Path(__file__).resolve().parent.parent / PACKAGE

CONTRACT = "contract"
"""The modules directly in the package: what a capability server without a robot uses."""

MAY_IMPORT: dict[str, frozenset[str]] = {
    CONTRACT: frozenset(),
    "skills": frozenset({CONTRACT}),
    "safety": frozenset({CONTRACT, "skills"}),
    "bridge": frozenset({CONTRACT, "skills", "safety"}),
    "promcp": frozenset({CONTRACT}),
    "client": frozenset({CONTRACT, "promcp"}),
    "ros": frozenset({CONTRACT, "skills", "safety", "bridge"}),
    "server": frozenset({CONTRACT, "promcp", "skills", "safety", "bridge", "rcp"}),
    "rcp": frozenset({CONTRACT, "skills", "safety", "bridge"}),
    "sim": frozenset({CONTRACT}),
    "testing": frozenset({CONTRACT, "skills", "safety", "bridge", "client", "rcp"}),
    "node": frozenset({CONTRACT, "skills", "safety", "bridge", "ros", "server", "promcp", "rcp"}),
    "cli": frozenset(
        {
            CONTRACT,
            "skills",
            "safety",
            "bridge",
            "ros",
            "server",
            "client",
            "promcp",
            "rcp",
            "sim",
            "testing",
            "node",
        }
    ),
}
"""Room -> rooms it may import besides itself."""

ROS = frozenset({"rclpy", "rcl_interfaces", "ament_index_python", "launch", "launch_ros", "tf2_ros"})
ROS_ROOMS = frozenset({"ros", "sim"})
MCP = frozenset({"mcp", "fastmcp"})
MCP_ROOMS = frozenset({"server", "client"})
LAZY_MCP = frozenset({f"{PACKAGE}.fastmcp_ext"})
"""May import mcp, but only inside a function or for type checking."""

CONTRACT_LIBRARIES = frozenset({"pydantic", "httpx"})
LAZY_CONTRACT_LIBRARIES = frozenset({"anyio"})
"""Comes with httpx; the contract looks into it only inside a function, and does without."""


@dataclass(frozen=True)
class Import:
    """One import statement: who, whom, and whether it runs when the module is imported."""

    module: str
    target: str
    line: int
    at_import: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def room(module: str) -> str:
    """The room of a module of this package: the sub-package, or the contract."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT and parts[1] != CONTRACT else CONTRACT


def is_ros(name: str) -> bool:
    top = name.split(".")[0]
    return (
        top in ROS or top.endswith(("_msgs", "_interfaces")) or top.startswith(("rosidl_", "std_srvs", "rcl"))
    )


def imports_of(module: str, source: str, *, is_package: bool = False) -> Iterator[Import]:
    """Every import in ``source``, relative ones resolved."""
    tree = ast.parse(source)
    yield from _walk(module, tree.body, True, is_package)


def _walk(module: str, nodes: Iterable[ast.AST], at_import: bool, is_package: bool) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, at_import)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(module, node, at_import, is_package)
        elif (
            isinstance(node, ast.Call) and _is_import_module(node) and isinstance(node.args[0], ast.Constant)
        ):
            yield Import(module, str(node.args[0].value), node.lineno, at_import)
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _type_checking(node)
        yield from _walk(module, ast.iter_child_nodes(node), at_import and not later, is_package)


def _from(module: str, node: ast.ImportFrom, at_import: bool, is_package: bool) -> Iterator[Import]:
    base = node.module or ""
    if node.level:
        parents = module.split(".")[: len(module.split(".")) - node.level + is_package]
        base = ".".join([*parents, base] if base else parents)
    for alias in node.names:
        # `from robot_mcp_kit import ros` names a room, `from robot_mcp_kit.ros import x` a member of one.
        target = f"{base}.{alias.name}" if base == PACKAGE else base
        yield Import(module, target, node.lineno, at_import)


def _is_import_module(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("import_module", "__import__") and bool(node.args)


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def violations(imports: Iterable[Import]) -> list[str]:
    """What breaks the rule, one line each."""
    found = []
    for one in imports:
        here = room(one.module)
        top = one.target.split(".")[0]
        if top == PACKAGE:
            there = room(one.target)
            if there != here and there not in MAY_IMPORT[here]:
                found.append(f"{one}: {here} must not know {there}")
        elif is_ros(one.target):
            if here not in ROS_ROOMS:
                found.append(f"{one}: ROS belongs in {' and '.join(sorted(ROS_ROOMS))}")
        elif top in MCP:
            lazily = one.module in LAZY_MCP and not one.at_import
            if here not in MCP_ROOMS and not lazily:
                found.append(f"{one}: mcp belongs in {', '.join(sorted(MCP_ROOMS))}, lazily in fastmcp_ext")
        elif here == CONTRACT and top not in CONTRACT_LIBRARIES | set(sys.stdlib_module_names):
            if top in LAZY_CONTRACT_LIBRARIES and not one.at_import:
                continue
            found.append(f"{one}: the contract uses pydantic, httpx and the standard library only")
    return found


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """Rooms that reach themselves, as `a -> b -> a`."""
    found = []

    def visit(path: list[str]) -> None:
        for after in sorted(edges.get(path[-1], ())):
            if after == path[0]:
                found.append(" -> ".join([*path, after]))
            elif after not in path and after > path[0]:
                visit([*path, after])

    for start in sorted(edges):
        visit([start])
    return found


def the_package() -> list[Import]:
    found: list[Import] = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        found += imports_of(module, path.read_text(encoding="utf-8"), is_package=is_package)
    return found


def test_arrows_between_rooms_point_one_way_and_ros_and_mcp_stay_in_their_rooms() -> None:
    imports = the_package()
    assert len({one.module for one in imports}) > 30, "the package was not found"
    # The entry point of `python -m robot_mcp_kit` is the command line's, wherever Python wants it to lie.
    assert violations(one for one in imports if one.module != f"{PACKAGE}.__main__") == []


def test_no_two_rooms_need_each_other() -> None:
    edges: dict[str, set[str]] = {}
    for one in the_package():
        if one.target.split(".")[0] == PACKAGE and one.module != f"{PACKAGE}.__main__":
            edges.setdefault(room(one.module), set()).add(room(one.target))
    for here, there in edges.items():
        there.discard(here)
    assert cycles(edges) == []


def test_every_room_has_a_rule() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert rooms <= MAY_IMPORT.keys(), "a new sub-package: say in MAY_IMPORT what it may know"


def test_the_rule_itself_has_no_cycle() -> None:
    assert cycles({here: set(there) for here, there in MAY_IMPORT.items()}) == []


@pytest.mark.parametrize(
    ("module", "source", "word"),
    [
        ("robot_mcp_kit.models", "import rclpy", "ROS belongs"),
        ("robot_mcp_kit.models", "def f():\n    from nav2_msgs.action import Spin", "ROS belongs"),
        ("robot_mcp_kit.models", "from robot_mcp_kit.skills.base import Skill", "must not know skills"),
        ("robot_mcp_kit.models", "from .skills import base", "must not know skills"),
        ("robot_mcp_kit.models", "from . import bridge", "must not know bridge"),
        ("robot_mcp_kit.models", "import yaml", "standard library only"),
        ("robot_mcp_kit.models", "import anyio", "standard library only"),
        ("robot_mcp_kit.tasks", "import mcp", "mcp belongs"),
        ("robot_mcp_kit.fastmcp_ext", "from mcp.server.mcpserver import MCPServer", "mcp belongs"),
        ("robot_mcp_kit.skills.base", "from mcp.types import Tool", "mcp belongs"),
        (
            "robot_mcp_kit.skills.base",
            "from robot_mcp_kit.bridge.base import ActionPort",
            "must not know bridge",
        ),
        (
            "robot_mcp_kit.skills.base",
            "if TYPE_CHECKING:\n    from geometry_msgs.msg import Pose",
            "ROS belongs",
        ),
        ("robot_mcp_kit.bridge.run", "from robot_mcp_kit import ros", "must not know ros"),
        ("robot_mcp_kit.bridge.run", "import importlib\nimportlib.import_module('rclpy')", "ROS belongs"),
        ("robot_mcp_kit.bridge.run", "from ..server import app", "must not know server"),
        ("robot_mcp_kit.ros.node", "from mcp import Client", "mcp belongs"),
        ("robot_mcp_kit.ros.node", "from robot_mcp_kit.server.app import build_app", "must not know server"),
        ("robot_mcp_kit.server.app", "import rclpy.node", "ROS belongs"),
        ("robot_mcp_kit.server.app", "from robot_mcp_kit.ros import thread", "must not know ros"),
        ("robot_mcp_kit.client.inbox", "from robot_mcp_kit.server import auth", "must not know server"),
        ("robot_mcp_kit.sim.node", "from robot_mcp_kit.ros import thread", "must not know ros"),
        ("robot_mcp_kit.cli.run", "import rclpy", "ROS belongs"),
    ],
)
def test_a_forbidden_import_is_caught(module: str, source: str, word: str) -> None:
    found = violations(imports_of(module, source))
    assert len(found) == 1
    assert word in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("robot_mcp_kit.fastmcp_ext", "def register():\n    from mcp.server import Server"),
        ("robot_mcp_kit.fastmcp_ext", "if TYPE_CHECKING:\n    from mcp.server import Server"),
        ("robot_mcp_kit.events", "import asyncio, httpx\nfrom pydantic import BaseModel"),
        ("robot_mcp_kit.ros.node", "import rclpy\nfrom nav2_msgs.action import Spin"),
        ("robot_mcp_kit.bridge.run", "from robot_mcp_kit.skills.base import Skill\nfrom .base import Clock"),
        (
            "robot_mcp_kit.node.main",
            "from robot_mcp_kit.ros.side import RosSide\nfrom robot_mcp_kit.server import app",
        ),
    ],
)
def test_an_allowed_import_is_let_through(module: str, source: str) -> None:
    assert violations(imports_of(module, source)) == []


def test_a_cycle_between_rooms_is_caught() -> None:
    assert cycles({"bridge": {"skills"}, "skills": {"contract"}, "contract": {"bridge"}}) == [
        "bridge -> skills -> contract -> bridge"
    ]
