"""The Robot Context Protocol end to end: a simulated robot, the bridge, the official MCP client over HTTP.

What is read is compared with the simulation's own truth; what moves is counted at the robot.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.rcp.bridged.units import quaternion_of
from robot_mcp_kit.testing.eventually import assert_eventually
from test.rcp.wire import WireError, client_of

pytestmark = [pytest.mark.ros, pytest.mark.timeout(240)]

ORDER = [
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
]
NAN = float("nan")


@pytest.fixture(autouse=True)
def _healthy(hand: Any) -> Iterator[None]:
    hand.call("reset_faults")
    yield
    hand.call("reset_faults")


async def _resource(talk: Any, name: str) -> Any:
    result = await talk.client.read_resource(f"robot://{name}")
    text = result.contents[0].text
    return text if name == "context" else json.loads(text)


async def _read(talk: Any, part: str) -> dict[str, Any]:
    result = await talk.call("rcp_read", part=part)
    assert not result.is_error, result.content[0].text
    return dict(result.structured_content)


async def _all_known(talk: Any) -> dict[str, Any]:
    """Everything, once every source was heard after a start or a fault."""

    async def context() -> dict[str, Any] | None:
        told = await _read(talk, "context")
        return told if not told["missing"] else None

    found: dict[str, Any] = await assert_eventually(context)
    return found


async def _done(talk: Any, tool: str, **arguments: Any) -> Any:
    result = await talk.call(tool, wait_s=50, **arguments)
    while (result.structured_content or {}).get("state") == "running":
        result = await talk.call("await_task", handle=result.structured_content["handle"])
    return result


def _arm_goals(hand: Any) -> int:
    """Goals that the arm's servers were asked for, and commands that outputs heard."""
    counts: dict[str, int] = hand.state()["goals"]
    words = ("move_action", "arm_controller", "lamp", "fan", "gripper")
    return sum(count for name, count in counts.items() if name.startswith(words))


def _check_truth(told: dict[str, Any], truth: dict[str, Any]) -> None:
    """Joints and tool to 1e-6 (degrees, millimetres)."""
    assert [joint["name"] for joint in told["joints"]] == ORDER
    for joint in told["joints"]:
        assert joint["position_deg"] == pytest.approx(math.degrees(truth["joints"][joint["name"]]), abs=1e-6)
    tcp, tool = told["tcp"], truth["tool_in_base"]
    assert [tcp["x"], tcp["y"], tcp["z"]] == pytest.approx([1000 * m for m in tool["position_m"]], abs=1e-6)
    q = quaternion_of(tcp["rx"], tcp["ry"], tcp["rz"], "roll_pitch_yaw_deg")
    same = sum(a * b for a, b in zip(q, tool["quaternion"], strict=True))
    assert abs(same) == pytest.approx(1.0, abs=1e-12)


async def test_joints_and_tool_are_the_simulations_own_in_two_places(talk: Any, hand: Any) -> None:
    """R14 R15: to 1e-6, in two places of the arm."""
    _check_truth(await _all_known(talk), hand.state())
    moved = await _done(talk, "rcp_start_program", module="reach_out")
    assert not moved.is_error, moved.content[0].text

    async def at_rest() -> dict[str, Any] | None:
        told, truth = await _read(talk, "context"), hand.state()
        still = abs(told["joints"][1]["position_deg"] - math.degrees(truth["joints"][ORDER[1]])) < 1e-9
        return told if still and not told["missing"] else None

    told: dict[str, Any] = await assert_eventually(at_rest)
    _check_truth(told, hand.state())
    assert told["joints"][1]["position_deg"] == pytest.approx(math.degrees(-1.2), abs=0.1)
    assert not (await _done(talk, "rcp_home")).is_error


