"""The kit for adapter authors: a right adapter passes, a wrong one is caught by the check meant for it."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from robot_mcp_kit.rcp import (
    AdapterCapabilities,
    IOSignal,
    IOState,
    JointState,
    MotionLimits,
    ProgramInfo,
    RCPAdapter,
    RCPEvent,
    RobotContext,
    RobotIdentity,
    TCPPosition,
    ToolData,
    UploadResult,
)
from robot_mcp_kit.rcp.simulated import SimulatedAdapter
from robot_mcp_kit.testing.adapter_conformance import AdapterConformance

FAR = TCPPosition(0.0, -600.0, 300.0, 180.0, 0.0, 90.0)


class FastClock:
    """The machine's clock, a few times faster."""

    def __init__(self, times: float = 4.0) -> None:
        self._times = times

    def now(self) -> float:
        return time.monotonic() * self._times

    async def sleep(self, seconds: float, /) -> None:
        await asyncio.sleep(seconds / self._times)


class TestSimulatedRobot(AdapterConformance):
    """R6-R16, R28, R43-R49: the simulated robot passes all of it, moving."""

    may_actuate = True
    far_pose = FAR
    output = "lamp"
    sample_program = ("wave", "movej 10 90 -90 0 -90 0\nhome\n")

    def make_adapter(self) -> RCPAdapter:
        # Slow, so that a busy machine does not let a motion end before its stop.
        return SimulatedAdapter(clock=FastClock(0.5))


class Fast(SimulatedAdapter):
    def __init__(self) -> None:
        super().__init__(clock=FastClock())


# -- wrong adapters, each wrong in one way ------------------------------------------------------------------


class SaysConnected(Fast):
    def is_connected(self) -> bool:
        return True


class DisconnectsOnce(Fast):
    async def disconnect(self) -> None:
        self.require_connected()
        await super().disconnect()


