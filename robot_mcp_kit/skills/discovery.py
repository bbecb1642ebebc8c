"""What else the graph offers: its action servers, and the YAML entry that would make a tool of each.

Looking moves nothing and exposes nothing: only an entry in the skills file does (B34).
"""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.config import SECTIONS, RobotConfig, parse_config
from robot_mcp_kit.skills.goal_schema import (
    DURATION,
    HEADER,
    QUATERNION,
    ROS_TYPE,
    TIME,
    UNIT,
    GoalSchema,
    JsonSchema,
)
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.text import clean_text

MAX_FIELDS = 30
"""An entry for a goal with more fields than this names only the uppermost ones."""
TAKEN_NAMES = frozenset({"stop", "get_task", "cancel_task", "list_tasks", "list_actions"})
_ONE_LINE = {TIME: "", DURATION: ", or {form: seconds}", QUATERNION: ", or {as: yaw_rad, form: yaw}"}
"""Messages that are not spelt out, and what is worth saying about them."""
_TEXT_FIELDS = ("error_msg", "error_string", "error_message", "message")


@dataclass(frozen=True, slots=True)
class FoundAction:
    """One action that some node serves."""

    name: str
    """Full name, ``/fibonacci``."""
    types: tuple[str, ...]
    """Usually one; more when nodes disagree."""
    nodes: tuple[str, ...]
    """Full names of the nodes that serve it."""


class ActionGraph(abc.ABC):
    """Port: the ROS graph as far as actions go."""

    @abc.abstractmethod
    def action_servers(self) -> list[FoundAction]:
        """The actions that have a server now, by name."""

    @abc.abstractmethod
    def full_name(self, action_name: str) -> str:
        """An action's name as in the YAML, resolved in the node's namespace."""


class ActionCatalog:
    """The graph's action servers beside what the YAML makes of them.

    Args:
        config: the checked file.
        graph: where to look.
        types: what the installed action types look like.
    """

    def __init__(self, config: RobotConfig, graph: ActionGraph, types: GoalSchema) -> None:
        self._config = config
        self._graph = graph
        self._types = types

    def entries(self) -> list[dict[str, Any]]:
        """One dictionary an action: ``action``, ``type``, ``nodes``, ``tools`` (that use it), ``exposed``,
        ``installed`` (its type, here), ``note``, ``yaml_entry`` (``None`` for exposed ones).
        """
        taken = set(TAKEN_NAMES) | set(self._config.skills)
        return [self._entry(found, taken) for found in self._graph.action_servers()]

    def _entry(self, found: FoundAction, taken: set[str]) -> dict[str, Any]:
        sections = {
            name: section
            for name, section in self._config.skills.items()
            if self._graph.full_name(section.action) == found.name
        }
        tools = [name for name, section in sections.items() if section.enabled]
        action_type = found.types[0] if found.types else ""
        notes = []
        if len(found.types) > 1:
            notes.append(f"Its servers disagree about the type: {', '.join(found.types)}.")
        if len(found.nodes) > 1:
            notes.append(f"{len(found.nodes)} nodes serve this name, so goals to it are refused.")
        for name, section in sections.items():
            if section.type not in found.types:
                notes.append(f"The entry {name} says {section.type}; this server does not take its goals.")
            if not section.enabled:
                notes.append(f"The entry {name} is disabled.")
        written, installed = None, self._is_installed(action_type, notes)
        if installed and not sections:
            name = _free_name(found.name, taken)
            taken.add(name)
            written = yaml_entry(name, found.name, action_type, self._types, self._config.robot.map_frame)
            if action_type in SECTIONS:
                notes.append("This type has a skill of its own; config/skills.yaml shows all its settings.")
        return {
            "action": found.name,
            "type": action_type,
            "nodes": list(found.nodes),
            "tools": tools,
            "exposed": bool(tools),
            "installed": installed,
            "note": " ".join(notes),
            "yaml_entry": written,
        }

    def _is_installed(self, action_type: str, notes: list[str]) -> bool:
        try:
            self._types.goal(action_type)
        except LookupError as error:
            notes.append(f"{clean_text(str(error))}.")
            return False
        return True


