"""The official conformance suite, as a child process; skipped with the reason where it cannot be had."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

_SPEC = importlib.util.spec_from_file_location("conformance_run", Path(__file__).with_name("run.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
suite = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = suite
_SPEC.loader.exec_module(suite)


@pytest.fixture(scope="module")
def command() -> list[str]:
    try:
        found: list[str] = suite.ensure()
    except suite.SuiteUnavailableError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture(scope="module")
def url(command: list[str]) -> Iterator[str]:
    with suite.Server("server.py") as server:
        yield server.url


def test_every_executable_tasks_scenario_passes(command: list[str], url: str) -> None:
    """L25-L31: nine scenarios."""
    verdict = suite.ask(command, url, None, *suite.TASK_SCENARIOS)
    assert verdict.failed == {}
    assert len(verdict.scenarios) == 9
    assert verdict.passed >= 44


@pytest.mark.parametrize(("version", "least"), [("2025-11-25", 75), ("2026-07-28", 140)])
def test_the_generic_scenarios_pass_but_for_those_explained(
    version: str, least: int, command: list[str], url: str
) -> None:
    verdict = suite.ask(command, url, version)
    expected = {name for name in suite.expected_failures("fixture") if name.startswith(version)}
    assert {name: why for name, why in verdict.failed.items() if name not in expected} == {}
    assert expected <= set(verdict.failed), "take what passes now out of expected_failures.json"
    assert verdict.passed >= least


def test_a_bridge_passes_what_can_be_asked_of_any_server(command: list[str]) -> None:
    with suite.Server("bridge_server.py") as server:
        expected = suite.expected_failures("bridge")
        for version, names in suite.BRIDGE_SCENARIOS.items():
            verdict = suite.ask(command, server.url, version, *names)
            assert set(verdict.failed) == {name for name in expected if name.startswith(version)}, (
                verdict.failed
            )
            assert len(verdict.scenarios) == len(names)
