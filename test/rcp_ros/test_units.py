"""Degrees, millimetres and rotations: there and back without loss."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from robot_mcp_kit.rcp.bridged.joints import told
from robot_mcp_kit.rcp.bridged.units import (
    CONVENTIONS,
    metres,
    mm,
    product,
    quaternion_of,
    rotated,
    rotation_numbers,
    tcp_of,
)
from robot_mcp_kit.skills.config.rcp import Rotation
from robot_mcp_kit.skills.geometry import Quaternion, rpy_to_quaternion
from robot_mcp_kit.skills.readings import JointFacts, ToolPose

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
ANGLES = st.floats(-math.pi, math.pi)
ROTATIONS: list[Rotation] = ["roll_pitch_yaw_deg", "euler_zyx_deg", "rotation_vector_rad"]


@given(NUMBERS)
def test_lengths_and_angles_come_back(value: float) -> None:
    """R14: a round trip within 1e-9 relative."""
    assert metres(mm(value)) == pytest.approx(value, rel=1e-9, abs=1e-300)
    assert math.radians(told(value, JointFacts())) == pytest.approx(value, rel=1e-9, abs=1e-300)
    assert metres(told(value, JointFacts(slides=True))) == pytest.approx(value, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("rotation", ROTATIONS)
@given(roll=ANGLES, pitch=ANGLES, yaw=ANGLES)
@example(roll=0.3, pitch=math.pi / 2, yaw=-0.7)
@example(roll=0.3, pitch=-math.pi / 2, yaw=2.9)
@example(roll=math.pi, pitch=0.0, yaw=0.0)
@example(roll=0.0, pitch=0.0, yaw=math.pi)
@example(roll=0.0, pitch=0.0, yaw=0.0)
@example(roll=0.0, pitch=math.pi / 2 - 1e-7, yaw=0.2)
def test_a_rotation_comes_back(rotation: Rotation, roll: float, pitch: float, yaw: float) -> None:
    """R14 R16: in each convention, also where two of the three turns cannot be told apart."""
    q = rpy_to_quaternion(roll, pitch, yaw)
    again = quaternion_of(*rotation_numbers(q, rotation), rotation)
    # The angle between both; 1 - |dot| would hide what is smaller than 1e-8.
    apart = product(again, Quaternion(-q.x, -q.y, -q.z, q.w))
    assert math.hypot(apart.x, apart.y, apart.z) < 1e-8


def test_each_convention_says_what_its_numbers_are() -> None:
    """R16: a quarter turn about z, then one about the new y."""
    q = product(rotated(0.0, 0.0, math.pi / 2), rotated(0.0, 0.5, 0.0))
    assert rotation_numbers(q, "roll_pitch_yaw_deg") == pytest.approx((0.0, math.degrees(0.5), 90.0))
    assert rotation_numbers(q, "euler_zyx_deg") == pytest.approx((90.0, math.degrees(0.5), 0.0))
    x, y, z = rotation_numbers(rotated(0.1, -0.2, 0.3), "rotation_vector_rad")
    assert (x, y, z) == pytest.approx((0.1, -0.2, 0.3))
    assert {name: (one.kind, one.unit) for name, one in CONVENTIONS.items()} == {
        "roll_pitch_yaw_deg": ("euler_extrinsic", "deg"),
        "euler_zyx_deg": ("euler_intrinsic", "deg"),
        "rotation_vector_rad": ("rotation_vector", "rad"),
    }


def test_a_pose_is_told_in_millimetres() -> None:
    pose = ToolPose("base_link", (0.1, -0.25, 1.5), rpy_to_quaternion(0.0, 0.0, math.pi / 2))
    tcp = tcp_of(pose, "roll_pitch_yaw_deg")
    assert (tcp.x, tcp.y, tcp.z, tcp.rz) == pytest.approx((100.0, -250.0, 1500.0, 90.0))
