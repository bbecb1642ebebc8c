"""What :mod:`.looking` finds out about ROS here, as data that crosses a process boundary. Imports no ROS."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from robot_mcp_kit.skills.base import Pose2D


class Facts(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Question(Facts):
    """What is asked, on the checking process's standard input.

    With ``wait_s`` it looks until everything is there or so many seconds are over.
    """

    skills_file: str | None = None
    namespace: str = ""
    ros_arguments: list[str] = Field(default_factory=list)
    wait_s: float = 5.0


class RosFacts(Facts):
    """The ROS 2 that was found."""

    kind: Literal["ros"] = "ros"
    distribution: str
    """``kilted``; empty when nothing tells."""
    version: str
    """Of rclpy, empty when unknown."""
    path: str
    """Where rclpy lies."""
    error: str = ""
    """Why it cannot be imported."""


class MiddlewareFacts(Facts):
    """A node could be made; or why not."""

    kind: Literal["middleware"] = "middleware"
    name: str = ""
    error: str = ""


class TypesFacts(Facts):
    """Whether the interfaces that the skills file needs can be used."""

    kind: Literal["types"] = "types"
    usable: list[str]
    errors: dict[str, str]
    """Type → why not."""
    entry_faults: list[str]
    """Entries that do not fit their type, one line each."""
    own_topics: bool
    """Whether robot_mcp_kit_msgs is installed."""


class ActionFacts(Facts):
    """One action that the skills file uses."""

    skill: str
    name: str
    """Full name."""
    type: str
    server_types: list[str]
    """What its servers say it is; empty without a server."""
    nodes: list[str]
    """Full names of the nodes that serve it."""
    ready: bool
    """All its services were found by our clients."""
    fault: str = ""
    """Why no client could be made for it."""
    other_definition: list[str]
    """Its parts whose type hash at the server differs from the one here: goal, feedback, result."""


class PoseFacts(Facts):
    """Where the robot's position comes from."""

    kind: Literal["pose"] = "pose"
    pose: Pose2D | None = None
    publishers: list[str] = Field(default_factory=list)
    """Nodes that publish the topic."""
    wrong_frame: str = ""
    """Heard, but in this frame."""
    near: list[str] = Field(default_factory=list)
    """Topics of that type that somebody publishes."""
    topic: str = ""
    error: str = ""


class GraphFacts(Facts):
    """The graph as seen from here."""

    kind: Literal["graph"] = "graph"
    nodes: list[str]
    """Full names of the other nodes."""
    actions: list[ActionFacts]
    served: list[str]
    """All actions that have a server."""
    looked_s: float


FACTS: dict[str, type[RosFacts | MiddlewareFacts | TypesFacts | PoseFacts | GraphFacts]] = {
    "ros": RosFacts,
    "middleware": MiddlewareFacts,
    "types": TypesFacts,
    "pose": PoseFacts,
    "graph": GraphFacts,
}
"""By ``kind``, for reading the lines back."""
