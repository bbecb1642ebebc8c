"""``register_task_tools`` unchanged on three MCP packages that cannot live in one environment.

Each gets a virtual environment, kept in pytest's cache between runs. Without a package registry the tests are
skipped, saying so.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"mcp1": "mcp>=1.20,<2", "mcp2": "mcp>=2.3,<3", "fastmcp4": "fastmcp>=4,<5"}
OURS = ["pydantic>=2.7,<3", "httpx>=0.27,<1"]
_UNREACHABLE = re.compile(r"No matching distribution|Connection|Retrying|timed out|Temporary failure", re.I)


def environment(folder: Path, requirements: list[str]) -> Path:
    """The Python of an environment with these packages, made once."""
    python = folder / "bin" / "python"
    made = folder / "requirements.json"
    wanted = json.dumps([requirements, sys.version])
    if made.exists() and made.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv")
    if uv:
        create = [uv, "venv", "-q", "--python", sys.executable, str(folder)]
        install = [uv, "pip", "install", "-q", "--python", str(python)]
    else:
        # Our own pip installs into it: an environment with a pip of its own takes twice as long.
        create = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile"]
        install += ["--disable-pip-version-check", "--prefer-binary"]
    subprocess.run(create, check=True, timeout=100, capture_output=True)
    done = subprocess.run([*install, *requirements], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        if _UNREACHABLE.search(done.stderr):
            pytest.skip(f"no package registry is reachable here, so {requirements[0]} cannot be installed")
        raise AssertionError(done.stderr)
    made.write_text(wanted)
    return python


def installed_major(package: str) -> int | None:
    """The major version of a package in this environment."""
    try:
        return int(importlib.metadata.version(package).split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("which", PACKAGES)
def test_the_task_tools_work_on(which: str, pytestconfig: pytest.Config) -> None:
    """K166, K23: listed, called and cancelled by that package's own client."""
    assert pytestconfig.cache is not None
    if which == "mcp2" and installed_major("mcp") == 2:
        python = Path(sys.executable)
    else:
        python = environment(pytestconfig.cache.mkdir("compat") / which, [PACKAGES[which], *OURS])
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    done = subprocess.run(
        [
            str(python),
            "-W",
            "error::ResourceWarning",
            str(Path(__file__).with_name("check_task_tools.py")),
            which,
        ],
        env=env | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith("ok")
    print(done.stdout.strip())
