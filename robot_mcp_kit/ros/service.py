"""Calls of one service, paced so that none is lost.

A ROS 2 service keeps the last ten requests (its default depth). A burst that arrives faster than the server
takes them silently drops the rest: of 25 goals sent at once to an rclpy server 14 were never seen
(``test_action_port``). So at most a few requests of ours are unanswered at a time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from rclpy.qos import QoSProfile

from robot_mcp_kit.ros.thread import RosThread

_WINDOW = 4  # others may use the same server: stay well below its ten
_URGENT_WINDOW = 8  # for those a stop is made of: twenty at a slow server are out after two waits of 20 ms
_CLIENT_DEPTH = 1000  # answers may come in bursts too


class PacedService:
    """A client that holds back what the server could lose. Build it on the rclpy thread.

    Args:
        hold_s: when an unanswered request stops counting, for services whose answer may take long by design
            (``get_result`` answers at the end of the motion); ``None``: only its answer, or the caller giving
            up, frees the place.
        urgent: requests go ahead of what the rclpy thread has to do; see :meth:`RosThread.request`.
    """

    def __init__(
        self,
        ros: RosThread,
        node: Any,
        service_type: Any,
        name: str,
        *,
        hold_s: float | None = None,
        urgent: bool = False,
    ) -> None:
        self._ros = ros
        self._urgent = urgent
        self._hold_s = hold_s
        self._places = asyncio.Semaphore(_URGENT_WINDOW if urgent else _WINDOW)
        self._reserved = 0
        self.client = node.create_client(service_type, name, qos_profile=QoSProfile(depth=_CLIENT_DEPTH))

    def ready(self) -> bool:
        return bool(self.client.service_is_ready())

    def has_place(self) -> bool:
        """Whether :meth:`reserve` would not have to wait."""
        return not self._places.locked()

    async def reserve(self) -> None:
        """Wait for a place and keep it for the next :meth:`send`, which then waits for nothing."""
        await self._places.acquire()
        self._reserved += 1

    def give_back(self) -> None:
        """Free a reserved place that nothing is sent with; nothing happens when none is reserved."""
        if self._reserved:
            self._reserved -= 1
            self._places.release()

    async def send(self, request: Any) -> asyncio.Future[Any]:
        """Wait for a place (not at all when one is free or reserved), queue the request, return its answer's
        future.
        """
        if self._reserved:
            self._reserved -= 1
        else:
            await self._places.acquire()
        try:
            answer = self._ros.request(self.client, request, urgent=self._urgent)
        except BaseException:
            self._places.release()
            raise
        freed = False

        def free(_: object = None) -> None:
            nonlocal freed
            if not freed:
                freed = True
                self._places.release()

        answer.add_done_callback(free)
        if self._hold_s is not None:
            timer = asyncio.get_running_loop().call_later(self._hold_s, free)
            answer.add_done_callback(lambda _: timer.cancel())
        return answer

    async def call(self, request: Any) -> Any:
        """Send and wait for the answer. May wait for ever: servers die without answering."""
        return await (await self.send(request))

    async def call_again(self, request: Any, repeat_after_s: float) -> Any:
        """Like :meth:`call` for a request that may be repeated without harm; asks again while unanswered."""
        answers: set[asyncio.Future[Any]] = set()
        try:
            while True:
                answers.add(await self.send(request))
                done, _ = await asyncio.wait(
                    answers, timeout=repeat_after_s, return_when=asyncio.FIRST_COMPLETED
                )
                if done:
                    return done.pop().result()
                repeat_after_s *= 2
        finally:
            for answer in answers:
                answer.cancel()