class AnswersWhileDisconnected(Fast):
    async def get_tcp(self) -> TCPPosition:
        return TCPPosition(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Blocking(Fast):
    def get_joints(self) -> Any:  # type: ignore[override]
        return []


class Disarming(Fast):
    async def disable_estop(self) -> None:
        return


class DisarmingInDisguise(Fast):
    async def overrideSafety(self) -> None:
        return


class DeclaresMore(Fast):
    upload_program = RCPAdapter.upload_program


class MovesWithoutStop(Fast):
    stop = RCPAdapter.stop


class Radians(Fast):
    async def get_joints(self) -> list[JointState]:
        return [JointState(one.name, one.position_deg, -1.0, 1.0) for one in await super().get_joints()]


class NotANumber(Fast):
    async def get_joints(self) -> list[JointState]:
        joints = await super().get_joints()
        joints[2].position_deg = float("nan")
        return joints


class ForgetsAJoint(Fast):
    async def get_joints(self) -> list[JointState]:
        return (await super().get_joints())[:-1]


class ShufflesJoints(Fast):
    turn = itertools.count()

    async def get_joints(self) -> list[JointState]:
        joints = await super().get_joints()
        return joints if next(self.turn) % 2 else joints[::-1]


class SharesJoints(Fast):
    kept: list[JointState] | None = None

    async def get_joints(self) -> list[JointState]:
        if self.kept is None:
            self.kept = await super().get_joints()
        return self.kept


class Metres(Fast):
    async def get_tcp(self) -> TCPPosition:
        tcp = await super().get_tcp()
        return TCPPosition(tcp.x * 1000, tcp.y, tcp.z, tcp.rx, tcp.ry, tcp.rz)


class AnalogInVolts(Fast):
    async def get_io(self) -> IOState:
        return IOState([IOSignal("pressure", "analog_input", 6.2)])


class TwiceTheSameSignal(Fast):
    async def get_io(self) -> IOState:
        return IOState([IOSignal("a", "digital_input", 0), IOSignal("a", "digital_output", 1)])


class HalfOn(Fast):
    async def get_io(self) -> IOState:
        return IOState([IOSignal("a", "digital_input", 0.5)])


class ProgramsAsText(Fast):
    async def get_programs(self) -> Any:
        return ["pick"]


class NoMaker(Fast):
    async def discover(self) -> RobotIdentity:
        identity = await super().discover()
        identity.manufacturer = ""
        return identity


class LightTool(Fast):
    async def get_tools(self) -> list[ToolData]:
        return [ToolData("gripper", mass_kg=-1.0)]


class SlowInterlocks(Fast):
    async def verify_interlocks(self) -> tuple[bool, str]:
        await asyncio.sleep(60.0)
        return True, ""


class BareInterlocks(Fast):
    async def verify_interlocks(self) -> Any:
        return True


class MuteInterlocks(Fast):
    async def verify_interlocks(self) -> tuple[bool, str]:
        return False, ""


class FragileContext(Fast):
    async def get_context(self) -> RobotContext:
        return RobotContext(await self.discover(), await self.get_tcp(), await self.get_joints())


class NoneForUnknownProgram(Fast):
    async def get_program_code(self, module: str) -> Any:
        return self._programs.get(module)


class AcceptsAnything(Fast):
    async def set_io(self, signal: str, value: float) -> None:
        return


class RunsAnything(Fast):
    async def start_program(self, module: str) -> dict[str, Any]:
        return {"success": True, "message": ""}


class IgnoresTheStop(Fast):
    async def stop(self) -> None:
        return


class StopsTooLate(Fast):
    async def stop(self) -> None:
        await asyncio.sleep(0.6)
        await super().stop()


class StopsAndSaysArrived(Fast):
    async def move_to(self, position: TCPPosition) -> dict[str, Any]:
        try:
            return await super().move_to(position)
        except Exception:
            return {"success": True, "message": "arrived"}


class ArrivesElsewhere(Fast):
    async def move_to(self, position: TCPPosition) -> dict[str, Any]:
        return {"success": True, "message": "arrived"}


class LosesUploads(Fast):
    async def upload_program(self, module: str, code: str) -> UploadResult:
        return UploadResult(True)


class SecondsInEvents(Fast):
    def subscribe(self, channels: Sequence[str]) -> AsyncIterator[RCPEvent] | None:
        async def stream() -> AsyncIterator[RCPEvent]:
            yield RCPEvent(channels[0], {}, time.time())
            await asyncio.Event().wait()

        return stream()


class OtherChannels(Fast):
    def subscribe(self, channels: Sequence[str]) -> AsyncIterator[RCPEvent] | None:
        async def stream() -> AsyncIterator[RCPEvent]:
            yield RCPEvent("cycle", {})
            await asyncio.Event().wait()

        return stream()


class StreamThatIsNone(Fast):
    def subscribe(self, channels: Sequence[str]) -> AsyncIterator[RCPEvent] | None:
        return None


class TellsNoReach(Fast):
    async def discover(self) -> RobotIdentity:
        identity = await super().discover()
        identity.reach_mm = 0.0
        return identity


class DeafOutputs(Fast):
    async def set_io(self, signal: str, value: float) -> None:
        self.require_connected()
        if signal not in self._signals:
            raise ValueError(signal)


class CapabilitiesAsNumbers(Fast):
    def capabilities(self) -> AdapterCapabilities:
        can = super().capabilities()
        can.execute = 1  # type: ignore[assignment]
        return can


class BadBox(Fast):
    def motion_limits(self) -> MotionLimits:
        return MotionLimits(box_mm={"z": (100.0, -100.0)})


class LoadedIsText(Fast):
    async def get_programs(self) -> list[ProgramInfo]:
        return [ProgramInfo("pick", loaded="yes")]  # type: ignore[arg-type]


WRONG: dict[type[SimulatedAdapter], str] = {
    SaysConnected: "test_connecting_and_disconnecting_are_what_they_say",
    DisconnectsOnce: "test_connecting_and_disconnecting_are_what_they_say",
    AnswersWhileDisconnected: "test_without_a_connection_nothing_is_made_up",
    Blocking: "test_methods_are_async_where_the_protocol_says_so",
    Disarming: "test_it_has_nothing_that_is_prohibited",
    DisarmingInDisguise: "test_it_has_nothing_that_is_prohibited",
    DeclaresMore: "test_what_it_declares_it_has",
    MovesWithoutStop: "test_what_it_declares_it_has",
    CapabilitiesAsNumbers: "test_its_capabilities_are_yes_or_no",
    BadBox: "test_its_limits_and_its_rotations_are_told",
    TellsNoReach: "test_its_limits_and_its_rotations_are_told",
    SlowInterlocks: "test_interlocks_answer_yes_or_no_with_a_reason_and_in_time",
    BareInterlocks: "test_interlocks_answer_yes_or_no_with_a_reason_and_in_time",
    MuteInterlocks: "test_interlocks_answer_yes_or_no_with_a_reason_and_in_time",
    NoneForUnknownProgram: "test_a_program_that_is_not_there_has_no_text",
    NoMaker: "test_the_identity_says_which_robot_it_is",
    Radians: "test_joints_have_names_limits_and_degrees_and_are_as_many_as_it_says",
    NotANumber: "test_joints_have_names_limits_and_degrees_and_are_as_many_as_it_says",
    ForgetsAJoint: "test_joints_have_names_limits_and_degrees_and_are_as_many_as_it_says",
    ShufflesJoints: "test_joints_keep_their_order",
    SharesJoints: "test_answers_are_not_shared",
    Metres: "test_the_tool_is_somewhere_within_reach",
    AnalogInVolts: "test_signals_are_named_once_and_within_their_range",
    TwiceTheSameSignal: "test_signals_are_named_once_and_within_their_range",
    HalfOn: "test_signals_are_named_once_and_within_their_range",
    ProgramsAsText: "test_programs_and_tools_are_named_once",
    LoadedIsText: "test_programs_and_tools_are_named_once",
    LightTool: "test_programs_and_tools_are_named_once",
    FragileContext: "test_the_context_survives_the_loss_of_any_one_source",
    SecondsInEvents: "test_events_are_of_the_asked_channels_and_stamped_in_unix_milliseconds",
    OtherChannels: "test_events_are_of_the_asked_channels_and_stamped_in_unix_milliseconds",
    StreamThatIsNone: "test_events_are_of_the_asked_channels_and_stamped_in_unix_milliseconds",
    IgnoresTheStop: "test_a_stop_ends_a_motion_and_the_robot_stands",
    StopsTooLate: "test_a_stop_ends_a_motion_and_the_robot_stands",
    StopsAndSaysArrived: "test_a_stop_ends_a_motion_and_the_robot_stands",
    ArrivesElsewhere: "test_a_motion_arrives_and_says_so",
    AcceptsAnything: "test_what_does_not_exist_is_refused",
    RunsAnything: "test_what_does_not_exist_is_refused",
    DeafOutputs: "test_an_output_that_was_set_is_read_back_and_told_of",
    LosesUploads: "test_an_uploaded_program_is_the_one_on_the_controller",
}
"""Each with a check that must catch it."""


def failed(adapter: type[SimulatedAdapter], check: str) -> bool:
    """Whether a check of the kit fails for an adapter, in any of its cases."""

    class Kit(AdapterConformance):
        may_actuate = True
        far_pose = FAR
        output = "lamp"
        sample_program = ("wave", "home\n")
        within_s = 5.0
        stop_within_s = 0.5

        def make_adapter(self) -> RCPAdapter:
            return adapter()

    method = getattr(Kit(), check)
    arguments: list[dict[str, Any]] = [{}]
    for mark in getattr(method, "pytestmark", ()):
        if mark.name == "parametrize":
            arguments = [{mark.args[0]: value} for value in mark.args[1]]
    for given in arguments:
        try:
            method(**given)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception):
            return True
    return False


