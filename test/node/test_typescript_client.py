"""The official TypeScript client against the real node and the simulated robot: navigate, progress, done."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .conftest import BridgeProcess

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(400)]
HERE = Path(__file__).parent
SDK = {"@modelcontextprotocol/sdk": "^1.32.0"}
NODE_MAJOR = 18
"""The SDK's own floor."""


def _npm() -> ModuleType:
    spec = importlib.util.spec_from_file_location("npm_packages", HERE.parent / "conformance" / "npm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def command() -> list[str]:
    """Node, the script, and where its packages are."""
    npm = _npm()
    try:
        node, modules = npm.install("typescript-client", SDK, node_major=NODE_MAJOR)
    except npm.UnavailableError as error:
        pytest.skip(f"the TypeScript SDK cannot be had here: {error}")
    return [node, str(HERE / "typescript_client.mjs"), str(modules)]


async def test_a_typescript_client_drives_hears_progress_and_learns_the_end(
    command: list[str], bridge: BridgeProcess
) -> None:
    """L5 L6 L10 L11: each answer fits its tool's output schema, or this client would raise; refusals too."""
    process = await asyncio.create_subprocess_exec(
        *command, bridge.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 180)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, err.decode()
    seen: dict[str, Any] = json.loads(out)

    assert {"navigate_to", "await_task", "stop", "get_task"} <= set(seen["tools"])
    assert seen["annotations"]["destructiveHint"] is True
    assert seen["refused"]["isError"] is True
    assert seen["refused"]["structuredContent"]["error"]["field"] == "place"

    assert (seen["begun"]["state"], seen["begun"]["started_now"]) == ("running", True)
    told = [each["progress"] for each in seen["progress"]]
    assert len(told) >= 2
    assert told == sorted(set(told)), "strictly increasing"
    assert any("s to go" in each["message"] for each in seen["progress"])

    last = seen["awaited"][-1]["structuredContent"]
    assert last["state"] == "succeeded"
    assert last["result"]["place"] == "workshop"
    assert last["result"]["measured"] is True
    assert abs(last["result"]["final_pose"]["x_m"] - 2.0) < 0.5
    assert "workshop" in seen["awaited"][-1]["content"][0]["text"]

    repeated = seen["repeated"]["structuredContent"]
    assert (repeated["task_id"], repeated["started_now"]) == (seen["begun"]["task_id"], False)
    assert json.loads(seen["task"]["content"][0]["text"])["state"] == "succeeded"
