"""Profiles: which skills and readings one endpoint offers, and under which names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.promcp.lint import CAN_DO, MAX_DO_TOOLS, MAX_TOOLS, lint_tool
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.promcp import ProfileSection
from robot_mcp_kit.skills.config.yaml_tree import KeyPath
from robot_mcp_kit.skills.routines.routine import Routine
from robot_mcp_kit.skills.text import did_you_mean

PATH = "/promcp/mcp"
"""Where the first profile is served too."""
DO_STOP = "do_stop"
_NEEDS_SENSOR = {
    "battery_charge": "battery",
    "visible_objects": "perception",
    "gripper_state": "gripper",
    "arm_joints": "arm",
}
_OTHER_SURFACE = re.compile(
    r"\b(get_task|cancel_task|list_tasks|await_task|wait_s|idempotency_key|[Aa]nswers with a task|"
    r"[Aa]nswers at once|triggers?|zone_entered|[Ww]ithout one)\b"
)
_SKILL_NAME = re.compile(r"(?P<before>\b(?:use|that is|with|by) )?\b(?P<name>[a-z]+(?:_[a-z]+)*)\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Profile:
    """One endpoint."""

    name: str
    description: str
    skills: Mapping[str, Skill]
    """By tool name, ``do_navigate_to``."""
    reads: tuple[str, ...]
    """Names of read tools."""

    @property
    def path(self) -> str:
        return f"/promcp/{self.name}/mcp"

    @property
    def tools(self) -> list[str]:
        """All tool names."""
        return [CAN_DO, *self.reads, *self.skills, DO_STOP]

    def tool_of(self, skill: str) -> str | None:
        """The tool of a skill, if this profile has one."""
        tool = do_name(skill)
        return tool if tool in self.skills else None

    def words(self, text: str) -> str:
        """A text with the names of skills as this profile's tools; only where a name stands for a tool."""

        def named(match: re.Match[str]) -> str:
            name = match["name"]
            meant = match["before"] or "_" in name  # "place" and "home" are also plain words
            tool = (DO_STOP if name == "stop" else self.tool_of(name)) if meant else None
            return match[0] if tool is None else f"{match['before'] or ''}{tool}"

        look = "read_visible_objects"
        if look in self.reads:
            text = text.replace("look has told", f"{look} has told")
        return _SKILL_NAME.sub(named, text)

    def suggestions(self, names: Iterable[str]) -> list[str]:
        """Suggestions in this profile's tool names; those that mean a tool it does not have are left out."""
        own = {"stop": DO_STOP, "get_task": "read_motion_progress", "list_tasks": "read_motion_progress"}
        own |= {"look": "read_visible_objects", "await_task": "read_motion_progress"}
        own |= {"cancel_task": DO_STOP}
        found: list[str] = []
        for name in names:
            word, colon, rest = name.partition(":")
            tool = own.get(word) or self.tool_of(word)
            if tool is None and (word in _GENERAL or colon):
                found.append(name)
            elif tool in self.tools:
                found.append(f"{tool}{colon}{rest}" if colon else str(tool))
        return list(dict.fromkeys(found))


_GENERAL = frozenset({"ask_person"})


def do_name(skill: str) -> str:
    """``do_navigate_to`` for ``navigate_to``."""
    return f"do_{skill}"


def own_words(description: str) -> str:
    """A skill's description without the sentences about how another surface answers."""
    kept = (_own_part(sentence) for sentence in _SENTENCE.split(description.strip()))
    return " ".join(sentence for sentence in kept if sentence)


def _own_part(sentence: str) -> str:
    if not _OTHER_SURFACE.search(sentence):
        return sentence
    parts = [part.strip() for part in sentence.rstrip(".").split(";")]
    own = "; ".join(part for part in parts if not _OTHER_SURFACE.search(part))
    return f"{own[0].upper()}{own[1:]}." if own else ""


def build_profiles(config: RobotConfig, skills: Mapping[str, Skill]) -> list[Profile]:
    """The profiles of the file; none without its ``promcp`` section.

    Args:
        config: the checked file.
        skills: of the bridge, routines included, by tool name.

    Raises:
        ConfigError: names every key that cannot be, with file and line.
    """
    section = config.promcp
    if section is None:
        return []
    profiles, complaints = [], []
    for name, entry in section.profiles.items():
        here: KeyPath = ("promcp", "profiles", name)
        faults = _faults(entry, config, skills)
        complaints += [config.complaint((*here, *path), said) for path, said in faults]
        profiles.append(
            Profile(
                name,
                entry.description,
                {do_name(skill): skills[skill] for skill in entry.skills if skill in skills},
                tuple(f"read_{read}" for read in entry.reads),
            )
        )
    if complaints:
        raise ConfigError("\n".join(complaints))
    return profiles


def _faults(
    entry: ProfileSection, config: RobotConfig, skills: Mapping[str, Skill]
) -> Iterator[tuple[KeyPath, str]]:
    for index, name in enumerate(entry.skills):
        skill = skills.get(name)
        where: KeyPath = ("skills", index)
        if skill is None:
            yield where, f'there is no skill "{name}".{did_you_mean(name, skills)}'
        elif isinstance(skill, Routine) and skill.read_only:
            yield where, f'"{name}" moves nothing; give reads: [visible_objects] instead'
        elif name == "stop":
            yield where, "do_stop is in every profile already"
        else:
            named = {"name": do_name(name), "description": skill.description}
            codes = ("N00", "D00")
            faults = [f.message for f in lint_tool(named) if f.code.startswith(codes)]
            if faults:
                yield where, f"it cannot be offered as {do_name(name)}: {' '.join(faults)}"
    for index, read in enumerate(entry.reads):
        sensor = _NEEDS_SENSOR.get(read)
        if sensor is not None and getattr(config.sensors, sensor) is None:
            yield ("reads", index), f"needs sensors.{sensor}, which this file does not have"
    acting = len(entry.skills) + 1
    if acting > MAX_DO_TOOLS:
        yield (
            ("skills",),
            f"{acting} do tools with {DO_STOP}; at most {MAX_DO_TOOLS}. Make another profile of some",
        )
    count = acting + len(entry.reads) + 1
    if count > MAX_TOOLS:
        yield (
            (),
            f"{count} tools with {DO_STOP} and {CAN_DO}; at most {MAX_TOOLS}. Make another profile of some",
        )
