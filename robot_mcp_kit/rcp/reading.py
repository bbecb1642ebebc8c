"""An adapter as clients may read it: connected, declared, bounded in time."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.jsonsafe import to_jsonable
from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.context import ContextReport, collect_context
from robot_mcp_kit.rcp.errors import (
    AdapterDisconnectedError,
    AdapterError,
    NotSupportedError,
    RCPError,
    RCPErrorCode,
)
from robot_mcp_kit.rcp.events import EventStream, event_stream
from robot_mcp_kit.rcp.failures import failed, said
from robot_mcp_kit.rcp.models import RobotContext, RobotIdentity
from robot_mcp_kit.rcp.resources import CONTEXT, CONVENTIONS, SOURCES, conventions, resource_name
from robot_mcp_kit.rcp.timing import Timeouts, bounded
from robot_mcp_kit.safety.audit_records import scrub

logger = logging.getLogger(__name__)


class RobotReader:
    """One adapter. Lives on one event loop.

    Args:
        adapter: the controller's.
        clock: monotonic.
        wall: Unix seconds, for events without a stamp.
        timeouts: how long the adapter may take.
    """

    def __init__(
        self,
        adapter: RCPAdapter,
        *,
        clock: Clock | None = None,
        wall: WallClock = time.time,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.adapter, self.wall = adapter, wall
        self._clock = clock if clock is not None else SystemClock()
        self._timeouts = timeouts if timeouts is not None else Timeouts()
        self._identity: RobotIdentity | None = None

    async def connect(self, config: Mapping[str, Any] | None = None) -> None:
        """Connect the adapter; harmless when it is connected.

        Raises:
            RCPError: it did not succeed (code 1000, 1001 after ``connect_s``, or the adapter's own).
        """
        if self.adapter.is_connected():
            return
        given = dict(config or {})
        try:
            await bounded(self.adapter.connect(given), self._timeouts.connect_s, self._clock)
        except RCPError:
            raise
        except Exception as error:
            late = isinstance(error, TimeoutError)
            # What a library says of a failure may have the password in it.
            why = scrub(said(error), _secrets_in(given))
            raise RCPError(
                f"the controller was not reached: {why}",
                code=RCPErrorCode.CONNECTION_TIMEOUT if late else RCPErrorCode.CONNECTION_FAILED,
            ) from None
        if not self.adapter.is_connected():
            raise RCPError(
                f"{type(self.adapter).__name__}.connect returned, and is_connected says no",
                code=RCPErrorCode.CONNECTION_FAILED,
            )

    async def disconnect(self) -> None:
        """Leave the controller. Harmless when repeated (R11)."""
        self._identity = None
        await self.adapter.disconnect()

    async def read(self, uri: str) -> Any:
        """A resource, JSON-able.

        Raises:
            RCPError: no such resource, not connected, reading is not declared, or the adapter failed.
        """
        name = resource_name(uri)
        if name == CONVENTIONS:
            return to_jsonable(conventions(self.adapter))
        if name == CONTEXT:
            report = await self.context()
            return to_jsonable({**dataclasses.asdict(report.context), "missing": report.missing})
        self._check_read_declared()
        return to_jsonable(await self._ask(name))

    async def discover(self) -> RobotIdentity:
        """Which robot this is; also of an adapter that declares no reading.

        Raises:
            RCPError: not connected, or the adapter failed.
        """
        found = await self._ask("identity")
        if not isinstance(found, RobotIdentity):
            raise AdapterError(f"discover answered with {type(found).__name__}, not RobotIdentity")
        self._identity = found
        return found

    async def context(self) -> ContextReport:
        """Everything at once, whatever of it can be read (R13); without a connection nothing, and why.

        Raises:
            NotSupportedError: reading is not declared.
        """
        self._check_read_declared()
        try:
            self._check_connected()
        except AdapterDisconnectedError as error:
            return ContextReport(RobotContext(), dict.fromkeys(SOURCES, error.message))
        return await collect_context(self.adapter, timeout_s=self._timeouts.source_s, clock=self._clock)

    def events(self, channels: Iterable[str]) -> EventStream | None:
        """As :func:`~robot_mcp_kit.rcp.events.event_stream`."""
        return event_stream(self.adapter, channels, wall=self.wall)

    # -- for the guarded half -------------------------------------------------------------------------------

    async def _ask(self, name: str) -> Any:
        """One source, as the adapter gives it."""
        self._check_connected()
        try:
            return await bounded(SOURCES[name](self.adapter), self._timeouts.source_s, self._clock)
        except Exception as error:
            raise failed(error) from error

    async def _who(self) -> RobotIdentity:
        return self._identity if self._identity is not None else await self.discover()

    def _check_connected(self) -> None:
        if not self.adapter.is_connected():
            raise AdapterDisconnectedError("the adapter is not connected to its controller; connect first")

    def _check_read_declared(self) -> None:
        if not self.adapter.capabilities().read:
            raise NotSupportedError(
                f"{type(self.adapter).__name__} does not declare the capability 'read'",
                data={"capability": "read"},
            )


def _secrets_in(config: Mapping[str, Any]) -> list[str]:
    """Values under keys that the audit trail would not write down."""
    told = scrub({key: value for key, value in config.items() if isinstance(value, str)})
    return [config[key] for key, value in told.items() if value != config[key]]
