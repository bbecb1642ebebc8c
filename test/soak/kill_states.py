"""The kills that are aimed: the bridge in each state of a goal, the action servers, the chat app."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

from kill_matrix import Motion, Tally, check_at_the_end, check_events, settle, start
from motions import order
from rig import Bridge, Rig, ended, session, task

from robot_mcp_kit.client.session import RobotSession


async def each_state(rig: Rig) -> Tally:
    """Four kills that meet goals in eight states; what each must come to is in the table below."""
    tally = Tally()
    aims: list[Callable[[Rig, Bridge, Tally], Awaitable[list[Motion]]]] = [
        _written_down,
        _on_the_way,
        _behind_its_back,
        _not_posted,
    ]
    bridge = await asyncio.to_thread(rig.start_bridge)
    for aim in aims:
        motions = await aim(rig, bridge, tally)
        if rig.server is None:
            await asyncio.to_thread(rig.start_server)
        bridge = await asyncio.to_thread(rig.start_bridge)
        tally.ready_s.append(bridge.ready_s)
        rig.receiver.answer_always(None)
        await settle(rig, bridge, motions, tally)
        tally.runs += 1
        print(f"{aim.__name__.strip('_')}: {tally.summary()}", flush=True)
    await check_at_the_end(rig, tally)
    expect(tally, dict(tally.ends), {"failed ROS_BRIDGE_RESTARTED": 1, "cancelled": 1, "succeeded": 6})
    expect(tally, dict(tally.states), {"not sent": 1, "sending": 1, "executing": 3, "cancelling": 1})
    if await asyncio.to_thread(bridge.end) != 0:
        tally.fault("misreported", "the bridge did not end well")
    return tally


def expect(tally: Tally, found: object, wanted: object) -> None:
    if found != wanted:
        tally.fault("misreported", f"expected {wanted}, got {found}")


async def _written_down(rig: Rig, bridge: Bridge, tally: Tally) -> list[Motion]:
    """The goal is in the ledger and waits for its server: it must never leave (B2)."""
    motion = Motion(1, "motion0", order(1, duration_s=0.5))
    async with session(bridge) as robot:
        await start(robot, motion, tally)
        await asyncio.to_thread(bridge.wait_for_line, "-> waiting_for_server")
    await asyncio.to_thread(bridge.kill)
    return [motion]


async def _on_the_way(rig: Rig, bridge: Bridge, tally: Tally) -> list[Motion]:
    """Sent and not accepted; accepted, and over when the bridge is back; executing still; cancelling."""
    sent = Motion(10, "motion0", order(10, accept_s=2.0, duration_s=0.5))
    short = Motion(11, "motion1", order(11, duration_s=1.0))
    long = Motion(12, "motion2", order(12, duration_s=9.5))
    stopped = Motion(13, "motion3", order(13, duration_s=9.5, slow_cancel=True), cancel_called=True)

    async def work(robot: RobotSession) -> Calls:
        for motion in (long, stopped, short, sent):
            await start(robot, motion, tally)
        for motion, step in ((long, "executing"), (stopped, "executing"), (sent, "sending")):
            await asyncio.to_thread(bridge.wait_for_line, f"{motion.task_id}: ", f"-> {step}")
        cancelling = asyncio.create_task(robot.call("cancel_task", task_id=stopped.task_id))
        await asyncio.to_thread(bridge.wait_for_line, "/motion3 answered the cancel")
        return [cancelling]

    await _kill_while(bridge, work)
    return [sent, short, long, stopped]


async def _behind_its_back(rig: Rig, bridge: Bridge, tally: Tally) -> list[Motion]:
    """A goal ends and a call comes in while the bridge is deaf: unread, and before the ledger."""
    unread = Motion(20, "motion0", order(20, duration_s=0.5))
    early = Motion(21, "motion1", order(21, duration_s=0.5))

    async def work(robot: RobotSession) -> Calls:
        await start(robot, unread, tally)
        await asyncio.to_thread(bridge.wait_for_line, f"{unread.task_id}: ", "-> executing")
        bridge.freeze()
        calling = asyncio.create_task(start(robot, early, tally))
        await rig.until(lambda: rig.endings(20))
        return [calling]

    await _kill_while(bridge, work)
    return [unread, early]


async def _not_posted(rig: Rig, bridge: Bridge, tally: Tally) -> list[Motion]:
    """The task is over, the chat app refuses its events: the same events arrive after the restart (B25)."""
    rig.receiver.answer_always(503)
    motion = Motion(30, "motion0", order(30, duration_s=0.2))
    async with session(bridge) as robot:
        await start(robot, motion, tally)
        info = await ended(robot, str(motion.task_id))
    if info.get("state") != "succeeded":
        tally.fault("tasks_stuck", f"motion 30: {info}")
    await asyncio.to_thread(bridge.kill)
    if rig.receiver.events_of(str(motion.task_id)):
        tally.fault("misreported", "motion 30: the events were taken although they were refused")
    return [motion]


Calls = list[asyncio.Task[Any]]


async def _kill_while(bridge: Bridge, work: Callable[[RobotSession], Awaitable[Calls]]) -> None:
    """Kill the bridge when the client has done its work, which may leave calls without an answer.

    The client is a task of its own: what the bridge's death does to its connection stays there.
    """
    ready = asyncio.Event()
    calls: Calls = []

    async def connected() -> None:
        async with session(bridge) as robot:
            calls.extend(await work(robot))
            ready.set()
            await asyncio.Event().wait()

    working, waiting = asyncio.create_task(connected()), asyncio.create_task(ready.wait())
    await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if working.done():
        working.result()
    await asyncio.to_thread(bridge.kill)
    working.cancel()
    await asyncio.gather(working, *calls, return_exceptions=True)


async def each_server_kill(rig: Rig) -> Tally:
    """The action servers die mid-goal and come back: told, within bounds, and nothing is sent again (B26)."""
    tally = Tally()
    server = await asyncio.to_thread(rig.start_server)
    bridge = await asyncio.to_thread(rig.start_bridge)
    number = 1
    for how in (signal.SIGINT, signal.SIGKILL):
        executing = Motion(number, "motion0", order(number, duration_s=9.9))
        sent = Motion(number + 1, "motion1", order(number + 1, accept_s=9.9))
        number += 2
        async with session(bridge) as robot:
            for motion in (executing, sent):
                await start(robot, motion, tally)
            await rig.until(lambda first=executing.number: rig.executions(first))
            await asyncio.to_thread(bridge.wait_for_line, f"{sent.task_id}: ", "-> sending")
            server.process.send_signal(how)
            killed_s = time.monotonic()
            infos = [await ended(robot, str(motion.task_id)) for motion in (executing, sent)]
            print(f"{how.name}: told {time.monotonic() - killed_s:.1f} s after it", flush=True)
        await asyncio.to_thread(server.kill if how is signal.SIGKILL else server.close)
        server = await asyncio.to_thread(rig.start_server)
        for motion, info in zip((executing, sent), infos, strict=True):
            tally.motions += 1
            code = (info.get("failure") or {}).get("error_code")
            tally.ends[f"{info.get('state')} {code}"] += 1
            if info.get("state") == "running" or not info:
                tally.fault("tasks_stuck", f"motion {motion.number}: {info}")
            elif code not in ("ROS_SERVER_LOST", "ROS_GOAL_RESPONSE_TIMEOUT"):
                tally.fault("misreported", f"motion {motion.number}: {info}")
            await check_events(rig, motion, str(info.get("state")), tally)
        tally.runs += 1
        # It works again, with the servers that are there now.
        again = Motion(number, "motion0", order(number, duration_s=0.2))
        number += 1
        async with session(bridge) as robot:
            await start(robot, again, tally)
            info = await ended(robot, str(again.task_id))
        expect(tally, info.get("state"), "succeeded")
        if rig.executions(executing.number) != 1:
            tally.fault("motions_doubled", f"motion {executing.number} after the servers came back")
    await check_at_the_end(rig, tally)
    expect(tally, await asyncio.to_thread(bridge.end), 0)
    return tally


async def each_receiver_kill(rig: Rig) -> Tally:
    """The chat app dies and comes back, and the bridge is killed meanwhile: every event once, in order."""
    tally = Tally()
    await asyncio.to_thread(rig.start_server)
    bridge = await asyncio.to_thread(rig.start_bridge)
    for number in range(1, 6):
        motion = Motion(number, "motion0", order(number, duration_s=1.0))
        async with session(bridge) as robot:
            await start(robot, motion, tally)
            await rig.until(lambda n=number: rig.executions(n))
            rig.receiver.stop()
            info = await ended(robot, str(motion.task_id))
        expect(tally, info.get("state"), "succeeded")
        if number % 2:
            await asyncio.to_thread(bridge.kill)
            bridge = await asyncio.to_thread(rig.start_bridge)
        rig.receiver.start()
        tally.runs += 1
        tally.motions += 1
        tally.ends[str(info.get("state"))] += 1
        await check_events(rig, motion, "succeeded", tally)
        async with session(bridge) as robot:
            known = await task(robot, str(motion.task_id))
        expect(tally, known.get("state"), "succeeded")
    expect(tally, await asyncio.to_thread(bridge.end), 0)
    return tally
