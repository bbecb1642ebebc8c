"""Our lint against proMCP's own: the same codes for the same tools."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from robot_mcp_kit.promcp import lint_server

HERE = Path(__file__).parent


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"compat_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


oracle = _load(HERE / "promcp_oracle.py")
fixtures = _load(HERE.parent / "promcp" / "fixtures.py")


@pytest.fixture(scope="session")
def command() -> Path:
    try:
        found: Path = oracle.ensure()
    except oracle.OracleUnavailableError as error:
        pytest.skip(str(error))
    return found


def _ours(tools: list[dict[str, Any]]) -> set[str]:
    return {code for code in lint_server(tools).codes() if not code.startswith("K")}


@pytest.mark.timeout(240)
def test_tools_made_with_our_decorators_pass_its_strict_mode(command: Path, tmp_path: Path) -> None:
    """P7: and were checked, because R000 and R015 are absent."""
    verdict = oracle.ask(command, fixtures.flat_tools(), tmp_path / "tools.json")
    assert (verdict["exit_code"], verdict["summary"]["pass"]) == (0, True), verdict
    assert verdict["promcp_version"] == "0.4.0"
    assert not oracle.codes(verdict)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("what", list(fixtures.MUTATIONS))
def test_each_negative_control_gets_the_same_codes_from_both(
    what: str, command: Path, tmp_path: Path
) -> None:
    """P7."""
    code, change = fixtures.MUTATIONS[what]
    tools = fixtures.mutated(change)
    theirs = oracle.codes(oracle.ask(command, tools, tmp_path / "tools.json"))
    assert code in theirs
    assert _ours(tools) == theirs


@pytest.mark.timeout(240)
@pytest.mark.parametrize("what", ["no applied value", "no previous value", "no hint", "no unit"])
def test_it_is_blind_where_our_own_rules_see(what: str, command: Path, tmp_path: Path) -> None:
    """P part 2, point 5."""
    code, change = fixtures.OURS[what]
    tools = fixtures.mutated(change)
    assert not oracle.codes(oracle.ask(command, tools, tmp_path / "tools.json"))
    assert code in lint_server(tools).codes()
