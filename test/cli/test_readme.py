"""What the README and docs/ say is run, not believed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from robot_mcp_kit.cli import build_parser
from robot_mcp_kit.models import TaskEvent
from robot_mcp_kit.signing import sign

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", README, flags=re.DOTALL | re.MULTILINE)


def block_with(language: str, text: str) -> str:
    found = [block for block in blocks(language) if text in block]
    assert len(found) == 1, f"{len(found)} {language} blocks with {text}"
    return found[0]


def run(block: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), namespace)  # noqa: S102 - our own text
    return namespace


async def test_the_library_example_starts_a_task_and_answers_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    mcp = pytest.importorskip("mcp")
    monkeypatch.delenv("RVC_CALLBACK_URL", raising=False)
    namespace = run(block_with("python", "register_task_tools"))
    async with mcp.Client(namespace["mcp"]) as client:
        started = await client.call_tool("find_object", {"name": "cup"})
        task_id = json.loads(started.content[0].text)["task_id"]
        task: dict[str, Any] = {"state": "running"}
        deadline_s = time.monotonic() + 30
        while task["state"] == "running":
            assert time.monotonic() < deadline_s
            task = json.loads((await client.call_tool("get_task", {"task_id": task_id})).content[0].text)
        await namespace["manager"].aclose()
    assert task["result"] == {"found": "cup"}


async def test_the_chat_app_example_accepts_a_signed_event_and_refuses_a_forged_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("starlette")
    monkeypatch.setenv("RVC_EVENT_SECRET", "s3cret")
    app = run(block_with("python", "Inbox("))["app"]
    event = TaskEvent(
        event_id="8c1f0e2a-6f5e-4a6e-9f6f-0d9a3a5a7b10",
        task_id="robo-7f3a2b",
        server="robot",
        tool="navigate_to",
        type="progress",
        seq=1,
        ts="2026-06-12T14:03:00.123Z",
        payload={"eta_s": 22.4},
    )
    body, at = event.model_dump_json().encode(), int(time.time())
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://chat") as http:
        for secret, status in (("s3cret", 200), ("another", 401)):
            headers = {
                "X-RVC-Server": "robot",
                "X-RVC-Timestamp": str(at),
                "X-RVC-Signature": "sha256=" + sign(secret, at, body),
            }
            answer = await http.post("/api/agent/events", content=body, headers=headers)
            assert answer.status_code == status
    assert "progress {'eta_s': 22.4}" in capsys.readouterr().out


def test_the_yaml_example_is_a_whole_skills_file() -> None:
    pytest.importorskip("yaml")
    import textwrap

    from robot_mcp_kit.skills.config import parse_config

    config = parse_config(textwrap.dedent(block_with("yaml", "places:")))
    assert config.find_place("kitchen") is not None
    assert list(config.skills) == ["navigate_to"]


def test_the_client_configurations_are_json_and_their_command_line_is_ours() -> None:
    servers = [json.loads(block)["mcpServers"]["robot"] for block in blocks("json")]
    assert any("url" in server for server in servers)
    (started,) = [server for server in servers if "command" in server]
    args = build_parser().parse_args(started["args"])
    assert args.command == "run"
    assert args.stdio is True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.ros
def test_the_reference_page_is_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "docs/reference.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_wire_pages_test_vector_is_right() -> None:
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    assert sign("s3cret", 1765532000, b'{"schema_version":1}') in page


def test_the_wire_pages_sample_is_an_event() -> None:
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)
    assert TaskEvent.model_validate_json(sample).seq == 4
