"""Port: what is read of a robot for whoever describes it, in SI units. Adapters live in ``ros/``."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass

from robot_mcp_kit.skills.geometry import Quaternion


class NotKnown(LookupError):
    """A source says nothing, or nothing fresh; the text says which and why."""


@dataclass(frozen=True, slots=True)
class JointFacts:
    """What is known of one joint: rad and rad/s, for sliding joints m and m/s; ``None``: not known."""

    slides: bool = False
    lower: float | None = None
    upper: float | None = None
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """What a robot description (URDF) tells."""

    name: str
    joints: Mapping[str, JointFacts]
    """Joints that move, in the order of the text."""


@dataclass(frozen=True, slots=True)
class ToolPose:
    """Where the tool is: metres and a unit quaternion in ``frame``."""

    frame: str
    position_m: tuple[float, float, float]
    rotation: Quaternion


class RobotReadings(abc.ABC):
    """What sources tell now. Nothing here waits; everything is called on the event loop."""

    @abc.abstractmethod
    def description(self) -> Description:
        """
        Raises:
            NotKnown: it has not arrived.
        """

    @abc.abstractmethod
    def joints(self) -> Mapping[str, float]:
        """Positions by name, in the order of the topic; rad, or m for sliding joints.

        Raises:
            NotKnown: nothing fresh was heard.
        """

    @abc.abstractmethod
    def tool(self) -> ToolPose:
        """
        Raises:
            NotKnown: it has no source, or nothing fresh was heard.
        """

    @abc.abstractmethod
    def signal(self, name: str) -> float:
        """A configured signal: 0 or 1, or 0.0 to 1.0.

        Raises:
            NotKnown: nothing fresh was heard.
        """
