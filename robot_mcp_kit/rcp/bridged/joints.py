"""The joints of one robot: the controller's order and names, positions and limits (R14, R15)."""

from __future__ import annotations

import math

from robot_mcp_kit.rcp.bridged.units import mm
from robot_mcp_kit.rcp.models import JointState
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.rcp import RcpSection, rcp_arm
from robot_mcp_kit.skills.readings import JointFacts, NotKnown, RobotReadings


class JointTable:
    """Reads joints as the protocol wants them.

    Args:
        config: for the arm: joints in the controller's order, with their ranges.
        rcp: names the arm.
        readings: positions, and the robot description.
    """

    def __init__(self, config: RobotConfig, rcp: RcpSection, readings: RobotReadings) -> None:
        name = rcp_arm(rcp, config.arms)
        self._arm = None if name is None else config.arms[name]
        self._readings = readings

    def order(self) -> list[str]:
        """Names in the controller's order: the file's arm, else the description, else the topic.

        Raises:
            NotKnown: nobody tells.
        """
        if self._arm is not None:
            return list(self._arm.joints)
        positions = self._readings.joints()
        try:
            described = [name for name in self._readings.description().joints if name in positions]
        except NotKnown:
            described = []
        return described or list(positions)

    def facts(self, name: str) -> JointFacts:
        """Limits of one joint: those of the description and of the file, whichever is narrower."""
        try:
            found = self._readings.description().joints.get(name, JointFacts())
        except NotKnown:
            found = JointFacts()
        if self._arm is None or name not in self._arm.joints:
            return found
        own = self._arm.joints[name]
        return JointFacts(
            own.slides,
            own.range.min if found.lower is None else max(found.lower, own.range.min),
            own.range.max if found.upper is None else min(found.upper, own.range.max),
            _least(found.speed, own.max_speed),
        )

    def positions(self) -> dict[str, float]:
        """Positions by name in the controller's order; rad, or m for sliding joints.

        Raises:
            NotKnown: one of them was not heard.
        """
        known, order = self._readings.joints(), self.order()
        missing = [name for name in order if name not in known]
        if missing:
            raise NotKnown(f"no position was heard of {', '.join(missing)}")
        return {name: known[name] for name in order}

    def states(self) -> list[JointState]:
        """Every joint as the protocol has it.

        Raises:
            NotKnown: as :meth:`positions`.
        """
        return [self._state(name, value) for name, value in self.positions().items()]

    def limits(self) -> list[JointState]:
        """As :meth:`states` where positions are not known: 0 for each.

        Raises:
            NotKnown: not even the names are known.
        """
        return [self._state(name, 0.0) for name in self.order()]

    def _state(self, name: str, value: float) -> JointState:
        facts = self.facts(name)
        state = JointState(name, told(value, facts))
        if facts.lower is not None:
            state.min_deg = told(facts.lower, facts)
        if facts.upper is not None:
            state.max_deg = told(facts.upper, facts)
        if facts.speed is not None:
            state.max_speed_deg_s = told(facts.speed, facts)
        return state


def told(value: float, facts: JointFacts) -> float:
    """A position or speed in the protocol's unit: degrees; for sliding joints millimetres."""
    return mm(value) if facts.slides else math.degrees(value)


def _least(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None
