"""The action port over real rclpy: goals by our own UUID on the action's own services and topics."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from robot_mcp_kit.errors import GoalFieldError
from robot_mcp_kit.ros.thread import RosGoneError
from robot_mcp_kit.skills.base import GoalStatus

pytestmark = pytest.mark.ros
TYPE = "test_msgs/action/Fibonacci"
BOUND_S = 30.0
LEASE = Path(__file__).parents[2] / "config" / "fastdds_lease.xml"
PROFILES_FILE = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
"""The variable's name from Kilted on, and on Jazzy."""
LEASE_BOUND_S = 12.0  # between its 3 s and the 20 s of before


async def _ready_port(ros_side: Any, name: str) -> Any:
    port = await ros_side.ports.create(name, TYPE)
    assert await port.wait_for_server(BOUND_S)
    return port


@pytest.fixture
async def port(ros_side: Any, scripted_server: Any) -> Any:
    return await _ready_port(ros_side, "/test_action_port")


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not condition():
            await asyncio.sleep(0.005)


class Seen:
    def __init__(self, port: Any, goal_id: UUID) -> None:
        self.feedback: list[int] = []
        self.statuses: list[int] = []
        self.others = 0
        self.threads: set[int] = set()
        self.watch = port.watch(
            goal_id,
            on_feedback=self._feedback,
            on_status=self.statuses.append,
            on_other_goal_executing=self._other,
        )

    def _feedback(self, message: Any) -> None:
        self.threads.add(threading.get_ident())
        self.feedback.append(message.sequence[0])

    def _other(self) -> None:
        self.others += 1


async def test_a_goal_runs_under_the_uuid_we_chose(port: Any, scripted_server: Any) -> None:
    """B3: our UUID on the server; feedback and status of that goal reach the loop's own thread in order."""
    goal_id = uuid4()
    seen = Seen(port, goal_id)
    assert (await port.send_goal(goal_id, {"order": 3})).accepted
    arrived = await scripted_server.wait("goal", goal=goal_id.hex)
    assert arrived["order"] == 3
    scripted_server.tell(do="feedback", goal=goal_id.hex, count=20)
    await _until(lambda: len(seen.feedback) == 20)
    scripted_server.tell(do="finish", goal=goal_id.hex, **{"as": "succeed", "sequence": [1, 2]})
    result = await port.get_result(goal_id)
    assert (result.status, list(result.result.sequence)) == (GoalStatus.SUCCEEDED, [1, 2])
    assert seen.feedback == list(range(20))
    assert seen.threads == {threading.get_ident()}
    await _until(lambda: seen.statuses[-1:] == [GoalStatus.SUCCEEDED])


async def test_feedback_of_another_goal_is_not_ours(port: Any, scripted_server: Any) -> None:
    ours, other = uuid4(), uuid4()
    seen = Seen(port, ours)
    await port.send_goal(ours, {"order": 1})
    await port.send_goal(other, {"order": 1})
    for goal_id in (ours, other):
        await scripted_server.wait("goal", goal=goal_id.hex)
    scripted_server.tell(do="feedback", goal=other.hex, count=5)
    scripted_server.tell(do="finish", goal=other.hex, **{"as": "succeed"})
    await port.get_result(other)
    scripted_server.tell(do="feedback", goal=ours.hex, count=1)
    await _until(lambda: seen.feedback)
    assert seen.feedback == [0]
    assert seen.others >= 1, "another goal began to execute on the same server"
    scripted_server.tell(do="finish", goal=ours.hex, **{"as": "succeed"})
    await port.get_result(ours)


async def test_a_closed_watch_hears_nothing_more(port: Any, scripted_server: Any) -> None:
    goal_id = uuid4()
    seen, still = Seen(port, goal_id), Seen(port, goal_id)
    await port.send_goal(goal_id, {"order": 1})
    seen.watch.close()
    seen.watch.close()
    scripted_server.tell(do="feedback", goal=goal_id.hex, count=3)
    await _until(lambda: len(still.feedback) == 3)
    assert seen.feedback == []
    scripted_server.tell(do="finish", goal=goal_id.hex, **{"as": "abort"})
    assert (await port.get_result(goal_id)).status == GoalStatus.ABORTED


async def test_a_refused_goal_is_not_accepted(
    port: Any, scripted_server: Any, start_server: Any, ros_side: Any
) -> None:
    server = start_server("/refusing")
    server.tell(do="accept", value=False)
    await server.wait("told", do="accept")
    refusing = await _ready_port(ros_side, "/refusing")
    answers = [(await refusing.send_goal(uuid4(), {"order": 1})).accepted for _ in range(3)]
    assert answers[-1] is False


