"""How well a wish in words fits a tool: the confidence that ``can_do`` tells.

Words are compared, nothing is guessed: a tool's own name counts most, then what its kind of motion is
usually called, then names that its arguments may take, then its description.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.routines.routine import Routine

NAMED, OWN_WORD, USUAL, ARGUMENT, PART, NEARLY, DESCRIBED = 1.0, 0.95, 0.9, 0.85, 0.75, 0.6, 0.5
LEAST = 0.3
"""Less sure than this is no match."""
_NEAR = 0.82

_USUAL: dict[str, str] = {
    "NavigateToPose": "drive go navigate navigation move travel relocate base mobility locomotion",
    "NavigateThroughPoses": "drive navigate navigation route path via through base",
    "FollowWaypoints": "tour patrol waypoint waypoints follow round visit base",
    "Spin": "turn rotate spin heading base",
    "BackUp": "reverse back backwards retreat base",
    "DriveOnHeading": "forward straight advance heading base",
    "Wait": "wait pause dwell",
    "DockRobot": "dock charge charging park station",
    "UndockRobot": "undock leave unplug station",
    "MoveGroup": "arm move reach manipulator manipulation joint joints pose tool",
    "FollowJointTrajectory": "arm trajectory joints",
    "ExecuteTrajectory": "arm trajectory joints",
    "GripperCommand": "gripper grip fingers hand open close release grasp",
    "ParallelGripperCommand": "gripper grip fingers hand open close release grasp",
    "pick": "pick grasp grab take get fetch lift pickup manipulation object",
    "place": "place put drop release deposit set down manipulation object",
    "handover": "handover hand give pass deliver person arm",
    "home": "home fold stow retract rest arm",
    "follow": "follow accompany track chase come person base",
    "SetOutput": "output io signal switch lamp light fan relay",
    "inspect": "inspect check look see find search visit",
}
STOP_WORDS = frozenset({"stop", "halt", "cancel", "abort", "emergency", "freeze", "motion"})


def words_of(text: str) -> list[str]:
    """Lower-case words; ``_``, ``-`` and other marks part them."""
    return re.findall(r"[a-z0-9]+", text.lower())


class Vocabulary:
    """What one tool is called and about.

    Args:
        tool: its name.
        also: further names (of the skill).
        usual: words for its kind of motion.
        values: names that its arguments may take.
        parts: parts of the robot that it moves.
        description: for the planner.
    """

    def __init__(
        self,
        tool: str,
        *,
        also: Iterable[str] = (),
        usual: Iterable[str] = (),
        values: Iterable[str] = (),
        parts: Iterable[str] = (),
        description: str = "",
    ) -> None:
        self._names = {" ".join(words_of(name)) for name in (tool, *also)}
        self._own = {word for name in self._names for word in name.split()} - {"do", "to", "the"}
        self._usual, self._parts = frozenset(usual), frozenset(parts)
        self._values = {" ".join(words_of(value)) for value in values}
        self._described = frozenset(words_of(description)) - _COMMON

    @classmethod
    def of(cls, tool: str, skill: Skill, values: Iterable[str]) -> Vocabulary:
        kind = skill.name if isinstance(skill, Routine) else skill.action_type.rsplit("/", 1)[-1]
        return cls(
            tool,
            also=[skill.name],
            usual=_USUAL.get(kind, "").split(),
            values=values,
            parts=skill.resources,
            description=f"{skill.title} {skill.description}",
        )

    def confidence(self, tags: Iterable[str]) -> float:
        """0 to 1, the mean over the tags; 0 when it fits too badly to be called a match."""
        scores = [self._score(words_of(tag)) for tag in tags]
        mean = sum(scores) / len(scores) if scores else 0.0
        return round(mean, 2) if mean >= LEAST else 0.0

    def _score(self, words: list[str]) -> float:
        whole = " ".join(words)
        if not words:
            return 0.0
        if whole in self._names:
            return NAMED
        if whole in self._values:
            return ARGUMENT
        return sum(map(self._word, words)) / len(words)

    def _word(self, word: str) -> float:
        for score, known in (
            (OWN_WORD, self._own),
            (USUAL, self._usual),
            (ARGUMENT, self._values),
            (PART, self._parts),
            (DESCRIBED, self._described),
        ):
            if word in known:
                return score
        near = difflib.get_close_matches(word, self._own | self._usual, n=1, cutoff=_NEAR)
        return NEARLY if near else 0.0


_COMMON = frozenset(
    words_of(
        "a an and are as at be by do does for from has if in is it its not of on one or so than that the "
        "then this to use with without when while robot"
    )
)
