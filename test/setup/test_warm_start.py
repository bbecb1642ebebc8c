"""What a warm start gives is what a cold one gives."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import warm_start

HERE = Path(__file__).parent
SAYS = str(HERE / "warm_start_child.py")
WARM = pytest.mark.skipif(
    subprocess.Popen is not warm_start.WarmPopen, reason="warm starts are switched off, or not possible here"
)


def said(**options: Any) -> dict[str, Any]:
    done = subprocess.run([sys.executable, SAYS, "one", "two"], capture_output=True, check=True, **options)
    return dict(json.loads(done.stdout))


@WARM
def test_arguments_environment_folder_and_parent_are_as_asked_for(tmp_path: Path) -> None:
    """And the modules are there already, which is the point of it."""
    found = said(cwd=tmp_path, env={**os.environ, "COLOUR": "red"})
    assert found["argv"] == [SAYS, "one", "two"]
    assert found["cwd"] == str(tmp_path)
    assert found["colour"] == "red"
    assert found["parent"] == os.getpid()
    assert found["preloaded"]
    assert not found["leads_session"]
    assert said(start_new_session=True)["leads_session"]
    assert said()["colour"] is None


@WARM
def test_an_environment_that_the_interpreter_reads_first_starts_cold() -> None:
    """Also where coverage begins with the interpreter."""
    assert not said(env={**os.environ, "PYTHONDEVMODE": "1"})["preloaded"]
    assert not said(env={**os.environ, "COVERAGE_PROCESS_START": ""})["preloaded"]


@WARM
def test_files_and_exit_code_are_the_child_s_own(tmp_path: Path) -> None:
    """Standard input is read to its end, errors go where they were sent, and nothing else stays open."""
    with (tmp_path / "errors").open("wb") as errors:
        child = subprocess.Popen(
            [sys.executable, SAYS, "echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        out, _ = child.communicate(b"hello\n", timeout=30)
    assert (out, child.returncode) == (b"hello\n", 7)
    assert (tmp_path / "errors").read_text() == "files: 0 1 2\n"


@WARM
async def test_signals_reach_it_and_its_end_is_seen_by_asyncio_too() -> None:
    """SIGINT, although the warm process ignores it; SIGKILL leaves no zombie."""
    for number, code in ((signal.SIGINT, 5), (signal.SIGKILL, -signal.SIGKILL)):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, SAYS, "wait"), stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(30):
            assert child.stdout is not None
            assert await child.stdout.readline() == b"waiting\n"
            child.send_signal(number)
            assert await child.wait() == code
        with pytest.raises(ProcessLookupError):
            os.kill(child.pid, 0)