async def test_cancel_answers_tell_accepted_refused_unknown_and_terminated_apart(
    port: Any, scripted_server: Any
) -> None:
    """B23: an rclpy server refuses with code 0 and an empty list, so the list decides."""
    goal_id = uuid4()
    await port.send_goal(goal_id, {"order": 1})
    await scripted_server.wait("goal", goal=goal_id.hex)
    scripted_server.tell(do="cancel_answer", value=False)
    await scripted_server.wait("told", do="cancel_answer", value=False)
    refused = await port.cancel_goal(goal_id)
    assert not refused.canceling
    assert refused.code in (0, 1)
    scripted_server.tell(do="cancel_answer", value=True)
    await scripted_server.wait("told", do="cancel_answer", value=True)
    accepted = await port.cancel_goal(goal_id)
    assert accepted.canceling
    assert accepted.code == 0
    scripted_server.tell(do="finish", goal=goal_id.hex, **{"as": "canceled"})
    assert (await port.get_result(goal_id)).status == GoalStatus.CANCELED
    assert (await port.cancel_goal(goal_id)).code == 3
    assert (await port.cancel_goal(uuid4())).code == 2


async def test_an_unknown_goal_has_result_status_zero(port: Any) -> None:
    assert (await port.get_result(uuid4())).status == GoalStatus.UNKNOWN


async def test_two_servers_of_one_name_are_counted(ros_side: Any, start_server: Any) -> None:
    """B5, E43."""
    start_server("/twice")
    start_server("/twice")
    port = await _ready_port(ros_side, "/twice")
    await _until(lambda: list(port.servers().values()) == ["/scripted_server"] * 2)


async def test_a_server_that_left_the_graph_is_no_longer_ready(ros_side: Any, start_server: Any) -> None:
    server = start_server("/ending")
    port = await _ready_port(ros_side, "/ending")
    server.process.send_signal(2)
    await _until(lambda: not port.server_ready())


@pytest.mark.skipif(
    os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp") != "rmw_fastrtps_cpp",
    reason="the lease is a file for Fast DDS",
)
async def test_a_killed_server_is_out_of_sight_within_the_lease_of_its_profile(
    ros_side: Any, start_server: Any
) -> None:
    """B26: it says no goodbye. Without the profile that takes Fast DDS 20 s."""
    server = start_server("/killed", env=dict.fromkeys(PROFILES_FILE, str(LEASE)))
    port = await _ready_port(ros_side, "/killed")
    server.kill()
    async with asyncio.timeout(LEASE_BOUND_S):
        await _until(lambda: not port.server_ready())


async def test_wrong_goal_fields_are_named_before_anything_is_sent(port: Any, scripted_server: Any) -> None:
    """B7."""
    with pytest.raises(GoalFieldError, match=r"ordr: .*did you mean 'order'"):
        port.check_goal({"ordr": 1})
    goals = [e for e in scripted_server.events if e["event"] == "goal"]
    with pytest.raises(GoalFieldError, match=r"order: must be a number"):
        await port.send_goal(uuid4(), {"order": "three"})
    assert [e for e in scripted_server.events if e["event"] == "goal"] == goals


async def test_answers_nobody_waits_for_are_forgotten(port: Any, scripted_server: Any) -> None:
    """A server that dies never answers: what waited for it must not pile up in the client."""
    goal_id = uuid4()
    await port.send_goal(goal_id, {"order": 1})
    waiting = asyncio.ensure_future(port.get_result(goal_id))
    await _until(lambda: port._result.client._pending_requests)
    waiting.cancel()
    await _until(lambda: not port._result.client._pending_requests)
    scripted_server.tell(do="finish", goal=goal_id.hex, **{"as": "succeed"})


async def test_a_hundred_quick_goals_at_once_are_all_answered(port: Any) -> None:
    """B30: none lost, none stuck; threads and file descriptors stay flat."""

    async def one() -> int:
        goal_id = uuid4()
        assert (await port.send_goal(goal_id, {"order": 0})).accepted
        return int((await port.get_result(goal_id)).status)

    await one()
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    async with asyncio.timeout(60):
        for _ in range(4):
            assert set(await asyncio.gather(*(one() for _ in range(25)))) == {GoalStatus.SUCCEEDED}
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) <= files + 2


async def test_a_failing_callback_does_not_end_the_executor(
    ros_side: Any, port: Any, scripted_server: Any
) -> None:
    """E47: a callback that raises is logged and counted; the next message arrives."""

    def boom() -> None:
        raise KeyError("odd message")

    ros_side.thread.post(boom)
    await _until(lambda: ros_side.thread.callback_faults == 1)
    assert (await port.get_result(uuid4())).status == GoalStatus.UNKNOWN
    assert ros_side.thread.alive


async def test_a_dead_executor_is_told(ros_side: Any) -> None:
    """The context is torn down under the thread: the owner hears of it once."""
    ros_side.context.try_shutdown()
    await _until(lambda: ros_side.deaths)
    assert len(ros_side.deaths) == 1
    assert not ros_side.thread.alive


