"""The guard's pen: what it writes into the audit trail, and that a trail that fails refuses."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from robot_mcp_kit.safety import refusals
from robot_mcp_kit.safety.audit import AuditError, Trail
from robot_mcp_kit.safety.clearance import Clearance
from robot_mcp_kit.safety.refusals import SafetyRefused

logger = logging.getLogger(__name__)


class Recording:
    """Lives on one event loop.

    Args:
        trail: the audit trail.
    """

    def __init__(self, trail: Trail) -> None:
        self.trail = trail
        self._syncs: set[asyncio.Task[None]] = set()

    def note(self, event: str, **data: Any) -> None:
        """Write what no motion depends on; a trail that fails is logged and refuses the next one."""
        try:
            self.trail.append(event, **data)
        except AuditError as error:
            logger.critical("not written down: %s %s: %s", event, data, error)
            return
        self._sync_soon()

    def _write(self, clearance: Clearance, event: str, **data: Any) -> None:
        if clearance.is_safe:  # R17
            return
        try:
            self.trail.append(event, request=clearance.request_id, task_id=clearance.task_id, **data)
        except AuditError as error:
            raise SafetyRefused(refusals.AUDIT, f"{error}.") from error

    async def _sync(self) -> None:
        try:
            await self.trail.sync_soon()
        except AuditError as error:
            raise SafetyRefused(refusals.AUDIT, f"{error}.") from error

    def _sync_soon(self) -> None:
        try:
            task = asyncio.get_running_loop().create_task(self.trail.sync_soon(), name="audit sync")
        except RuntimeError:
            return  # no loop: the next sync takes it along
        self._syncs.add(task)
        task.add_done_callback(self._synced)

    def _synced(self, task: asyncio.Task[None]) -> None:
        self._syncs.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.critical("the audit trail was not synced: %s", task.exception())

    async def _synced_all(self) -> None:
        await asyncio.gather(*self._syncs, return_exceptions=True)