async def test_every_resource_is_read_by_the_client(talk: Any) -> None:
    """R14 R16 R45: units are named, the rotations have their convention, the context is a prompt block."""
    await _all_known(talk)
    listed = {str(one.uri) for one in (await talk.client.list_resources()).resources}
    names = ["identity", "joints", "tcp", "io", "programs", "tools", "context", "conventions"]
    assert {f"robot://{name}" for name in names} <= listed
    identity = await _resource(talk, "identity")
    assert (identity["identity"]["model"], identity["identity"]["joint_count"]) == ("flat_robot", 6)
    assert len(identity["identity"]["joint_limits"]) == 6
    joints = await _resource(talk, "joints")
    assert "degrees" in joints["units"]
    pan = joints["joints"][0]
    # The description's limits and the file's, whichever is narrower.
    assert (pan["min_deg"], pan["max_deg"]) == pytest.approx((-math.degrees(2.9), math.degrees(2.9)))
    assert pan["max_speed_deg_s"] == pytest.approx(math.degrees(1.0))
    tcp = await _resource(talk, "tcp")
    assert (tcp["rotation"]["unit"], "millimetres" in tcp["units"]) == ("deg", True)
    io = {one["name"]: one["value"] for one in (await _resource(talk, "io"))["io"]}
    assert (io["DI_dock_contact"], io["DO_lamp"]) == (0.0, 0.0)
    assert io["AI_charge"] == pytest.approx(0.85, abs=0.1)
    assert "reach_out" in {one["name"] for one in (await _resource(talk, "programs"))["programs"]}
    assert (await _resource(talk, "tools"))["tools"][0]["name"] == "gripper"
    assert (await _resource(talk, "conventions"))["limits"]["reach_mm"] == 1300.0
    block = (await _resource(talk, "context")).splitlines()
    assert block[1:3] == ["  Model: robot-mcp-kit flat_robot", "  Controller: ros2_control (simulated)"]
    assert any(line.startswith("  Digital inputs (1): DI_dock_contact=LOW") for line in block)


@pytest.mark.parametrize(
    ("topic", "missing"),
    [
        ("joint_states", "joints"),
        ("tool_pose", "tcp"),
        ("battery_state", "io.AI_charge"),
        ("dock_contact", "io.DI_dock_contact"),
        ("lamp/state", "io.DO_lamp"),
        ("fan/state", "io.AO_fan"),
    ],
)
async def test_each_source_dies_alone_and_is_named(talk: Any, hand: Any, topic: str, missing: str) -> None:
    """R13: one topic falls silent, the rest is told as before."""
    await _all_known(talk)
    hand.faults(silent_topics=[topic])

    async def gone() -> dict[str, Any] | None:
        told = await _read(talk, "context")
        return told if told["missing"] else None

    told: dict[str, Any] = await assert_eventually(gone)
    assert set(told["missing"]) == {missing}
    assert f"nothing was heard on {topic}" in told["missing"][missing]
    assert f"  Not available: {missing} (" in await _resource(talk, "context")
    assert told["identity"]["serial"] == "SIM-1"
    assert (told["tcp"] is None) == (missing == "tcp")
    assert (told["joints"] == []) == (missing == "joints")
    if missing == "tcp":
        refused = await talk.call("rcp_jog", axis="X", direction=1, speed_mm_s=50.0)
        assert refused.is_error
        assert "where the robot is" in refused.content[0].text


async def test_all_sources_die_together_and_the_context_answers(talk: Any, hand: Any) -> None:
    """R13."""
    await _all_known(talk)
    topics = ["joint_states", "tool_pose", "battery_state", "dock_contact", "lamp/state", "fan/state"]
    hand.faults(silent_topics=topics)

    async def gone() -> dict[str, Any] | None:
        told = await _read(talk, "context")
        return told if {"joints", "tcp", "io"} <= set(told["missing"]) else None

    told: dict[str, Any] = await assert_eventually(gone)
    assert told["identity"]["model"] == "flat_robot"


async def test_a_jog_moves_one_joint_by_one_step(talk: Any, hand: Any) -> None:
    """R31: five degrees, and the other joints stay."""
    await _all_known(talk)
    before = hand.state()["joints"]
    moved = await _done(talk, "rcp_jog", axis="J1", direction=1, speed_deg_s=10.0)
    assert not moved.is_error, moved.content[0].text
    assert moved.structured_content["tool"] == "move_arm"

    def stepped() -> bool:
        return abs(math.degrees(hand.state()["joints"][ORDER[0]] - before[ORDER[0]]) - 5.0) < 0.1

    await assert_eventually(stepped)
    after = hand.state()["joints"]
    assert [after[name] for name in ORDER[1:]] == pytest.approx(
        [before[name] for name in ORDER[1:]], abs=1e-3
    )
    assert not (await _done(talk, "rcp_home")).is_error


async def test_move_to_brings_the_tool_there(talk: Any, hand: Any) -> None:
    """R14: millimetres in, and the simulation's own tool is there."""
    await _all_known(talk)
    place = {"x_mm": 650.0, "y_mm": 80.0, "z_mm": 700.0, "rx_deg": 0.0, "ry_deg": 0.0, "rz_deg": 0.0}
    moved = await _done(talk, "rcp_move_to", **place)
    assert not moved.is_error, moved.content[0].text

    def there() -> bool:
        at = hand.state()["tool_in_base"]["position_m"]
        return math.dist(at, (0.65, 0.08, 0.7)) < 0.01

    await assert_eventually(there)
    assert not (await _done(talk, "rcp_home")).is_error


