"""The example adapter, against a controller that really listens."""

from __future__ import annotations

import importlib.util
import json
import re
import socketserver
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from robot_mcp_kit.rcp import RCPAdapter
from robot_mcp_kit.rcp.simulated import SimulatedAdapter
from robot_mcp_kit.testing.adapter_conformance import AdapterConformance

EXAMPLE = Path(__file__).parents[2] / "examples" / "rcp_adapter.py"
DATA: dict[str, Any] = {
    "identity": {
        "manufacturer": "Acme",
        "model": "R2",
        "controller": "C1",
        "firmware": "3.2",
        "serial": "77",
        "joint_count": 2,
        "reach_mm": 600.0,
    },
    "joints": [
        {"name": "J1", "position_deg": 12.0, "min_deg": -90.0, "max_deg": 90.0},
        {"name": "J2", "position_deg": -3.5, "min_deg": -45.0, "max_deg": 45.0},
    ],
    "tcp": [300.0, 10.0, 120.0, 180.0, 0.0, 90.0],
    "io": [
        {"name": "lamp", "signal_type": "digital_output", "value": 0},
        {"name": "pressure", "signal_type": "analog_input", "value": 0.4},
    ],
    "programs": ["weld"],
    "tools": [{"name": "torch", "tcp_z": 80.0, "mass_kg": 0.7}],
    "stop": {},
}


class Controller(socketserver.StreamRequestHandler):
    """Answers one JSON line to each."""

    def handle(self) -> None:
        for line in self.rfile:
            asked = json.loads(line)
            command = asked.pop("command")
            signals = {signal["name"]: signal for signal in DATA["io"]}
            answer: dict[str, Any] = {"data": DATA.get(command, {})}
            if command == "set" and asked["signal"] not in signals:
                answer = {"error": f"no signal {asked['signal']}"}
            elif command == "set":
                signals[asked["signal"]]["value"] = asked["value"]
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class Listening(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rcp_adapter_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class TestExample(AdapterConformance):
    """R9-R16: it passes the kit."""

    may_actuate = True
    output = "lamp"
    module: ClassVar[ModuleType]

    @pytest.fixture(autouse=True)
    def controller(self, example: ModuleType) -> Iterator[None]:
        type(self).module = example
        with Listening(("127.0.0.1", 0), Controller) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            type(self).connect_config = {"host": "127.0.0.1", "port": server.server_address[1]}
            yield
            server.shutdown()

    def make_adapter(self) -> RCPAdapter:
        made: RCPAdapter = self.module.LineAdapter()
        return made


def test_the_example_is_short() -> None:
    """R9: ten methods are enough."""
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 80


# -- the page -----------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "robot_context_protocol.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_page_shows_the_example_as_it_is() -> None:
    """R9."""
    shown = textwrap.indent(blocks("python")[0].replace("\n\n\n", "\n\n"), "    ")
    assert shown in EXAMPLE.read_text(encoding="utf-8")


def test_the_pages_suite_is_one(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: it is what the class above does."""
    monkeypatch.setitem(sys.modules, "examples", ModuleType("examples"))
    monkeypatch.setitem(sys.modules, "examples.rcp_adapter", example)
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(compile(blocks("python")[1], "page", "exec"), namespace)  # noqa: S102 - our own text
    suite = namespace["TestLineAdapter"]()
    assert isinstance(suite.make_adapter(), example.LineAdapter)
    suite.test_what_it_declares_it_has()


def test_the_pages_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R18, R45: and prints what the page says."""
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[2], "page", "exec"), {"__name__": "page"})  # noqa: S102 - our own text
    assert blocks("text")[0] in capsys.readouterr().out


async def test_the_pages_messages_are_answered(tmp_path: Path) -> None:
    """R17, R18, R47."""
    pytest.importorskip("websockets")
    from robot_mcp_kit.rcp.server import RCPServer, RCPServerSettings

    from .probe import rig_of
    from .wire import client_of

    rig = rig_of(tmp_path, SimulatedAdapter())
    await rig.robot.connect()
    server = RCPServer(rig.robot, RCPServerSettings(port=0))
    async with server.running(), client_of(server.url) as client:
        answers = [await client.raw(line) for line in blocks("json")[0].splitlines()]
    await rig.close()
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4]
    assert answers[0]["result"]["z"] > 0
    assert answers[1]["result"]["streaming"] is True
    assert answers[2]["result"]["status"] == "approval_required"
    assert answers[3]["result"]["stopped"] is True
