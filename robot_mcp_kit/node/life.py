"""The node's lifecycle: which session there is, and what each transition does with it (B38).

``configure`` reads parameters and the skills file and opens the endpoint; ``activate`` lets skills start;
``deactivate`` refuses new ones and stops every motion; ``cleanup`` closes the endpoint. Transitions run on
the rclpy thread and never wait for the loop, which in turn waits for that thread.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.node.prepared import prepare
from robot_mcp_kit.node.session import Session
from robot_mcp_kit.node.settings import PARAMETERS, settings_from
from robot_mcp_kit.ros.lifecycle import Transitions
from robot_mcp_kit.ros.parameters import hold_parameters, parameter_values
from robot_mcp_kit.ros.side import RosSide
from robot_mcp_kit.ros.thread import RosGoneError

logger = logging.getLogger(__name__)

STOPPING = "stop requested for everything this bridge runs"
STOPPING_SOON = (
    "the bridge is starting and does not follow its goals of before yet: stop remembered, they are cancelled "
    "as soon as it does"
)
CLOSING = "the bridge is closing, which cancels everything it runs"
FOLLOWS_NOTHING = (
    "nothing was stopped: the bridge is not configured and follows no goal. Stop remembered: goals that an "
    "earlier bridge left running are cancelled as soon as it is configured. If the robot moves, configure "
    "the bridge now, or use the robot's own emergency stop"
)
"""What the stop service answers; the last one without success."""


class NotNowError(RuntimeError):
    """The transition is right but its time has not come."""


class Life:
    """Owns the session. Build it on the loop, with the rclpy thread spinning.

    Args:
        ros: the ROS side.
        on_end: told on the loop that the node should end: ``None`` when asked to, else why.
    """

    def __init__(self, ros: RosSide, *, on_end: Callable[[BaseException | None], None]) -> None:
        self._ros = ros
        self._on_end = on_end
        self.session: Session | None = None
        self._active_from_the_start = False
        self._stop_asked: str | None = None
        """A stop that was asked for while there was no session; for the goals that the next one adopts."""
        self._closed: asyncio.Event = asyncio.Event()
        self._closed.set()
        self._closers: set[asyncio.Task[None]] = set()
        self._transitions = Transitions(
            configure=self._configure,
            activate=self._activate,
            deactivate=self._deactivate,
            cleanup=self._cleanup,
            shutdown=self._shutdown,
            reasons=(ConfigError, LookupError, NotNowError),
        )
        ros.node.add_managed_entity(self._transitions)
        hold_parameters(ros.node, PARAMETERS, lambda: self.session is not None)

    # -- from the loop --------------------------------------------------------------------------------------

    async def bring_up(self) -> None:
        """Configure and activate, as a launch file would. An error that nobody expects ends the node.

        Raises:
            ConfigError, LookupError: why it cannot be configured.
        """
        # A client that comes back the moment the endpoint opens must not hear that nobody has activated it.
        self._active_from_the_start = True
        node = self._ros.node
        for step, states in (
            (node.trigger_configure, ("inactive", "active")),
            (node.trigger_activate, ("active",)),
        ):
            failure, state = await self._ros.thread.call(functools.partial(self._take, step))
            if state == "finalized" and failure is None:
                return  # somebody has shut it down meanwhile
            if failure is None and state not in states:
                failure = RuntimeError(f"the node came up to the state '{state}' and no further")
            if failure is not None:
                if isinstance(failure, (ConfigError, LookupError)) and self._transitions.is_reason(failure):
                    raise failure
                self._on_end(failure)
                return
            if self.session is not None:
                await self.session.opened()

    def _take(self, step: Callable[[], object]) -> tuple[Exception | None, str]:
        """On the rclpy thread, where no other transition comes between."""
        self._transitions.failure = None  # a step that cannot even begin is not the last one's fault
        step()
        return self._transitions.failure, self._transitions.state

    async def take_down(self) -> None:
        """Close the session there is; for the end of the process, whatever the state."""
        session, self.session = self.session, None
        if session is not None:
            await self._close(session)
        await self._closed.wait()

    async def lose_ros(self, error_code: str, message: str) -> None:
        """Fail every running task: ROS is gone."""
        if self.session is not None and self.session.bridge is not None:
            await self.session.bridge.lose_ros(error_code, message)

    async def _close(self, session: Session) -> None:
        self._closed.clear()
        try:
            await session.close()
        finally:
            try:
                await self._ros.thread.call(session.prepared.release)
            except RosGoneError:
                session.prepared.release_files()
            self._closed.set()

    # -- on the rclpy thread --------------------------------------------------------------------------------

    def stop(self, reason: str) -> tuple[bool, str]:
        """Ask for the end of every motion, in whatever state the node is.

        A stop is never forgotten: one that comes before the goals of an earlier process are followed is
        meant for them too.

        Returns:
            whether something is or will be cancelled without anybody's doing, and that in words.
        """
        session = self.session
        if session is None:
            if not self._closed.is_set():
                return True, CLOSING
            logger.warning("stop (%s): nothing is followed yet; remembered", reason)
            self._stop_asked = reason
            return False, FOLLOWS_NOTHING
        follows = session.follows
        self._ros.thread.hand_over(lambda: session.stop(reason))
        return True, STOPPING if follows else STOPPING_SOON

    # -- transitions ----------------------------------------------------------------------------------------

    def _configure(self) -> None:
        if not self._closed.is_set():
            raise NotNowError("the last session is still closing; try again in a moment")
        settings = settings_from(parameter_values(self._ros.node, PARAMETERS))
        active, self._active_from_the_start = self._active_from_the_start, False
        session = Session(self._ros, prepare(self._ros, settings), on_end=self._on_end, active=active)
        self.session = session
        stop_asked, self._stop_asked = self._stop_asked, None
        if stop_asked is not None:
            self._ros.thread.hand_over(lambda: session.stop(stop_asked))
        self._ros.thread.hand_over(session.start)

    def _activate(self) -> None:
        session = self._session()
        self._ros.thread.hand_over(session.activate)

    def _deactivate(self) -> None:
        session = self._session()
        self._ros.thread.hand_over(session.deactivate)

    def _cleanup(self) -> None:
        session = self.session
        if session is None:
            return
        if session.is_moving():
            raise NotNowError("the robot is still stopping; clean up when it stands")
        self.session = None
        self._closed.clear()

        def close() -> None:
            task = asyncio.create_task(self._close(session), name="close session")
            self._closers.add(task)
            task.add_done_callback(self._closers.discard)

        self._ros.thread.hand_over(close)

    def _shutdown(self) -> None:
        self._ros.thread.hand_over(lambda: self._on_end(None))

    def _session(self) -> Session:
        if self.session is None:
            raise NotNowError("the node is not configured")
        return self.session