GOOD_PLACE = {"x_mm": 650.0, "y_mm": 80.0, "z_mm": 700.0, "rx_deg": 0.0, "ry_deg": 0.0, "rz_deg": 0.0}
GOOD_STEP = {"axis": "J1", "direction": 1, "speed_deg_s": 5.0}


def _bad_calls() -> Iterator[tuple[str, dict[str, Any], str]]:
    for gone in GOOD_PLACE:
        yield "rcp_move_to", {key: value for key, value in GOOD_PLACE.items() if key != gone}, gone
        for bad in (NAN, math.inf, "far", None, True):
            yield "rcp_move_to", {**GOOD_PLACE, gone: bad}, gone
    yield "rcp_move_to", {**GOOD_PLACE, "x_mm": 1301.0}, "x_mm"
    yield "rcp_move_to", {**GOOD_PLACE, "x_m": 0.65}, "x_m"
    yield "rcp_move_to", {**GOOD_PLACE, "rz_deg": 400.0}, "rz_deg"
    yield "rcp_move_to", {"x": 650.0, "y": 80.0, "z": 700.0, "rx": 0, "ry": 0, "rz": 0}, ""
    for gone in GOOD_STEP:
        yield "rcp_jog", {key: value for key, value in GOOD_STEP.items() if key != gone}, gone
    for axis in ("J7", "J0", "j1", "Ｊ１", "Ј1", " J1", "W", ""):
        yield "rcp_jog", {**GOOD_STEP, "axis": axis}, "axis"
    for direction in (0, 2, -2, 1.5, True, "1", None, NAN):
        yield "rcp_jog", {**GOOD_STEP, "direction": direction}, "direction"
    for speed in (0, -1, 10.1, 1e9, NAN, math.inf, "fast", True, None):
        yield "rcp_jog", {**GOOD_STEP, "speed_deg_s": speed}, "speed_deg_s"
    yield "rcp_jog", {**GOOD_STEP, "axis": "X"}, "speed_deg_s"
    yield "rcp_jog", {**GOOD_STEP, "speed_mm_s": 5.0}, "speed_mm_s"
    yield "rcp_jog", {**GOOD_STEP, "idempotency_key": "again"}, "idempotency_key"
    yield "rcp_home", {"target": "ready"}, "target"
    yield "rcp_start_program", {"module": "gone"}, "module"
    yield "rcp_start_program", {"module": "navigate_to"}, "module"
    yield "rcp_start_program", {}, "module"
    for value in (0.5, -1, NAN, True, None, "on"):
        yield "set_io", {"signal": "DO_lamp", "value": value}, "value"
    yield "set_io", {"signal": "DI_dock_contact", "value": 1}, "signal"
    yield "set_io", {"signal": "AO_fan", "value": 1.01}, "value"


async def test_no_wrong_parameter_actuates_anything(talk: Any, hand: Any) -> None:
    """R8 R30 R31: missing, NaN, out of range, disguised; counted at the simulated robot."""
    await _all_known(talk)
    before, pose = _arm_goals(hand), hand.state()["joints"]
    calls = list(_bad_calls())
    assert len(calls) > 80
    for tool, arguments, field in calls:
        result = await talk.call(tool, **arguments)
        said = f"{tool} {arguments}: {result.content[0].text}"
        assert result.is_error, said
        error = result.structured_content["error"]
        assert error["error_code"] == "INVALID_ARGUMENT", said
        assert not field or error["field"] == field, said
        assert result.content[0].text.startswith("Refused, nothing moved."), said
    assert _arm_goals(hand) == before
    assert hand.state()["joints"] == pose
    # The count does count.
    assert not (await _done(talk, "rcp_jog", **GOOD_STEP)).is_error
    assert _arm_goals(hand) > before
    assert not (await _done(talk, "rcp_home")).is_error


async def test_an_output_is_set_and_one_that_is_stuck_fails(talk: Any, hand: Any) -> None:
    """R8: the robot's own state decides."""
    await _all_known(talk)
    lit = await _done(talk, "set_io", signal="DO_lamp", value=1)
    assert not lit.is_error, lit.content[0].text
    assert lit.structured_content["result"]["state"] == 1.0
    assert hand.state()["io"]["lamp"] is True
    assert (await _done(talk, "set_io", signal="AO_fan", value=0.4)).structured_content[
        "state"
    ] == "succeeded"
    assert hand.state()["io"]["fan"] == pytest.approx(0.4)
    hand.faults(outputs_stuck=True)
    stuck = await _done(talk, "set_io", signal="DO_lamp", value=0)
    assert stuck.is_error
    assert stuck.structured_content["failure"]["error_code"] == "IO_NOT_CONFIRMED"
    assert hand.state()["io"]["lamp"] is True


