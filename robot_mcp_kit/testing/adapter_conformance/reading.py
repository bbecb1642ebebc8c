"""Checks of what an adapter tells: types, ranges, order, the context, events."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable

import pytest

from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.context import collect_context
from robot_mcp_kit.rcp.events import canonical_channel, event_stream
from robot_mcp_kit.rcp.models import (
    SIGNAL_TYPES,
    IOSignal,
    IOState,
    JointState,
    ProgramInfo,
    RobotIdentity,
    TCPPosition,
    ToolData,
)
from robot_mcp_kit.testing.adapter_conformance.base import Conformance

_HAIR_DEG = 0.5
"""A joint at its end may be read a little past it."""


class ReadingChecks(Conformance):
    """R6, R8, R13 to R16, R45 to R49."""

    def test_the_identity_says_which_robot_it_is(self) -> None:
        """R6, R36."""

        async def check(adapter: RCPAdapter) -> None:
            identity = await self.bounded(adapter.discover(), "discover")
            assert isinstance(identity, RobotIdentity), f"discover answered with {type(identity).__name__}"
            for field in ("manufacturer", "model", "controller", "firmware", "serial"):
                assert isinstance(getattr(identity, field), str), f"identity.{field} must be text"
            assert identity.manufacturer, "identity.manufacturer is empty"
            assert identity.model, "identity.model is empty"
            for name in ("payload_kg", "reach_mm"):
                value = number(getattr(identity, name), f"identity.{name}")
                assert value >= 0, f"identity.{name} is negative"

        self.run(check)

    def test_joints_have_names_limits_and_degrees_and_are_as_many_as_it_says(self) -> None:
        """R14, R15."""

        async def check(adapter: RCPAdapter) -> None:
            joints = await self.bounded(adapter.get_joints(), "get_joints")
            all_are(joints, JointState, "get_joints")
            distinct((joint.name for joint in joints), "joint")
            identity = await self.bounded(adapter.discover(), "discover")
            assert identity.joint_count == len(joints), (
                f"identity.joint_count is {identity.joint_count}, get_joints tells of {len(joints)}"
            )
            if identity.joint_limits:
                limited = [joint.name for joint in identity.joint_limits]
                assert limited == [joint.name for joint in joints], (
                    "joint_limits and get_joints differ in names"
                )
            for joint in joints:
                low, high = number(joint.min_deg, joint.name), number(joint.max_deg, joint.name)
                at = number(joint.position_deg, joint.name)
                assert low < high, f"{joint.name}: min_deg {low} is not below max_deg {high}"
                assert low - _HAIR_DEG <= at <= high + _HAIR_DEG, (
                    f"{joint.name} is at {at}, outside {low} to {high}: are these degrees?"
                )
                assert number(joint.max_speed_deg_s, joint.name) > 0

        self.run(check)

    def test_joints_keep_their_order(self) -> None:
        """R15."""

        async def check(adapter: RCPAdapter) -> None:
            orders = {
                tuple(joint.name for joint in await self.bounded(adapter.get_joints(), "get_joints"))
                for _ in range(5)
            }
            assert len(orders) == 1, f"the order of the joints changes: {orders}"

        self.run(check)

    def test_the_tool_is_somewhere_within_reach(self) -> None:
        """R14: in millimetres."""

        async def check(adapter: RCPAdapter) -> None:
            tcp = await self.bounded(adapter.get_tcp(), "get_tcp")
            assert isinstance(tcp, TCPPosition), f"get_tcp answered with {type(tcp).__name__}"
            x, y, z = (number(getattr(tcp, axis), f"tcp.{axis}") for axis in ("x", "y", "z"))
            for axis in ("rx", "ry", "rz"):
                number(getattr(tcp, axis), f"tcp.{axis}")
            identity = await self.bounded(adapter.discover(), "discover")
            tools = await self.bounded(adapter.get_tools(), "get_tools")
            longest = max((math.hypot(t.tcp_x, t.tcp_y, t.tcp_z) for t in tools), default=0.0)
            if identity.reach_mm > 0:
                assert math.hypot(x, y, z) <= identity.reach_mm + longest + 1.0, (
                    f"the tool is {math.hypot(x, y, z):.0f} mm away, the reach is {identity.reach_mm:g} mm"
                )

        self.run(check)

    def test_signals_are_named_once_and_within_their_range(self) -> None:
        """R8."""

        async def check(adapter: RCPAdapter) -> None:
            state = await self.bounded(adapter.get_io(), "get_io")
            assert isinstance(state, IOState), f"get_io answered with {type(state).__name__}"
            all_are(state.signals, IOSignal, "get_io().signals")
            distinct((signal.name for signal in state.signals), "signal")
            for signal in state.signals:
                assert signal.signal_type in SIGNAL_TYPES, f"{signal.name}: no type {signal.signal_type}"
                value = number(signal.value, signal.name)
                if signal.is_digital:
                    assert value in (0, 1), f"{signal.name} is digital and {value}"
                else:
                    assert 0 <= value <= 1, f"{signal.name} is analog and {value}, not within 0.0 to 1.0"

        self.run(check)

    def test_programs_and_tools_are_named_once(self) -> None:
        """R6."""

        async def check(adapter: RCPAdapter) -> None:
            programs = await self.bounded(adapter.get_programs(), "get_programs")
            all_are(programs, ProgramInfo, "get_programs")
            distinct((program.name for program in programs), "program")
            for program in programs:
                for flag in (program.loaded, program.running, program.paused):
                    assert isinstance(flag, bool), (
                        f"{program.name}: loaded, running, paused are True or False"
                    )
            tools = await self.bounded(adapter.get_tools(), "get_tools")
            all_are(tools, ToolData, "get_tools")
            distinct((tool.name for tool in tools), "tool")
            for tool in tools:
                for value in (tool.tcp_x, tool.tcp_y, tool.tcp_z):
                    number(value, tool.name)
                assert number(tool.mass_kg, tool.name) >= 0, f"{tool.name} weighs less than nothing"

        self.run(check)

    def test_a_captured_position_is_where_it_is(self) -> None:
        """R10."""

        async def check(adapter: RCPAdapter) -> None:
            tcp, joints = await self.bounded(adapter.capture_position(), "capture_position")
            assert isinstance(tcp, TCPPosition)
            all_are(joints, JointState, "capture_position")

        self.run(check)

    def test_answers_are_not_shared(self) -> None:
        """R6: whoever changes an answer does not change the next one."""

        async def check(adapter: RCPAdapter) -> None:
            first = await self.bounded(adapter.get_joints(), "get_joints")
            count = len(first)
            for joint in first:
                joint.name = "changed by a client"
            first.clear()
            second = await self.bounded(adapter.get_joints(), "get_joints")
            assert len(second) == count, "get_joints hands out its own list"
            assert all(joint.name != "changed by a client" for joint in second), "it hands out its own joints"

        self.run(check)

    def test_the_context_is_whole_and_one_line_a_fact(self) -> None:
        """R13, R45, R46."""

        async def check(adapter: RCPAdapter) -> None:
            report = await self.bounded(collect_context(adapter), "get_context", 15.0)
            assert report.missing == {}, f"not read: {report.missing}"
            direct = await self.bounded(adapter.get_context(), "get_context", 15.0)
            assert direct.identity == report.context.identity
            lines = report.context.to_prompt_block().splitlines()
            assert lines, "the prompt block is empty"
            assert all(line.isprintable() for line in lines)

        self.run(check)

    @pytest.mark.parametrize(
        "source", ["discover", "get_joints", "get_tcp", "get_io", "get_programs", "get_tools"]
    )
    def test_the_context_survives_the_loss_of_any_one_source(self, source: str) -> None:
        """R13."""

        async def check(adapter: RCPAdapter) -> None:
            async def dead() -> None:
                raise ConnectionError("gone")

            setattr(adapter, source, dead)
            context = await self.bounded(adapter.get_context(), "get_context", 15.0)
            others = [context.joints, context.tcp, context.identity]
            assert sum(bool(one) for one in others) >= 2, (
                f"without {source} the rest of the context is gone too"
            )

        self.run(check)

    def test_it_can_be_read_by_several_at_once(self) -> None:
        """R13."""

        async def check(adapter: RCPAdapter) -> None:
            reads = [adapter.get_joints, adapter.get_tcp, adapter.get_io, adapter.discover] * 3
            await self.bounded(asyncio.gather(*(read() for read in reads)), "twelve reads at once")

        self.run(check)

    def test_the_difference_of_a_program_to_itself_is_nothing(self) -> None:
        """R43."""

        async def check(adapter: RCPAdapter) -> None:
            for program in (await self.bounded(adapter.get_programs(), "get_programs"))[:3]:
                text = await self.bounded(adapter.get_program_code(program.name), "get_program_code")
                told = await self.bounded(adapter.diff_program(program.name, text), "diff_program")
                assert (told["added"], told["removed"], told["changed"]) == (0, 0, 0), told
                assert told["controller_code"] == text

        self.run(check)

    def test_events_are_of_the_asked_channels_and_stamped_in_unix_milliseconds(self) -> None:
        """R47, R48, R49: what the adapter itself yields, for a short while."""

        async def check(adapter: RCPAdapter) -> None:
            declared = adapter.capabilities().events
            if not declared:
                assert adapter.subscribe(["io_changed"]) is None, "a stream without any declared channel"
                pytest.skip("the adapter declares no events")
            asked = declared[0]
            stream = adapter.subscribe([asked])
            if not adapter.capabilities().streaming:
                assert stream is None, "subscribe returns a stream and streaming is not declared"
                return
            assert stream is not None, "streaming is declared and subscribe returns None"
            assert hasattr(stream, "__aiter__"), "subscribe must return an async iterator, or None"
            try:
                async with asyncio.timeout(0.3):
                    async for event in stream:
                        assert canonical_channel(event.channel) == canonical_channel(asked)
                        stamped(event.timestamp)
            except TimeoutError:
                pass
            guarded = event_stream(adapter, [asked])
            assert guarded is not None
            await self.bounded(guarded.aclose(), "closing the stream")

        self.run(check)


def number(value: object, what: str) -> float:
    """The value, which must be a finite number."""
    assert isinstance(value, int | float), f"{what} is {value!r}, not a number"
    assert not isinstance(value, bool), f"{what} is {value!r}, not a number"
    assert math.isfinite(value), f"{what} is {value!r}, not a finite number"
    return float(value)


def all_are(values: object, kind: type, what: str) -> None:
    assert isinstance(values, list), f"{what} must be a list, not {type(values).__name__}"
    for one in values:
        assert isinstance(one, kind), f"{what}: {one!r} is not a {kind.__name__}"


def distinct(names: Iterable[object], what: str) -> None:
    seen: set[object] = set()
    for name in names:
        assert isinstance(name, str), f"the {what}'s name {name!r} is not text"
        assert name.strip(), f"a {what} has no name"
        assert name not in seen, f"two {what}s are called {name}"
        seen.add(name)


def stamped(timestamp: object) -> None:
    """0 (to be stamped on arrival), or about now in Unix milliseconds."""
    value = number(timestamp, "timestamp")
    now_ms = time.time() * 1000.0
    assert value == 0 or abs(value - now_ms) < 86_400_000, (
        f"the timestamp {value!r} is not about now in Unix milliseconds ({now_ms:.0f})"
    )
