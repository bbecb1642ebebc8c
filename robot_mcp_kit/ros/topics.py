"""The bridge's own topics: every event and the list of tasks out, other nodes' observations in (B36).

Needs the interface package ``robot_mcp_kit_msgs``; without it the node works, and says once that it has no
topics.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from builtin_interfaces.msg import Time
from rclpy.qos import DurabilityPolicy, QoSProfile

from robot_mcp_kit.models import TaskEvent, TaskInfo
from robot_mcp_kit.ros.interface_types import load_interface
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.tasks import TaskContext, TaskManager

logger = logging.getLogger(__name__)

_EVENT_DEPTH = 1000
_WATCH_QUEUE = 1000
_LIST_DELAY_S = 0.1
WATCH_TOOL = "watch_events"


class TaskTopics:
    """``~/task_events`` (each event), ``~/tasks`` (latched list), ``~/watch_events`` (subscribed).

    Call :meth:`open` on the loop once the rclpy thread spins.
    """

    def __init__(self, node: Any, ros: RosThread, manager: TaskManager) -> None:
        self._node = node
        self._ros = ros
        self._manager = manager
        self._close: list[Callable[[], None]] = []
        self._list_is_due = False
        self._states: dict[str, str] = {}
        self._ended: dict[str, Any] = {}
        """Messages of tasks that have ended, which hardly ever change again."""
        self._changed: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._watched: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_WATCH_QUEUE)
        self._watcher: str | None = None

    async def open(self) -> bool:
        """Create publishers and the subscription; ``False`` (and one log line) without the messages."""
        try:
            self._event_type = load_interface("robot_mcp_kit_msgs/msg/TaskEvent")
            self._info_type = load_interface("robot_mcp_kit_msgs/msg/TaskInfo")
            self._list_type = load_interface("robot_mcp_kit_msgs/msg/TaskList")
            watch_type = load_interface("robot_mcp_kit_msgs/msg/WatchEvent")
        except LookupError as error:
            logger.warning("no typed topics: %s", error)
            return False
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)

        def create() -> None:
            self._events = self._node.create_publisher(self._event_type, "~/task_events", _EVENT_DEPTH)
            self._tasks = self._node.create_publisher(self._list_type, "~/tasks", latched)
            watch = self._node.create_subscription(
                watch_type, "~/watch_events", self._ros.guarded(self._watch_from_ros), _WATCH_QUEUE
            )
            self._close += [
                lambda: self._node.destroy_subscription(watch),
                lambda: self._node.destroy_publisher(self._events),
                lambda: self._node.destroy_publisher(self._tasks),
            ]

        await self._ros.call(create)
        self._close += [
            self._manager.add_listener(self._event_happened),
            self._manager.add_change_listener(self._task_changed),
        ]
        self._publish_list()
        return True

    def close(self) -> None:
        """Publish and hear nothing more. On the rclpy thread; harmless when repeated."""
        while self._close:
            self._close.pop()()

    # Listeners may be called from any thread, under the manager's lock: they only hand over.

    def _event_happened(self, event: TaskEvent) -> None:
        message = self._event_type(
            schema_version=event.schema_version,
            event_id=event.event_id,
            task_id=event.task_id,
            server=event.server,
            tool=event.tool,
            type=event.type,
            seq=event.seq,
            stamp=_stamp(event.ts),
            payload_json=_json(event.payload),
        )
        self._ros.post(lambda: self._events.publish(message))

    def _task_changed(self, info: TaskInfo) -> None:
        self._changed.add(info.task_id)
        if self._states.get(info.task_id) == info.state:
            return  # progress alone does not change the list's point
        self._states[info.task_id] = info.state
        if not self._list_is_due:
            self._list_is_due = True
            # A moment later: the list is long, and right now the change itself has more urgent work to do.
            self._ros.hand_over(lambda: self._loop.call_later(_LIST_DELAY_S, self._publish_list))

    def _publish_list(self) -> None:
        self._list_is_due = False
        if not self._close:
            return  # closed meanwhile
        messages, states, ended = [], {}, {}
        changed, self._changed = self._changed, set()
        for task_id in self._manager.task_ids():
            message = self._ended.get(task_id)
            if message is None or task_id in changed:
                info = self._manager.get(task_id)
                if info is None:
                    continue
                message = self._info_message(info)
            if message.state != "running":
                ended[task_id] = message
            states[task_id] = message.state
            messages.append(message)
        self._states, self._ended = states, ended
        listed = self._list_type(
            server=self._manager.server_name, stamp=_stamp(datetime.now(UTC)), tasks=messages[::-1]
        )
        self._ros.post(lambda: self._tasks.publish(listed))

    def _info_message(self, info: TaskInfo) -> Any:
        return self._info_type(
            task_id=info.task_id,
            server=info.server,
            tool=info.tool,
            state=info.state,
            created_at=_stamp(info.created_at),
            updated_at=_stamp(info.updated_at),
            triggers_json=_json(info.triggers),
            est_duration_s=-1.0 if info.est_duration_s is None else float(info.est_duration_s),
            progress_json="" if info.progress is None else _json(info.progress),
            result_json="" if info.result is None else _json(info.result),
            failure_json="" if info.failure is None else info.failure.model_dump_json(),
        )

    def _watch_from_ros(self, message: Any) -> None:
        """rclpy thread: what another node saw, to be sent as a signed ``watch_event``."""
        try:
            payload = json.loads(message.payload_json or "{}")
        except (ValueError, RecursionError) as error:
            logger.error(
                "~/watch_events from '%s': payload_json is not usable JSON: %s", message.source, error
            )
            return
        if not isinstance(payload, dict):
            logger.error("~/watch_events from '%s': payload_json must be a JSON object", message.source)
            return
        seen = message.stamp.sec + message.stamp.nanosec * 1e-9
        when = datetime.fromtimestamp(seen, UTC) if seen > 0 else datetime.now(UTC)
        payload = {**payload, "source": message.source, "seen_at": when.isoformat()}
        self._ros.hand_over(lambda: self._watched_on_loop(payload))

    def _watched_on_loop(self, payload: dict[str, Any]) -> None:
        if self._manager.closed:  # the node ends: motions first, these topics later
            logger.debug("an observation on ~/watch_events came while closing; it was dropped")
            return
        try:
            self._watched.put_nowait(payload)
        except asyncio.QueueFull:
            logger.error("more than %d observations wait on ~/watch_events; one was dropped", _WATCH_QUEUE)
            return
        running = None if self._watcher is None else self._manager.get(self._watcher)
        if running is None or running.state != "running":
            # One long-lived task carries what other nodes see; it begins with the first observation.
            self._watcher = self._manager.start(WATCH_TOOL, self._watch).task_id

    async def _watch(self, context: TaskContext) -> dict[str, Any]:
        while True:
            await context.emit(await self._watched.get())


def _stamp(moment: datetime) -> Any:
    seconds = moment.timestamp()
    whole = int(seconds // 1)
    return Time(sec=whole, nanosec=moment.microsecond * 1000)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