@pytest.mark.parametrize("wrong", list(WRONG), ids=lambda wrong: wrong.__name__)
def test_a_wrong_adapter_is_caught(wrong: type[SimulatedAdapter]) -> None:
    """R6-R16, R23, R24, R27, R28, R44-R49: each by the check that is there for it."""
    assert failed(wrong, WRONG[wrong])


def test_every_check_of_the_kit_catches_something() -> None:
    """R9-R49: but for those whose failure is no adapter that can be made, or none that the others miss."""
    checks = {name for name, _ in inspect.getmembers(AdapterConformance) if name.startswith("test_")}
    assert checks - set(WRONG.values()) == {
        "test_it_is_a_complete_adapter",
        "test_data_is_plain",
        "test_the_controller_map_never_raises",
        "test_a_captured_position_is_where_it_is",
        "test_the_context_is_whole_and_one_line_a_fact",
        "test_it_can_be_read_by_several_at_once",
        "test_the_difference_of_a_program_to_itself_is_nothing",
        "test_a_stop_is_taken_at_any_time",
    }


def test_without_leave_nothing_is_moved_or_switched() -> None:
    """R28: an author who only tries the kit moves no robot."""
    touched: list[str] = []

    class Watched(Fast):
        async def move_to(self, position: TCPPosition) -> dict[str, Any]:
            touched.append("move_to")
            return await super().move_to(position)

        async def set_io(self, signal: str, value: float) -> None:
            touched.append("set_io")

        async def upload_program(self, module: str, code: str) -> UploadResult:
            touched.append("upload_program")
            return UploadResult(False)

        async def start_program(self, module: str) -> dict[str, Any]:
            touched.append("start_program")
            return {"success": False}

        async def jog(self, axis: str, direction: int, speed: float) -> dict[str, Any]:
            touched.append("jog")
            return {"success": False}

    class Kit(AdapterConformance):
        far_pose = FAR
        output = "lamp"
        sample_program = ("wave", "home\n")

        def make_adapter(self) -> RCPAdapter:
            return Watched()

    for name, method in inspect.getmembers(Kit(), inspect.ismethod):
        cases: list[Any] = [()]
        for mark in getattr(method, "pytestmark", ()):
            cases = [(value,) for value in mark.args[1]]
        for case in cases if name.startswith("test_") else ():
            try:
                method(*case)
            except pytest.skip.Exception:
                continue
    assert touched == []
