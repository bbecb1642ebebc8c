"""The profiles over real HTTP: their addresses, who may do what, and what ends with a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from pydantic import SecretStr

from robot_mcp_kit.client.session import RobotSession, ToolCallError, connect
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.node.settings import settings_from
from robot_mcp_kit.server.app import build_app, build_mcp_server
from robot_mcp_kit.server.listening import bind
from robot_mcp_kit.server.promcp.surface import ProMcpSurface
from robot_mcp_kit.server.serve import serving
from test.server.promcp.rig import PROFILES, Rig, rigged

OPERATOR, OBSERVER = "operator-token-of-a-test", "observer-token-of-a-test"
KITCHEN = {"place": "kitchen"}


@asynccontextmanager
async def served(*, tokens: bool = False, approve: bool = True) -> AsyncIterator[tuple[Rig, str]]:
    """The application as the node builds it, with the base address."""
    async with rigged(connect=False, approve=approve) as rig:
        listener = bind("127.0.0.1", 0)
        port = int(listener.getsockname()[1])
        base = f"http://127.0.0.1:{port}"
        secrets = {"token": SecretStr(OPERATOR), "observer_token": SecretStr(OBSERVER)} if tokens else {}
        server = build_mcp_server(rig.bridge, rig.manager, name="robot", url=f"{base}/mcp", **secrets)
        surface = ProMcpSurface(
            rig.bridge, rig.manager, rig.config, rig.surface.profiles, name="robot", url=base, **secrets
        )
        app = build_app(server, host="127.0.0.1", port=port, promcp=surface)
        try:
            async with serving(app, listener):
                yield rig, base
        finally:
            await surface.aclose()


async def _tools(url: str, **more: str) -> set[str]:
    async with connect(url, **more) as session:
        return set(await session.tool_names())


async def _do(session: RobotSession, **more: object) -> dict[str, object]:
    return await session.call("do_navigate_to", **KITCHEN, idempotency_key="a", **more)


async def test_every_profile_has_its_address_and_the_first_one_the_short_one_too() -> None:
    """P1 P4: the contract's tools are at /mcp, and only there."""
    async with served() as (rig, base):
        tools = {name: await _tools(f"{base}/promcp/{name}/mcp") for name in PROFILES}
        for profile in rig.surface.profiles:
            assert tools[profile.name] == set(profile.tools)
        assert await _tools(f"{base}/promcp/mcp") == tools["observe"]
        contract = await _tools(f"{base}/mcp")
        assert {"get_task", "navigate_to", "stop"} <= contract
        assert not any(name.startswith(("read_", "do_")) for name in contract)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_both_protocol_eras_can_ask_do_and_read(mode: str) -> None:
    """P6."""
    async with served() as (rig, base), connect(f"{base}/promcp/move/mcp", mode=mode) as session:
        intent = {"semantic_tags": ["drive"], "parameters": KITCHEN}
        assert (await session.call("can_do", intent=intent))["feasible"]
        assert (await _do(session))["status"] == "success"
        assert (await session.call("read_robot_pose"))["value"]["x_m"] == 10.01
        assert len(rig.flat.goals) == 1


async def test_the_profiles_share_their_keys() -> None:
    """P17 P19: one robot, one memory."""
    async with served() as (rig, base):
        for path in ("/promcp/move/mcp", "/promcp/move/mcp"):
            async with connect(f"{base}{path}") as session:
                assert (await _do(session))["status"] == "success"
        async with connect(f"{base}/mcp") as session:
            same = await session.call("navigate_to", **KITCHEN, idempotency_key="a")
        assert same["started_now"] is False
        assert len(rig.flat.goals) == 1


async def test_a_client_with_the_observers_token_looks_and_stops_and_moves_nothing() -> None:
    """P35 P36: permission_insufficient, told before and enforced after."""
    async with served(tokens=True) as (rig, base):
        url = f"{base}/promcp/move/mcp"
        async with connect(url, token=OBSERVER) as session:
            intent = {"semantic_tags": ["drive"], "parameters": KITCHEN}
            report = await session.call("can_do", intent=intent)
            (blocked,) = report["blocked"]
            assert blocked["permission"] == "permission_insufficient"
            assert not report["feasible"]
            with pytest.raises(ToolCallError, match="operator's token") as refused:
                await _do(session)
            assert refused.value.structured["error_code"] == "PERMISSION_INSUFFICIENT"
            assert refused.value.structured["status"] == "failed"
            assert (await session.call("read_robot_pose"))["quality"] == "good"
            assert (await session.call("do_stop", idempotency_key="s"))["status"] == "success"
        assert rig.flat.goals == []
        async with connect(url, token=OPERATOR) as session:
            assert (await session.call("can_do", intent=intent))["feasible"]
            assert (await _do(session))["status"] == "success"


async def test_the_observers_token_opens_no_other_surface_and_no_token_opens_none() -> None:
    """P35."""
    async with served(tokens=True) as (_, base), httpx.AsyncClient(trust_env=False) as http:

        async def status(path: str, token: str | None) -> int:
            headers = {"accept": "application/json, text/event-stream"}
            if token is not None:
                headers["authorization"] = f"Bearer {token}"
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            return (await http.post(f"{base}{path}", json=ping, headers=headers)).status_code

        assert await status("/mcp", OBSERVER) == 403
        for path in ("/promcp/mcp", "/promcp/move/mcp"):
            assert await status(path, None) == 401
            assert await status(path, "guessed") == 401
            assert await status(path, OBSERVER) not in (401, 403)


async def test_what_waits_for_a_person_ends_with_the_session_that_asked() -> None:
    """P36: on these paths as on the other."""
    async with served(approve=False) as (rig, base):
        async with connect(f"{base}/promcp/move/mcp", mode="legacy") as session:
            waiting = await session.call("do_navigate_to", **KITCHEN, idempotency_key="a", wait_s=0)
            assert waiting["in_progress"]
            while not rig.guard.desk.pending():
                await asyncio.sleep(0.01)
        info = await rig.manager.wait(waiting["task_id"], 10)
        assert info is not None
        assert info.failure.error_code == "SAFETY_APPROVAL_WITHDRAWN"
        assert rig.flat.goals == []


async def test_a_page_of_another_origin_is_refused() -> None:
    async with served() as (_, base), httpx.AsyncClient(trust_env=False) as http:
        headers = {"origin": "http://evil.example", "accept": "application/json, text/event-stream"}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for path in ("/promcp/mcp", "/promcp/observe/mcp"):
            assert (await http.post(f"{base}{path}", json=ping, headers=headers)).status_code == 403


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"ROBOT_MCP_OBSERVER_TOKEN": "o"}, "without ROBOT_MCP_TOKEN"),
        ({"ROBOT_MCP_OBSERVER_TOKEN": "t", "ROBOT_MCP_TOKEN": "t"}, "the same as another secret"),
    ],
)
def test_an_observers_token_that_protects_nothing_stops_the_start(
    environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    values = {
        "skills_file": "skills.yaml",
        "ledger_sync": "normal",
        "ledger_file": "",
        "state_dir": "",
        "allowed_hosts": [""],
    }
    with pytest.raises(ConfigError, match=said):
        settings_from(values)
