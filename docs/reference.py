"""Write docs/reference.md from the code: every key of the skills file, every parameter, every fault.

    python docs/reference.py            # write it
    python docs/reference.py --check    # exit code 1 when it is out of date

What a key means comes from its docstring, else from the comment above it in ``config/skills.yaml``. Needs the
ROS message packages, because the node's and the simulator's parameters live in modules that import them.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from robot_mcp_kit.skills.config.types import SkillSection

PAGE = Path(__file__).with_name("reference.md")
HEAD = """\
# Reference

Every key, parameter and fault, with defaults. Written by `docs/reference.py` from the code; do not edit it.
[skills.md](skills.md) explains the skills file, [simulated_robot.md](simulated_robot.md) the simulated robot.
"""


# For keys that say it all by their names; a docstring wins.
WORDS = {
    "type": "The type's full name",
    "enabled": "false: as if it were not there",
    "server_wait_s": "How long to wait for the action server to appear; null: a default",
    "acceptance_timeout_s": "How long to wait for its answer to a goal; null: the node's parameter",
    "yaw_tolerance_rad": "The same for the heading",
    "max_time_allowance_s": "The most a caller may ask for",
    "max_distance_m": "Longest motion in one goal",
    "max_speed_mps": "The most a caller may ask for",
    "max_duration_s": "The longest a caller may ask for",
    "max_points": "Longest trajectory in points",
    "max_undocking_time_s": "Sent with the goal",
    "navigate_to_staging_pose": "Drive to the spot in front of the dock first",
    "id": "The docking server's own name for it",
    "acceleration_scaling": "The same for the acceleration",
    "max_velocity_scaling": "The most a caller may ask for",
    "max_acceleration_scaling": "The most a caller may ask for",
    "max_effort_n": "The most a caller may ask for",
    "closed_gap_m": "Gap when closed",
    "open_command": "What the driver wants for open, when that is not the gap in metres",
    "closed_command": "The same for closed",
    "name": "For people and logs",
    "description": "For whoever chooses",
    "aliases": "Other names",
    "frame": "TF frame, without a leading slash",
    "map_frame": "TF frame of places, limits and goals that name none",
    "base_frame": "TF frame of the robot",
    "x_m": "Metres",
    "y_m": "Metres",
    "z_m": "Metres",
    "yaw_rad": "Radians, counter-clockwise from +x",
    "polygon_m": "Corners in order, [x, y]; at least three, edges must not cross",
    "joints": "By name, in the controller's order",
    "named_targets": "Positions with a name",
    "joints_rad": "Positions of turning joints",
    "joints_m": "Positions of sliding joints",
    "range_rad": "[min, max] of a turning joint",
    "range_m": "[min, max] of a sliding joint",
    "max_speed_radps": "Fastest in a caller's own trajectory",
    "pipeline_id": "MoveIt's planning pipeline; empty: its default",
    "pose": "Where it is",
    "position_tolerance_m": "Of a pose goal",
    "orientation_tolerance_rad": "Of a pose goal",
    "joint_tolerance_rad": "Of a joint goal",
    "joint_tolerance_m": "Of a joint goal",
    "planning_time_s": "Sent with the goal",
    "planning_attempts": "Sent with the goal",
    "replan_attempts": "Most attempts, when replan is on",
    "source": "topic or tf",
    "topic": "Its name",
    "planner_id": "MoveIt's planner; empty: its default",
}


def documented(model: type[BaseModel]) -> dict[str, str]:
    """Attribute docstrings of a model and its bases, by field."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if kind in (BaseModel, object) or not issubclass(kind, BaseModel):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
        if not isinstance(body, ast.ClassDef):
            continue
        for line, after in zip(body.body, [*body.body[1:], None], strict=True):
            if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)):
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[line.target.id] = inspect.cleandoc(str(after.value.value))
    return found


def commented() -> dict[str, str]:
    """Comments above the keys of skills in the template, by key; the first one of a name."""
    found: dict[str, str] = {}
    comment: list[str] = []
    lines = (PAGE.parents[1] / "config" / "skills.yaml").read_text(encoding="utf-8").split("\nskills:\n")[1]
    for line in lines.splitlines():
        if line.startswith("    # "):
            comment.append(line.strip("# "))
        elif line.startswith("    ") and line[4].isalpha() and not line.startswith("    type:"):
            if comment and not comment[-1].endswith(":"):
                found.setdefault(line.strip().split(":")[0], " ".join(comment).split(". ")[0])
            comment = []
        else:
            comment = []
    return found


