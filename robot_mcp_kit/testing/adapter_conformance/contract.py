"""Checks of the adapter's form: its methods, its connection, what it declares."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect

import pytest

from robot_mcp_kit.rcp.actions import ACTIONS
from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.events import canonical_channel
from robot_mcp_kit.rcp.limits import MotionLimits
from robot_mcp_kit.rcp.models import AdapterCapabilities
from robot_mcp_kit.rcp.rotation import RotationConvention
from robot_mcp_kit.safety.risk import RiskLevel, is_prohibited
from robot_mcp_kit.testing.adapter_conformance.base import Conformance, is_written

READS = ("discover", "get_joints", "get_tcp", "get_io", "get_programs", "get_tools")
_NOT_ASYNC = {
    "is_connected",
    "capabilities",
    "subscribe",
    "rotation_convention",
    "motion_limits",
    "require_connected",
}


class ContractChecks(Conformance):
    """R9 to R12, R27."""

    def test_it_is_a_complete_adapter(self) -> None:
        """R9: a class with all ten methods."""
        adapter = self.make_adapter()
        assert isinstance(adapter, RCPAdapter), "make_adapter must return an RCPAdapter"

    def test_methods_are_async_where_the_protocol_says_so(self) -> None:
        """R9: a plain method where a coroutine belongs fails at its first call."""
        adapter = self.make_adapter()
        for name, _ in inspect.getmembers(RCPAdapter, inspect.isfunction):
            if name.startswith("_"):
                continue
            mine = getattr(type(adapter), name)
            is_async = inspect.iscoroutinefunction(mine)
            assert is_async is (name not in _NOT_ASYNC), (
                f"{name} must {'not ' if name in _NOT_ASYNC else ''}be async"
            )

    def test_it_has_nothing_that_is_prohibited(self) -> None:
        """R27: no method by the name of a prohibited action, however written."""
        named = [name for name in dir(self.make_adapter()) if is_prohibited(name)]
        assert not named, f"do not implement {', '.join(named)}: the protocol prohibits it"

    def test_connecting_and_disconnecting_are_what_they_say(self) -> None:
        """R11: consistent, and a second disconnect is harmless."""

        async def whole() -> None:
            adapter = self.make_adapter()
            assert adapter.is_connected() is False, "a new adapter says that it is connected"
            await self.bounded(adapter.disconnect(), "disconnect before any connect")
            await self.bounded(adapter.connect(dict(self.connect_config)), "connect")
            assert adapter.is_connected() is True, "after connect, is_connected must be True"
            for _ in range(2):
                await self.bounded(adapter.disconnect(), "disconnect")
                assert adapter.is_connected() is False, "after disconnect, is_connected must be False"
            await self.bounded(adapter.connect(dict(self.connect_config)), "connecting again")
            assert adapter.is_connected() is True, "after connecting again, is_connected must be True"
            await self.bounded(adapter.disconnect(), "disconnect")

        asyncio.run(whole())

    @pytest.mark.parametrize("method", READS)
    def test_without_a_connection_nothing_is_made_up(self, method: str) -> None:
        """R11: a read that answers while disconnected tells of a robot that nobody has asked."""

        async def whole() -> None:
            adapter = self.make_adapter()
            await self.bounded(adapter.connect(dict(self.connect_config)), "connect")
            await self.bounded(adapter.disconnect(), "disconnect")
            try:
                answer = await self.bounded(getattr(adapter, method)(), method)
            except Exception:
                return
            pytest.fail(f"{method} answered {answer!r} while disconnected; begin it with require_connected()")

        asyncio.run(whole())

    def test_its_capabilities_are_yes_or_no(self) -> None:
        """R12."""
        can = self.make_adapter().capabilities()
        assert isinstance(can, AdapterCapabilities)
        for field in ("read", "validate", "deploy", "execute", "streaming"):
            assert isinstance(getattr(can, field), bool), f"capabilities().{field} must be True or False"
        for channel in can.events:
            canonical_channel(channel)

    def test_what_it_declares_it_has(self) -> None:
        """R12: a declared capability without its methods would only fail after a person has agreed."""
        adapter = self.make_adapter()
        can = adapter.capabilities()
        if can.validate:
            assert is_written(adapter, "validate_program"), "validate is declared without validate_program"
        if can.deploy:
            assert is_written(adapter, "upload_program"), "deploy is declared without upload_program"
        moving = [action.method for action in ACTIONS.values() if action.risk is RiskLevel.RESTRICTED]
        if can.execute:
            doing = [action.method for action in ACTIONS.values() if action.capability == "execute"]
            assert any(is_written(adapter, method) for method in doing), (
                "execute is declared without any action"
            )
        if can.execute and any(is_written(adapter, method) for method in moving):
            assert is_written(adapter, "stop"), "it can move and has no stop() (R28)"
        if can.streaming:
            assert is_written(adapter, "subscribe"), "streaming is declared without subscribe"
            assert can.events, "streaming is declared without any events"

    def test_its_limits_and_its_rotations_are_told(self) -> None:
        """R16, R30, R31."""

        async def check(adapter: RCPAdapter) -> None:
            assert isinstance(adapter.rotation_convention(), RotationConvention)
            limits = adapter.motion_limits()
            assert isinstance(limits, MotionLimits)
            for axis, (low, high) in limits.box_mm.items():
                assert axis in ("x", "y", "z"), f"box_mm has no axis {axis}"
                assert low < high, f"box_mm.{axis}: {low} is not below {high}"
            assert limits.jog_speed_max > 0
            if adapter.capabilities().execute and is_written(adapter, "move_to"):
                reach_mm = limits.reach_mm or (await self.bounded(adapter.discover(), "discover")).reach_mm
                assert reach_mm > 0 or {"x", "y", "z"} <= limits.box_mm.keys(), (
                    "move_to is always refused: give reach_mm in the identity, or box_mm for x, y and z"
                )

        self.run(check)

    def test_interlocks_answer_yes_or_no_with_a_reason_and_in_time(self) -> None:
        """R23, R24: a later answer counts as no."""

        async def check(adapter: RCPAdapter) -> None:
            answer = await self.bounded(adapter.verify_interlocks(), "verify_interlocks", 1.0)
            assert isinstance(answer, tuple), "verify_interlocks must return (bool, str)"
            good, reason = answer
            assert isinstance(good, bool)
            assert isinstance(reason, str)
            assert good or reason, "a no needs a reason"

        self.run(check)

    def test_a_program_that_is_not_there_has_no_text(self) -> None:
        """R10."""

        async def check(adapter: RCPAdapter) -> None:
            text = await self.bounded(adapter.get_program_code("no such program"), "get_program_code")
            assert text == "", "get_program_code must return an empty string for an unknown program"

        self.run(check)

    def test_the_controller_map_never_raises(self) -> None:
        """R10."""

        async def check(adapter: RCPAdapter) -> None:
            assert isinstance(await self.bounded(adapter.read_controller_map(), "read_controller_map"), dict)

        self.run(check)

    def test_data_is_plain(self) -> None:
        """R6: dataclasses of the protocol, and no classes of their own with other fields."""

        async def check(adapter: RCPAdapter) -> None:
            identity = await self.bounded(adapter.discover(), "discover")
            assert dataclasses.is_dataclass(identity), f"discover answered with {type(identity).__name__}"

        self.run(check)