def _free_name(action: str, taken: Collection[str]) -> str:
    parts = [part for part in re.sub(r"[^A-Za-z0-9_/]", "_", action).split("/") if part]
    candidates = ["_".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
    for name in candidates:
        if name not in taken:
            return name
    return next(f"{candidates[0]}_{n}" for n in range(2, 10_000) if f"{candidates[0]}_{n}" not in taken)


def yaml_entry(name: str, action: str, action_type: str, types: GoalSchema, map_frame: str = "map") -> str:
    """An entry for the skills file that works as it is, with the goal's fields spelt out for editing.

    Raises:
        LookupError: the type is not installed.
    """
    head = ["skills:", f"  {name}:", f"    action: {action}", f"    type: {action_type}"]
    if action_type in SECTIONS:
        short = "\n".join(head) + "\n"
        try:
            build_skills(parse_config(short), None, types)
        except ConfigError:
            head.append("    generic: true")
        else:
            return short
    goal, feedback, result = types.goal(action_type), types.feedback(action_type), types.result(action_type)
    about = clean_text(goal.get("description", ""), 200) or "Say what it does and when not to use it."
    lines = [
        *head,
        f"    description: {json.dumps(about, ensure_ascii=False)}",
        "    # Parts of the robot that it moves (base, arm, gripper); skills that share one take turns.",
        "    resources: []",
    ]
    fields = list(_field_lines(goal, map_frame))
    if fields:
        lines += [
            "    # Each: a value to fix it, or settings (as, min, max, unit, default, hidden, ...).",
            "    fields:",
        ]
        lines += [f"      {line}" for line in fields]
    if feedback["properties"]:
        shown = ", ".join(f"{part} ({inner[ROS_TYPE]})" for part, inner in feedback["properties"].items())
        lines += [f"    # Feedback: {shown}"]
    lines += [f"    {line}" for line in _result_lines(result)]
    return "\n".join(lines) + "\n"


def _field_lines(goal: JsonSchema, map_frame: str) -> Iterator[str]:
    leaves = list(_leaves(goal, "", deep=True))
    if len(leaves) > MAX_FIELDS:
        leaves = list(_leaves(goal, "", deep=False))
    for path, schema, parent in leaves:
        if schema[ROS_TYPE] == TIME and parent == HEADER:
            yield f"{path}: {{hidden: true}}"
        elif parent == HEADER and path.endswith("frame_id"):
            yield f"{path}: {json.dumps(map_frame)}"
        else:
            more = f", {schema[UNIT]}" if UNIT in schema else _ONE_LINE.get(schema[ROS_TYPE], "")
            yield f"{path}: {{}}  # {schema[ROS_TYPE]}{more}"


def _leaves(schema: JsonSchema, path: str, *, deep: bool) -> Iterator[tuple[str, JsonSchema, str]]:
    for name, part in schema["properties"].items():
        here = f"{path}.{name}" if path else name
        if part["type"] == "object" and deep and part[ROS_TYPE] not in _ONE_LINE:
            yield from _leaves(part, here, deep=deep)
            continue
        yield here, part, schema[ROS_TYPE]


def _result_lines(result: JsonSchema) -> Iterator[str]:
    properties = result["properties"]
    if properties.get("success", {}).get("type") == "boolean":
        yield "success_when: {success: true}"
    if properties.get("error_code", {}).get("type") == "integer":
        yield "error_code_field: error_code"
    text = next((name for name in _TEXT_FIELDS if properties.get(name, {}).get("type") == "string"), None)
    if text is not None:
        yield f"error_text_field: {text}"
    if properties:
        shown = ", ".join(f"{name} ({part[ROS_TYPE]})" for name, part in properties.items())
        yield f"# Result: {shown}"
