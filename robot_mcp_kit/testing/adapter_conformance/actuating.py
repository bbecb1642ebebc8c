"""Checks that move the robot or switch something: only with ``may_actuate``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.models import RCPEvent, UploadResult
from robot_mcp_kit.testing.adapter_conformance.base import Conformance, is_written
from robot_mcp_kit.testing.adapter_conformance.reading import number, stamped

_REST_DEG = 0.05
"""So little may a joint drift that stands still."""


class ActuatingChecks(Conformance):
    """R8, R28, R30, R31, R44, R47."""

    def test_a_stop_is_taken_at_any_time(self) -> None:
        """R28: also when nothing runs, and again."""

        async def check(adapter: RCPAdapter) -> None:
            if not is_written(adapter, "stop"):
                pytest.skip("the adapter cannot stop anything, and so must not move anything")
            for _ in range(2):
                await self.bounded(adapter.stop(), "stop", self.stop_within_s)

        self.run(check)

    @pytest.mark.parametrize("after_s", [0.0, 0.2])
    def test_a_stop_ends_a_motion_and_the_robot_stands(self, after_s: float) -> None:
        """R28: a moment after it began, and while it is under way."""

        async def check(adapter: RCPAdapter) -> None:
            self.need_actuation(adapter, "move_to", "stop")
            if self.far_pose is None:
                pytest.skip("far_pose is not set")
            moving = asyncio.ensure_future(adapter.move_to(self.far_pose))
            await asyncio.sleep(after_s)
            assert not moving.done(), "the motion had ended before the stop: is far_pose far enough?"
            await self.bounded(adapter.stop(), "stop", self.stop_within_s)
            done, _ = await asyncio.wait([moving], timeout=self.stop_within_s)
            if not done:
                moving.cancel()
                pytest.fail(f"move_to still runs {self.stop_within_s:g} s after the stop")
            if moving.exception() is None:
                assert moving.result().get("success") is not True, "a stopped motion must not tell of success"
            first = [joint.position_deg for joint in await adapter.get_joints()]
            await asyncio.sleep(0.3)
            second = [joint.position_deg for joint in await adapter.get_joints()]
            drift = max(abs(a - b) for a, b in zip(first, second, strict=True))
            assert drift <= _REST_DEG, f"a joint moved {drift:.2f} degrees after the stop"

        self.run(check)

    def test_a_motion_arrives_and_says_so(self) -> None:
        """R14: where it was told to, in millimetres."""

        async def check(adapter: RCPAdapter) -> None:
            self.need_actuation(adapter, "move_to")
            if self.far_pose is None:
                pytest.skip("far_pose is not set")
            answer = await self.bounded(adapter.move_to(self.far_pose), "move_to", 60.0)
            assert answer["success"] is True, answer
            assert isinstance(answer.get("message", ""), str)
            tcp = await adapter.get_tcp()
            for axis in ("x", "y", "z"):
                off = abs(getattr(tcp, axis) - getattr(self.far_pose, axis))
                assert off <= self.arrives_within_mm, (
                    f"it says that it arrived, and {axis} is {off:.1f} mm off"
                )

        self.run(check)

    def test_what_does_not_exist_is_refused(self) -> None:
        """R8, R30, R31: an unknown axis, signal or program is an error, not a success."""

        async def check(adapter: RCPAdapter) -> None:
            self.need_actuation(adapter)
            wrong: dict[str, Callable[[], Awaitable[object]]] = {
                "jog": lambda: adapter.jog("J99", 1, 0.1),
                "set_io": lambda: adapter.set_io("no such signal", 1),
                "start_program": lambda: adapter.start_program("no such program"),
            }
            for method, call in wrong.items():
                if not is_written(adapter, method):
                    continue
                try:
                    answer = await self.bounded(call(), method)
                except Exception:  # noqa: S112 - any refusal will do
                    continue
                refused = isinstance(answer, dict) and answer.get("success") is False
                assert refused, f"{method} of something that does not exist answered {answer!r}"

        self.run(check)

    def test_an_output_that_was_set_is_read_back_and_told_of(self) -> None:
        """R8, R47, R48."""

        async def check(adapter: RCPAdapter) -> None:
            self.need_actuation(adapter, "set_io")
            if self.output is None:
                pytest.skip("output is not set")
            before = await self._level(adapter)
            channel = next(
                (name for name in adapter.capabilities().events if name in ("io_changed", "io")), None
            )
            listening = None
            if channel is not None and adapter.capabilities().streaming:
                listening = asyncio.ensure_future(self._first(adapter, channel))
                await asyncio.sleep(0.05)
            try:
                await self.bounded(adapter.set_io(self.output, 1 - before), "set_io")
                assert await self._level(adapter) == 1 - before, "the output reads as if it had not been set"
                if listening is not None:
                    event = await self.bounded(listening, "the event of a set output")
                    stamped(event.timestamp)
            finally:
                await self.bounded(adapter.set_io(self.output, before), "set_io back")
                if listening is not None:
                    listening.cancel()

        self.run(check)

    async def _level(self, adapter: RCPAdapter) -> int:
        signals = {signal.name: signal for signal in (await adapter.get_io()).signals}
        assert self.output in signals, f"get_io does not tell of {self.output}"
        return int(number(signals[self.output].value, str(self.output)))

    @staticmethod
    async def _first(adapter: RCPAdapter, channel: str) -> RCPEvent:
        stream = adapter.subscribe([channel])
        assert stream is not None
        async for event in stream:
            return event
        raise AssertionError("the stream ended")

    def test_an_uploaded_program_is_the_one_on_the_controller(self) -> None:
        """R44."""

        async def check(adapter: RCPAdapter) -> None:
            self.need_actuation(adapter, "upload_program")
            if self.sample_program is None:
                pytest.skip("sample_program is not set")
            name, text = self.sample_program
            answer = await self.bounded(adapter.upload_program(name, text), "upload_program", 60.0)
            assert isinstance(answer, UploadResult), f"upload_program answered with {type(answer).__name__}"
            assert answer.success is True, answer.message
            assert name in [program.name for program in await adapter.get_programs()]
            assert await adapter.get_program_code(name) == text

        self.run(check)
