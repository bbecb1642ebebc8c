"""The ``promcp`` section: which skills and readings each profile of the read/do/can_do surface offers."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from robot_mcp_kit.skills.config.types import Name, Section

ReadName = Literal[
    "robot_pose", "battery_charge", "visible_objects", "gripper_state", "arm_joints", "motion_progress"
]


def _profile_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name):
        raise ValueError(
            "a profile's name is part of its address: lowercase letters, digits and _, at most 32"
        )
    return name


ProfileName = Annotated[str, AfterValidator(_profile_name)]


class ProfileSection(Section):
    """One profile: an MCP endpoint of its own, with few enough tools that a model chooses well among them.

    ``can_do`` and ``do_stop`` are in every profile and count: at most 8 tools, 5 of them ``do_``.
    """

    description: str = ""
    """For whom it is; told to clients."""
    skills: list[Name] = Field(default_factory=list)
    """Offered as ``do_<name>``: keys of ``skills``, and routines of ``manipulation``."""
    reads: list[ReadName] = Field(default_factory=list)
    """Offered as ``read_<name>``; what they read is set up by ``robot.pose`` and ``sensors``."""

    @model_validator(mode="after")
    def _no_doubles(self) -> ProfileSection:
        for key in ("skills", "reads"):
            names = getattr(self, key)
            doubled = next((name for name in names if names.count(name) > 1), None)
            if doubled is not None:
                raise ValueError(f'{key} has "{doubled}" twice')
        return self


class PromcpSection(Section):
    """Profiles by name, served at ``/promcp/<name>/mcp``; the first one also at ``/promcp/mcp``."""

    profiles: Annotated[dict[ProfileName, ProfileSection], Field(min_length=1)]
