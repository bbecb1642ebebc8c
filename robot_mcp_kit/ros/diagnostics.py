"""``/diagnostics``: what an operator looks at first when the chat app hears nothing (B36)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from robot_mcp_kit.events import EventPoster
from robot_mcp_kit.ros.action_port import RosActionPorts
from robot_mcp_kit.ros.thread import RosThread

logger = logging.getLogger(__name__)

_PERIOD_S = 1.0
_SKEW_WARNING_S = 60.0
_AGE_WARNING_S = 30.0


class Diagnostics:
    """Publishes three statuses a second: the executor, the action servers, the delivery of events."""

    def __init__(
        self,
        node: Any,
        ros: RosThread,
        ports: RosActionPorts,
        poster: EventPoster,
        running_tasks: Callable[[], int],
    ) -> None:
        self._node = node
        self._ros = ros
        self._ports = ports
        self._poster = poster
        self._running_tasks = running_tasks

    async def open(self) -> None:
        def create() -> None:
            self._publisher = self._node.create_publisher(DiagnosticArray, "/diagnostics", 10)
            self._timer = self._node.create_timer(_PERIOD_S, self._ros.guarded(self._publish))

        await self._ros.call(create)

    def close(self) -> None:
        """Publish nothing more. On the rclpy thread."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_publisher(self._publisher)

    def _publish(self) -> None:
        array = DiagnosticArray(status=[self._executor(), self._servers(), self._delivery()])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)

    def _executor(self) -> Any:
        faults = self._ros.callback_faults
        return self._status(
            "executor",
            DiagnosticStatus.WARN if faults else DiagnosticStatus.OK,
            f"{faults} callbacks failed" if faults else "spinning",
            kind=self._ros.executor_kind,
            callback_faults=faults,
            running_tasks=self._running_tasks(),
        )

    def _servers(self) -> Any:
        ready = self._ports.readiness()
        missing = sorted(name for name, is_ready in ready.items() if not is_ready)
        return self._status(
            "action servers",
            DiagnosticStatus.WARN if missing else DiagnosticStatus.OK,
            f"not there: {', '.join(missing)}" if missing else f"all {len(ready)} ready",
            **{name: "ready" if is_ready else "missing" for name, is_ready in ready.items()},
        )

    def _delivery(self) -> Any:
        counts = self._poster.statistics()
        level, words = DiagnosticStatus.OK, "delivering"
        if counts.oldest_age_s is not None and counts.oldest_age_s > _AGE_WARNING_S:
            level, words = DiagnosticStatus.WARN, f"the oldest event waits for {counts.oldest_age_s:.0f} s"
        if counts.clock_skew_s is not None and abs(counts.clock_skew_s) > _SKEW_WARNING_S:
            level, words = DiagnosticStatus.WARN, f"clocks differ by {counts.clock_skew_s:.0f} s"
        if counts.dropped:
            level, words = DiagnosticStatus.ERROR, f"{counts.dropped} events were dropped"
        return self._status(
            "event delivery",
            level,
            words,
            queued=counts.queued,
            in_flight=counts.in_flight,
            delivered=counts.delivered,
            retried=counts.retried,
            dropped=counts.dropped,
            last_error=counts.last_error or "",
            clock_skew_s="" if counts.clock_skew_s is None else f"{counts.clock_skew_s:.1f}",
        )

    def _status(self, part: str, level: Any, message: str, **values: object) -> Any:
        return DiagnosticStatus(
            level=level,
            name=f"{self._node.get_fully_qualified_name()}: {part}",
            message=message,
            hardware_id="robot_mcp_kit",
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