async def test_a_motion_that_was_not_approved_does_not_happen(
    start_bridge: Callable[..., Any], connect: Any, talker: Any, hand: Any, tmp_path: Path
) -> None:
    """R18 R29: the protocol's tools wait for a person like all others."""
    skills = tmp_path / "skills.yaml"
    text = (Path(__file__).parents[2] / "config" / "skills.yaml").read_text(encoding="utf-8")
    skills.write_text(text.replace("trust_demo_key: true", "trust_demo_key: false"), encoding="utf-8")
    environment = {"ROBOT_MCP_STATE_DIR": str(tmp_path / "state")}
    bridge = start_bridge(skills=skills, environment=environment, approve=False)
    async with connect(bridge.url) as client:
        talk = talker(client)
        await _all_known(talk)
        before = _arm_goals(hand)
        asked = await talk.call("rcp_home")
        assert not asked.is_error, asked.content[0].text
        task_id = asked.structured_content["task_id"]

        async def waits() -> bool:
            progress = (await talk.task(task_id))["progress"] or {}
            return progress.get("phase") == "awaiting_approval"

        await assert_eventually(waits)
        await talk.call("stop")
        told = await talk.task(task_id)
        assert told["state"] in ("failed", "cancelled")
        assert _arm_goals(hand) == before
    assert bridge.end() == 0


async def test_the_protocols_own_server_is_off_until_the_parameter_says_so(
    start_bridge: Callable[..., Any], hand: Any, tmp_path: Path
) -> None:
    """R18 R30 R32 R37: the same robot over JSON-RPC; a person approves over the operator's connection."""
    from robot_mcp_kit.safety.assemble import operator_key

    skills = tmp_path / "skills.yaml"
    text = (Path(__file__).parents[2] / "config" / "skills.yaml").read_text(encoding="utf-8")
    skills.write_text(text.replace("trust_demo_key: true", "trust_demo_key: false"), encoding="utf-8")
    environment = {"ROBOT_MCP_STATE_DIR": str(tmp_path / "state")}
    bridge = start_bridge(
        *("--ros-args", "-p", "rcp_server:=true", "-p", "rcp_port:=0"),
        skills=skills,
        environment=environment,
        approve=False,
    )
    said = re.compile(r"RCP on (ws://127\.0\.0\.1:\d+)")
    url = (await assert_eventually(lambda: said.search(bridge.log.read_text())))[1]
    key = operator_key(tmp_path / "state").get_secret_value()
    async with client_of(url) as client, client_of(url, key) as operator:

        async def whole() -> dict[str, Any] | None:
            told = await client.call("rcp.context")
            return None if told["missing"] else told

        told: dict[str, Any] = await assert_eventually(whole, interval_s=0.1)
        _check_truth(told, hand.state())
        before = _arm_goals(hand)
        for action, bad in (("move_to", {"x": 1.0}), ("jog", {"axis": "J9", "direction": 1, "speed": 1.0})):
            with pytest.raises(WireError) as refused:
                await client.act(action, bad)
            assert refused.value.code in (-32602, 3005)
        asked = await client.act("jog", {"axis": "J1", "direction": -1, "speed": 0.5})
        assert asked["status"] == "approval_required"
        with pytest.raises(WireError) as refused:
            await client.call("rcp.action.approve", token=asked["token"], approver="me")
        assert refused.value.code == 3000
        assert _arm_goals(hand) == before
        done = await operator.call("rcp.action.approve", token=asked["token"], approver="Ada")
        assert done["result"]["success"] is True, done
        assert done["audit_id"] == asked["audit_id"]
        assert _arm_goals(hand) > before
        assert math.degrees(hand.state()["joints"][ORDER[0]]) == pytest.approx(-2.5, abs=0.1)
        home = await client.act("home")
        await operator.call("rcp.action.approve", token=home["token"], approver="Ada")
    assert bridge.end() == 0


def test_the_protocols_token_has_one_name() -> None:
    from robot_mcp_kit.node.settings import RCP_TOKEN_VARIABLE
    from robot_mcp_kit.rcp.server.settings import TOKEN_VARIABLE

    assert RCP_TOKEN_VARIABLE == TOKEN_VARIABLE
