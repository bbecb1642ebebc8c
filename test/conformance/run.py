"""Run the official MCP conformance suite against a server, with a Node that is new enough.

    python test/conformance/run.py                     # the fixture server: everything
    python test/conformance/run.py --only tasks        # only the tasks extension
    python test/conformance/run.py --bridge            # a bridge: what needs no fixture tools

The suite and, where the machine's own Node is older than 22, a Node come from the npm registry into a cache
folder (``ROBOT_MCP_KIT_COMPAT_DIR``, or ``robot-mcp-kit/compat`` in the user's cache). Exit codes: 0 as
expected, 1 not, 3 the suite cannot be had here.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent


def _beside(name: str) -> ModuleType:
    """A module of this folder, whoever runs or imports this one."""
    spec = importlib.util.spec_from_file_location(f"conformance_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


npm = _beside("npm")
SuiteUnavailableError = npm.UnavailableError
SUITE, SUITE_VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
NODE_MAJOR = 22
RUN_BOUND_S = 120
AT_ONCE = 4
"""Scenarios that run at the same time."""

TASK_SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
"""The executable ones; ``tasks-status-notifications`` only says that it is not written yet."""
VERSIONS = ("2025-11-25", "2026-07-28")
BRIDGE_SCENARIOS = {
    "2025-11-25": (
        *("server-initialize", "server-session-lifecycle", "ping", "tools-list", "resources-list"),
        *("prompts-list", "server-sse-multiple-streams", "resources-subscribe", "resources-unsubscribe"),
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        *("server-stateless", "tools-list", "resources-list", "prompts-list", "server-sse-multiple-streams"),
        *("sep-2164-resource-not-found", "caching", "http-header-validation", "dns-rebinding-protection"),
    ),
}
"""What can be asked of any server."""


@dataclass
class Verdict:
    """Checks by scenario and protocol version: passed, failed, and why."""

    passed: int = 0
    failed: dict[str, list[str]] = field(default_factory=dict)
    """``2025-11-25/logging-set-level`` to what failed."""
    scenarios: set[str] = field(default_factory=set)

    def add(self, version: str, scenario: str, checks: list[dict[str, object]]) -> None:
        name = f"{version}/{scenario}"
        self.scenarios.add(name)
        self.passed += sum(check["status"] == "SUCCESS" for check in checks)
        wrong = [f"{c['id']}: {c.get('errorMessage') or ''}" for c in checks if c["status"] == "FAILURE"]
        if wrong:
            self.failed[name] = wrong


def ensure() -> list[str]:
    """The command that runs the suite, installed if it was not.

    Raises:
        SuiteUnavailableError: no npm, or the registry does not have it or cannot be reached.
    """
    node, modules = npm.install("conformance", {SUITE: SUITE_VERSION}, node_major=NODE_MAJOR)
    return [node, str(modules / SUITE / "dist" / "index.js"), "server"]


def ask(command: list[str], url: str, version: str | None, *scenarios: str) -> Verdict:
    """Run scenarios of one protocol version; none named: the whole suite of that version."""
    verdict = Verdict()
    with tempfile.TemporaryDirectory() as out:
        options = [*command, "--url", url, "-o", out]
        if version is not None:
            options += ["--spec-version", version]
        runs = [[*options, "--scenario", name] for name in scenarios] or [[*options, "--suite", "all"]]

        def one(run: list[str]) -> None:
            # It ends with 1 when a check failed; the files say which.
            subprocess.run(run, capture_output=True, text=True, timeout=RUN_BOUND_S, check=False)

        # They spend most of their time waiting.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, runs))
        for file in Path(out).glob("*/checks.json"):
            # server-<scenario>-2026-01-31T23-59-59-999Z
            scenario = "-".join(file.parent.name.split("-")[1:-6])
            verdict.add(version or "extension", scenario, json.loads(file.read_text()))
    return verdict


class Server:
    """A server in a process of its own, for as long as the block lasts."""

    def __init__(self, script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, HERE / script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        )
        self.url = ""

    def __enter__(self) -> Server:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError("the server did not start")
        self.url = line.split()[1]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def expected_failures(server: str) -> dict[str, str]:
    """Scenario (with its protocol version) to the reason why it fails; of ``fixture`` or ``bridge``."""
    found: dict[str, str] = json.loads((HERE / "expected_failures.json").read_text())[server]
    return found


def run(*, bridge: bool, only: str | None) -> list[Verdict]:
    """Run what was asked for.

    Raises:
        SuiteUnavailableError: see :func:`ensure`.
    """
    command = ensure()
    if bridge:
        with Server("bridge_server.py") as server:
            return [ask(command, server.url, version, *names) for version, names in BRIDGE_SCENARIOS.items()]
    verdicts = []
    with Server("server.py") as server:
        if only in (None, "tasks"):
            verdicts.append(ask(command, server.url, None, *TASK_SCENARIOS))
        if only in (None, "generic"):
            verdicts += [ask(command, server.url, version) for version in VERSIONS]
    return verdicts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--bridge", action="store_true", help="a bridge instead of the fixture server")
    parser.add_argument(
        "--only", choices=("tasks", "generic"), help="only these scenarios of the fixture server"
    )
    options = parser.parse_args(arguments)
    try:
        verdicts = run(bridge=options.bridge, only=options.only)
    except SuiteUnavailableError as error:
        print(f"not run: {error}", file=sys.stderr)
        return 3
    expected = expected_failures("bridge" if options.bridge else "fixture")
    failed = {name: why for verdict in verdicts for name, why in verdict.failed.items()}
    ran = {name for verdict in verdicts for name in verdict.scenarios}
    surprises = {name: why for name, why in failed.items() if name not in expected}
    healed = [name for name in expected if name in ran and name not in failed]
    for name, why in surprises.items():
        print(f"FAILED {name}\n  " + "\n  ".join(why))
    for name in healed:
        print(f"PASSED although it was expected to fail: {name}; take it out of expected_failures.json")
    print(
        f"{len(ran)} scenarios, {sum(verdict.passed for verdict in verdicts)} checks passed, "
        f"{len(failed)} scenarios failed, {len(failed) - len(surprises)} of them as expected"
    )
    return 1 if surprises or healed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
