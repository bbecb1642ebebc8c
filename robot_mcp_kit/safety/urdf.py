"""Joint limits from a robot description (URDF)."""

from __future__ import annotations

import math
from xml.etree import ElementTree

from robot_mcp_kit.safety.situation import JointLimit
from robot_mcp_kit.skills.readings import Description, JointFacts
from robot_mcp_kit.skills.text import clean_text

MAX_CHARS = 20_000_000


class DescriptionError(ValueError):
    """The text is no robot description that can be trusted."""


def joint_limits(text: str) -> dict[str, JointLimit]:
    """Position and speed limits by joint name, rad (m for prismatic joints).

    Continuous joints have a speed only; fixed ones do not move and are left out.

    Raises:
        DescriptionError: not XML, not a robot, or a limit that is no number.
    """
    return {joint.get("name", ""): _limit(joint) for joint in _moving(_root(text))}


def describe(text: str) -> Description:
    """Name and joints of a robot; a joint that only mimics another is left out.

    Raises:
        DescriptionError: as :func:`joint_limits`.
    """
    root = _root(text)
    joints = {}
    for joint in _moving(root):
        if joint.find("mimic") is None:
            limit, slides = _limit(joint), joint.get("type") == "prismatic"
            joints[joint.get("name", "")] = JointFacts(slides, limit.lower, limit.upper, limit.speed)
    return Description(clean_text(root.get("name", ""), 200), joints)


def _moving(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [
        joint
        for joint in root.iter("joint")
        if joint.get("type") in ("revolute", "prismatic", "continuous") and joint.get("name")
    ]


def _root(text: str) -> ElementTree.Element:
    # A description has no use for entities, and an XML bomb needs them.
    if len(text) > MAX_CHARS or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise DescriptionError(
            "the robot description is too long or has a document type, which URDF never has"
        )
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - entities are refused above
    except ElementTree.ParseError as error:
        raise DescriptionError(f"the robot description is not XML: {error}") from error
    if root.tag != "robot":
        raise DescriptionError(f"the robot description begins with <{root.tag}>, not <robot>")
    return root


def _limit(joint: ElementTree.Element) -> JointLimit:
    limit = joint.find("limit")
    if limit is None:
        return JointLimit()
    continuous = joint.get("type") == "continuous"
    speed = _number(joint, limit, "velocity", None)
    return JointLimit(
        None if continuous else _number(joint, limit, "lower", 0.0),
        None if continuous else _number(joint, limit, "upper", 0.0),
        speed if speed else None,
    )


def _number(
    joint: ElementTree.Element, limit: ElementTree.Element, key: str, default: float | None
) -> float | None:
    text = limit.get(key)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DescriptionError(f"joint {joint.get('name')}: {key}={text!r} is not a number")
    return value
