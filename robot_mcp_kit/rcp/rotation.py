"""What ``rx``, ``ry`` and ``rz`` of a TCP mean on one robot: the maker decides, and here it is said."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class RotationConvention:
    """How three numbers make an orientation (R16)."""

    kind: Literal["opaque", "euler_intrinsic", "euler_extrinsic", "rotation_vector"]
    unit: Literal["deg", "rad", "unknown"]
    order: str = ""
    """Axes in the order they are turned about, ``ZYX``; empty where there is no order."""
    fields: str = ""
    """Which maker's angle is in which field, ``rx=A ry=B rz=C``."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


OPAQUE = RotationConvention("opaque", "unknown", fields="rx ry rz as the controller has them")
"""Nobody said. Not to be computed with."""
ROLL_PITCH_YAW_DEG = RotationConvention("euler_extrinsic", "deg", "XYZ", "rx=roll ry=pitch rz=yaw")
"""Turns about the fixed axes X, Y, Z (REP 103), in degrees: what this project's own adapters use."""
KUKA_ABC_DEG = RotationConvention("euler_intrinsic", "deg", "ZYX", "rx=A (Z) ry=B (Y) rz=C (X)")
FANUC_WPR_DEG = RotationConvention("euler_extrinsic", "deg", "XYZ", "rx=W ry=P rz=R")
UR_ROTATION_VECTOR_RAD = RotationConvention("rotation_vector", "rad", fields="rx ry rz = axis times angle")
