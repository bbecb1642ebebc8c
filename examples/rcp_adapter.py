"""A Robot Context Protocol adapter for a controller that speaks JSON lines over TCP.

robot-mcp-kit rcp --adapter examples/rcp_adapter.py:LineAdapter --config '{"host": "192.168.0.10"}'
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from robot_mcp_kit.rcp import (
    AdapterCapabilities,
    HardwareError,
    IOSignal,
    IOState,
    JointState,
    ProgramInfo,
    RCPAdapter,
    RobotIdentity,
    TCPPosition,
    ToolData,
)


class LineAdapter(RCPAdapter):
    def __init__(self) -> None:
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def connect(self, config: dict[str, Any]) -> None:
        self._streams = await asyncio.open_connection(config["host"], config.get("port", 7000))

    async def disconnect(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    def is_connected(self) -> bool:
        return self._streams is not None and not self._streams[1].is_closing()

    async def _ask(self, command: str, **data: Any) -> Any:
        async with self._one_at_a_time:
            self.require_connected()
            reader, writer = self._streams  # type: ignore[misc]
            writer.write(json.dumps({"command": command, **data}).encode() + b"\n")
            answer = json.loads(await reader.readline() or b'{"error": "the controller hung up"}')
        if "error" in answer:
            raise HardwareError(answer["error"])
        return answer["data"]

    def capabilities(self) -> AdapterCapabilities:
        return AdapterCapabilities(read=True, execute=True)

    async def discover(self) -> RobotIdentity:
        return RobotIdentity(**await self._ask("identity"))

    async def get_joints(self) -> list[JointState]:
        return [JointState(**joint) for joint in await self._ask("joints")]

    async def get_tcp(self) -> TCPPosition:
        return TCPPosition(*await self._ask("tcp"))

    async def get_io(self) -> IOState:
        return IOState([IOSignal(**signal) for signal in await self._ask("io")])

    async def get_programs(self) -> list[ProgramInfo]:
        return [ProgramInfo(name) for name in await self._ask("programs")]

    async def get_tools(self) -> list[ToolData]:
        return [ToolData(**tool) for tool in await self._ask("tools")]

    async def set_io(self, signal: str, value: float) -> None:
        await self._ask("set", signal=signal, value=value)

    async def stop(self) -> None:
        await self._ask("stop")