def plain(text: str) -> str:
    """One line of Markdown from a docstring."""
    text = " ".join(text.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")
    return text.replace(":attr:", "").rstrip(".")


def shown(value: Any) -> str:
    """A default as a cell."""
    if value is PydanticUndefined:
        return "required"
    if value in (None, "", [], {}, [""]):
        return "null" if value is None else "empty"
    if isinstance(value, BaseModel):
        return "see below"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | frozenset):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def rows(model: type[BaseModel], *, without: Iterable[str] = ()) -> list[str]:
    """A table of a model's keys."""
    docs = {**commented(), **documented(model)} if issubclass(model, SkillSection) else documented(model)
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for name, info in model.model_fields.items():
        if name in set(without):
            continue
        default = info.default
        if info.default_factory is not None:
            default = info.get_default(call_default_factory=True)
        meaning = docs.get(name) or info.description or WORDS.get(name, "")
        lines.append(f"| `{name}` | {shown(default)} | {plain(meaning)} |")
    return lines


def nested(model: type[BaseModel], known: set[type[BaseModel]]) -> list[type[BaseModel]]:
    """Models that a model's fields are made of and that have no table yet."""
    found: list[type[BaseModel]] = []

    def walk(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if annotation not in known:
                known.add(annotation)
                found.append(annotation)
            return
        for part in getattr(annotation, "__args__", ()):
            walk(part)

    for info in model.model_fields.values():
        walk(info.annotation)
    return found


def section(title: str, model: type[BaseModel], known: set[type[BaseModel]], **options: Any) -> list[str]:
    """A heading, the model's own words, its table, and the tables of what it is made of."""
    own = inspect.cleandoc(model.__doc__ or "") if "__doc__" in vars(model) else ""
    words = [] if own.startswith("``") else [plain(own) + ".", ""]
    lines = [f"\n### {title}\n", *words, *rows(model, **options)]
    for inner in nested(model, known):
        lines += [f"\n`{inner.__name__}`: {plain(inspect.cleandoc(inner.__doc__ or ''))}.\n", *rows(inner)]
    return lines


def page() -> str:
    """The whole page."""
    from robot_mcp_kit.node import settings
    from robot_mcp_kit.sim import faults
    from robot_mcp_kit.sim.parameters import START
    from robot_mcp_kit.skills.config import SECTIONS, RobotConfig
    from robot_mcp_kit.skills.config.types import Range

    lines = [HEAD, "## Skills file"]
    known: set[type[BaseModel]] = {RobotConfig, SkillSection, Range, *SECTIONS.values()}
    lines += section("Every skill", SkillSection, known)
    common = set(SkillSection.model_fields)
    by_model: dict[type[BaseModel], list[str]] = {}
    for type_name, model in SECTIONS.items():
        by_model.setdefault(model, []).append(type_name)
    for model, type_names in by_model.items():
        title = ", ".join(f"`{name}`" for name in type_names)
        lines += section(title, model, known, without=common)
    for name, info in RobotConfig.model_fields.items():
        for model in nested_of(info.annotation):
            if model is not SkillSection and model not in by_model:
                known.add(model)
                lines += section(f"`{name}`", model, known)

    lines += ["\n## Node parameters\n", "| parameter | default | meaning |", "|---|---|---|"]
    specs = [*settings.PARAMETERS, *settings.LOG_PARAMETERS, settings.AUTOSTART, settings.EXECUTOR]
    lines += [f"| `{spec.name}` | {shown(spec.default)} | {plain(spec.description)} |" for spec in specs]

    lines += ["\n## Simulated robot: parameters\n", "| parameter | default | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {shown(start.default)} | {plain(start.text)} |" for name, start in START.items()]
    lines += ["\n## Simulated robot: faults\n", "| fault | default | meaning |", "|---|---|---|"]
    for name in faults.FIELDS:
        lines.append(f"| `{name}` | {shown(faults.default(name))} | {plain(faults.help_text(name))} |")
    return "\n".join(lines) + "\n"


def nested_of(annotation: Any) -> list[type[BaseModel]]:
    """The models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in nested_of(part)]


def main(words: list[str]) -> int:
    text = page()
    if "--check" in words:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/reference.md is out of date: run  python docs/reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
