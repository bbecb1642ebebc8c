"""The package as its users get it: names, types, dependencies, and the base install alone."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import robot_mcp_kit

ROOT = Path(__file__).parents[2]
PUBLIC = [
    "TaskFailure",
    "TaskEvent",
    "TaskInfo",
    "SCHEMA_VERSION",
    "TaskState",
    "EventType",
    "TaskManager",
    "TaskContext",
    "TaskError",
    "TaskBody",
    "EventPoster",
    "sign",
    "verify",
    "register_task_tools",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_importable_from_the_root(name: str) -> None:
    """K1."""
    assert hasattr(robot_mcp_kit, name)
    assert name in robot_mcp_kit.__all__


def test_the_public_names_are_where_the_contract_says() -> None:
    """K1: a consumer may also import them from their modules."""
    from robot_mcp_kit.events import EventPoster
    from robot_mcp_kit.fastmcp_ext import register_task_tools
    from robot_mcp_kit.models import TaskEvent
    from robot_mcp_kit.signing import sign, verify
    from robot_mcp_kit.tasks import TaskBody, TaskContext, TaskError, TaskManager

    for thing in (
        EventPoster,
        register_task_tools,
        TaskEvent,
        sign,
        verify,
        TaskContext,
        TaskError,
        TaskManager,
    ):
        assert getattr(robot_mcp_kit, thing.__name__) is thing
    assert robot_mcp_kit.TaskBody is TaskBody


def test_the_base_install_needs_pydantic_and_httpx_only() -> None:
    """K3, K4: as declared."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = sorted(re.split(r"[<>=!~\[ ]", text)[0] for text in project["dependencies"])
    assert names == ["httpx", "pydantic"]
    assert any(text.startswith("mcp") for text in project["optional-dependencies"]["mcp"])


def test_the_contract_imports_nothing_beyond_its_dependencies() -> None:
    """K2, K3: read from the sources, so that a lazy import counts too. anyio comes with httpx."""
    allowed = {*sys.stdlib_module_names, "pydantic", "httpx", "anyio", "robot_mcp_kit", "__future__"}
    for path in (ROOT / "robot_mcp_kit").glob("*.py"):
        if path.name == "__main__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in allowed, f"{path.name} imports {name}"


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    result = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=110, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


CONSUMER = '''
"""Written by somebody who only has the documentation."""
import asyncio
from typing import Any

from robot_mcp_kit import (
    SCHEMA_VERSION, EventPoster, EventType, TaskBody, TaskContext, TaskError, TaskEvent, TaskFailure,
    TaskInfo, TaskManager, TaskState, register_task_tools, sign, verify,
)
from robot_mcp_kit.testing import FakeClock, RecordingReceiver, assert_eventually

poster = EventPoster(server_name="sleeper")
manager = TaskManager("sleeper", poster, max_finished_retained=10)


async def body(ctx: TaskContext) -> dict[str, Any]:
    await ctx.progress({"percent": 10})
    for trigger in ctx.triggers:
        await ctx.fire_trigger(trigger, {"eta_s": 1.0})
    await ctx.emit({"n": 1})
    ctx.raise_if_cancelled()
    raise TaskError("A", "b", recoverable=False, suggestions=["c"])


def tool(mcp: Any) -> str:
    register_task_tools(mcp, manager)
    work: TaskBody = body
    info: TaskInfo = manager.start("tool", work, triggers=[{"type": "x"}], est_duration_s=1.0)
    state: TaskState = info.state
    reveal_type(info.failure)
    return state


async def main() -> None:
    known: TaskInfo | None = manager.get("x")
    running: list[TaskInfo] = manager.list(["running"])
    ended: TaskInfo | None = await manager.cancel("x")
    failure: TaskFailure | None = ended.failure if ended else None
    kind: EventType = "progress"
    good: bool = verify("s", 1, b"", "sha256=" + sign("s", 1, b""), max_skew_s=300)
    await manager.aclose()
    await poster.aclose()
    print(known, running, failure, kind, good, SCHEMA_VERSION, TaskEvent, FakeClock, RecordingReceiver)
    value: int = await assert_eventually(lambda: 5)


asyncio.run(main())
'''


def test_a_consumer_is_type_checked_strictly(tmp_path: Path) -> None:
    """K4: py.typed is honoured, and a wrong use is found."""
    pytest.importorskip("mypy")
    assert (ROOT / "robot_mcp_kit" / "py.typed").exists()
    (tmp_path / "consumer.py").write_text(CONSUMER)
    (tmp_path / "wrong.py").write_text(CONSUMER.replace('manager.get("x")', "manager.get(5)"))
    # An installed package as mypy sees it: on its path, and typed only because of the marker.
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "robot_mcp_kit").symlink_to(ROOT / "robot_mcp_kit")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    env = os.environ | {"MYPYPATH": str(site), "PYTHONPATH": ""}

    def check(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", name],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

    right = check("consumer.py")
    assert right.returncode == 0, right.stdout + right.stderr
    assert 'Revealed type is "robot_mcp_kit.models.TaskFailure | None"' in right.stdout
    wrong = check("wrong.py")
    assert wrong.returncode == 1
    assert "Argument 1 to" in wrong.stdout


BASE_PROGRAM = """
import asyncio, json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
import robot_mcp_kit, robot_mcp_kit.testing, robot_mcp_kit.outbox_sqlite
from robot_mcp_kit import EventPoster, TaskManager, verify

got = []
class Sink(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        ok = verify("s3cret", int(self.headers["X-RVC-Timestamp"]), body, self.headers["X-RVC-Signature"])
        got.append((json.loads(body)["type"], ok))
        self.send_response(202); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): pass

async def main():
    sink = HTTPServer(("127.0.0.1", 0), Sink)
    Thread(target=sink.serve_forever, daemon=True).start()
    poster = EventPoster("arm", f"http://127.0.0.1:{sink.server_port}/", "s3cret")
    manager = TaskManager("arm", poster)
    async def body(ctx):
        await ctx.progress({"percent": 50})
        return {"grasped": True}
    info = await manager.wait(manager.start("grasp", body).task_id)
    await poster.drain()
    await manager.aclose(); await poster.aclose()
    print(info.state, got, robot_mcp_kit.__file__)

asyncio.run(main())
"""


def readme_example() -> str:
    """The README's example for the base install: a TaskManager without an MCP server."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (example,) = [block for block in blocks if "TaskManager(" in block and "mcp.server" not in block]
    return str(example)


def test_the_readme_example_runs() -> None:
    """K3."""
    said = run(sys.executable, "-W", "error", "-c", readme_example(), cwd=ROOT)
    assert "state='succeeded'" in said
    assert "'grasped': True" in said


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_the_base_install_alone_runs_a_task_and_posts_it(tmp_path: Path) -> None:
    """K3: a fresh environment with nothing but the package's own dependencies; no MCP, no ROS."""
    venv = tmp_path / "venv"
    python = venv / "bin" / "python"
    # Our own pip installs into it: an environment with a pip of its own takes twice as long.
    run(sys.executable, "-m", "venv", "--without-pip", str(venv), cwd=tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "setup.cfg", "README.md", "package.xml", "LICENSE"):
        if (ROOT / name).exists():
            (source / name).write_bytes((ROOT / name).read_bytes())
    for name in ("robot_mcp_kit", "resource", "launch", "config"):
        if (ROOT / name).exists():
            (source / name).symlink_to(ROOT / name)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "AMENT_PREFIX_PATH", "PYTHONHOME")}
    installed = subprocess.run(
        [*pip, "install", "-q", "--no-compile", str(source)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    if installed.returncode != 0 and re.search(
        r"No matching distribution|Connection|Retrying", installed.stderr
    ):
        pytest.skip("no package registry is reachable, so nothing can be installed")
    assert installed.returncode == 0, installed.stderr
    listed = run(*pip, "list", "--format", "freeze", cwd=tmp_path, env=env)
    names = {line.split("==")[0].lower().replace("_", "-") for line in listed.splitlines()}
    assert not names & {
        "mcp",
        "fastmcp",
        "rclpy",
        "uvicorn",
        "starlette",
        "numpy",
        "pyyaml",
        "structlog",
        "rich",
    }
    said = run(str(python), "-W", "error", "-c", BASE_PROGRAM, cwd=tmp_path, env=env)
    assert said.startswith("succeeded [('progress', True), ('task_done', True)]")
    assert str(venv) in said
    assert "state='succeeded'" in run(
        str(python), "-W", "error", "-c", readme_example(), cwd=tmp_path, env=env
    )


def test_the_package_says_which_python_it_needs() -> None:
    """K4."""
    assert sys.version_info >= (3, 11)
    metadata = (ROOT / "setup.py").read_text() + (ROOT / "pyproject.toml").read_text()
    assert ">=3.11" in metadata.replace(" ", "")


def test_the_package_itself_imports_nothing_and_its_names_when_asked_for() -> None:
    """What only simulates or talks to a person does not wait for pydantic and httpx."""
    program = (
        "import sys, robot_mcp_kit\n"
        "early = {'pydantic', 'httpx'} & set(sys.modules)\n"
        "assert not early, early\n"
        "assert set(robot_mcp_kit.__all__) <= set(dir(robot_mcp_kit))\n"
        "for name in robot_mcp_kit.__all__: getattr(robot_mcp_kit, name)\n"
        "assert 'httpx' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="no attribute 'TaskMangler'"):
        getattr(robot_mcp_kit, "TaskMangler")  # noqa: B009