async def test_what_was_asked_of_a_dead_executor_is_given_up(ros_side: Any) -> None:
    """Whoever waits for it would wait for ever: the node could not end."""

    class Deaf:
        """Takes what it is given to do, and never comes to it."""

        def create_task(self, _function: Any) -> None:
            return

        def __getattr__(self, name: str) -> Any:
            return getattr(executor, name)

    executor, ros_side.thread._executor = ros_side.thread._executor, Deaf()
    waiting = asyncio.ensure_future(ros_side.thread.call(lambda: "never"))
    await asyncio.sleep(0)
    ros_side.context.try_shutdown()
    async with asyncio.timeout(30):
        with pytest.raises(RosGoneError):
            await waiting
        await _until(lambda: ros_side.deaths)
        with pytest.raises(RosGoneError):
            await ros_side.thread.call(lambda: "too late")
    ros_side.thread._executor = executor


async def test_goals_that_are_never_answered_hold_back_later_ones_for_a_moment_only(ros_side: Any) -> None:
    """B26: the server that they were sent to may be gone, and another one there."""
    port = await ros_side.ports.create("/nobody", TYPE)
    lost = [asyncio.ensure_future(port.send_goal(uuid4(), {"order": 1})) for _ in range(4)]
    await asyncio.sleep(0)
    asking = asyncio.ensure_future(port.reserve())
    await asyncio.sleep(0)
    assert not asking.done()
    async with asyncio.timeout(30):
        await asking
    port.give_back()
    for one in lost:
        one.cancel()
    await asyncio.gather(*lost, return_exceptions=True)


async def test_goals_that_cannot_be_sent_do_not_block_those_after_them(
    port: Any, ros_side: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B26: nothing has left, so nothing is waited for."""

    def gone(*_: Any, **__: Any) -> Any:
        raise RosGoneError("no executor")

    for fields, error, patch in (
        ({"order": "three"}, GoalFieldError, False),
        ({"order": 0}, RosGoneError, True),
    ):
        for _ in range(5):
            async with asyncio.timeout(BOUND_S):
                await port.reserve()
            with monkeypatch.context() as broken:
                if patch:
                    broken.setattr(ros_side.thread, "request", gone)
                with pytest.raises(error):
                    await port.send_goal(uuid4(), fields)
        assert port.has_place()
    # And none was given back that nobody had.
    for _ in range(4):
        await port.reserve()
    assert not port.has_place()
    for _ in range(4):
        port.give_back()
    assert (await port.send_goal(uuid4(), {"order": 0})).accepted


async def test_an_action_type_that_is_not_installed_names_the_package(ros_side: Any) -> None:
    with pytest.raises(LookupError, match="'no_such_msgs' of 'no_such_msgs/action/Fly' is not installed"):
        await ros_side.ports.create("/fly", "no_such_msgs/action/Fly")


async def test_a_result_request_that_was_lost_is_asked_again_once_the_goal_ended(ros_side: Any) -> None:
    """The first request goes out while no server listens; the goal's status says that it is over."""
    from action_msgs.msg import GoalInfo, GoalStatusArray
    from action_msgs.msg import GoalStatus as StatusMsg
    from rclpy.qos import qos_profile_action_status_default
    from test_msgs.action import Fibonacci
    from unique_identifier_msgs.msg import UUID as UuidMsg

    port = await ros_side.ports.create("/forgetful", TYPE)
    goal_id = uuid4()
    waiting = asyncio.ensure_future(port.get_result(goal_id))
    await _until(lambda: port._result.client._pending_requests)

    def answer(_request: Any, response: Any) -> Any:
        response.status = GoalStatus.SUCCEEDED
        response.result.sequence = [7]
        return response

    def offer() -> None:
        node = ros_side.node
        node.create_service(Fibonacci.Impl.GetResultService, "/forgetful/_action/get_result", answer)
        publisher = node.create_publisher(
            GoalStatusArray, "/forgetful/_action/status", qos_profile_action_status_default
        )
        info = GoalInfo(goal_id=UuidMsg(uuid=list(goal_id.bytes)))
        publisher.publish(
            GoalStatusArray(status_list=[StatusMsg(goal_info=info, status=GoalStatus.SUCCEEDED)])
        )

    await ros_side.thread.call(offer)
    async with asyncio.timeout(BOUND_S):
        result = await waiting
    assert (result.status, list(result.result.sequence)) == (GoalStatus.SUCCEEDED, [7])
    assert not port._terminal


async def test_a_cancel_publishes_what_the_server_really_stops_by(ros_side: Any, start_server: Any) -> None:
    """Semantics 1.4: MoveIt's ExecuteTrajectory answers a cancel but stops only on a topic."""
    from std_msgs.msg import String

    from robot_mcp_kit.skills.base import StopTopic

    start_server("/deaf")
    heard: list[str] = []
    await ros_side.thread.call(
        lambda: ros_side.node.create_subscription(String, "/halt", lambda m: heard.append(m.data), 10)
    )
    stop = StopTopic("/halt", "std_msgs/msg/String", {"data": "stop"})
    port = await ros_side.ports.create("/deaf", TYPE, stop)
    assert await port.wait_for_server(BOUND_S)
    await _until(port._stop[0].get_subscription_count)
    await port.cancel_goal(uuid4())
    await _until(lambda: heard == ["stop"])
