"""What motion requests of one robot may ask for, in the protocol's units. Declared by its adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

JOINT_AXES = tuple(f"J{number}" for number in range(1, 7))
CARTESIAN_AXES = ("X", "Y", "Z", "RX", "RY", "RZ")
JOG_AXES = (*JOINT_AXES, *CARTESIAN_AXES)
"""What the protocol lets a jog name (R31); an adapter can allow fewer."""

Range = tuple[float, float]
FULL_TURN: Range = (-360.0, 360.0)
"""Wide enough for degrees and for radians."""


@dataclass(frozen=True, slots=True)
class MotionLimits:
    """Checked before a person is asked and again right before the adapter is called (R30, R31).

    A robot whose reach is not known and that declares no box is not moved by ``move_to``: nobody could say
    whether the place is inside of anything.
    """

    box_mm: Mapping[str, Range] = field(default_factory=lambda: MappingProxyType({}))
    """Lowest and highest ``x``, ``y``, ``z`` of the TCP in the base frame; one left out is not limited."""
    reach_mm: float | None = None
    """Farthest TCP from the base; ``None``: the identity's ``reach_mm``, if that is not 0."""
    rotation: Range = FULL_TURN
    """Lowest and highest ``rx``, ``ry``, ``rz`` in the controller's own units."""
    jog_axes: tuple[str, ...] = JOG_AXES
    jog_speed_max: float = 1.0
    """Highest jog speed, in the unit the adapter takes: a fraction of full speed unless it says otherwise."""
    pulse_ms_max: float = 10_000.0
    """Longest pulse of ``test_device``."""
    max_code_chars: int = 1_000_000
    """Longest program."""
