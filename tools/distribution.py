"""Which ROS 2 the set-up works with: a distribution sourced in this shell, or the wheels.

Standard library only: the set-up reads this before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT = "kilted"
WHEELS = ("kilted", "jazzy")
PYTHONS = ((3, 11), (3, 12), (3, 13))
"""Versions that this project supports and that the ROS wheels exist for, best tested first."""

_INDEX = Path("share/ament_index/resource_index")
_BOOTSTRAPPED = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"


class SetupError(Exception):
    """The set-up cannot go on; the text says what to do."""


@dataclass(frozen=True)
class Distribution:
    """The ROS 2 in use.

    ``prefixes``: ament prefixes of the sourced distribution and its overlays, nearest first; empty with
    wheels.
    """

    name: str
    prefixes: tuple[Path, ...]

    @property
    def sourced(self) -> bool:
        return bool(self.prefixes)

    @property
    def venv_name(self) -> str:
        """One virtual environment for each distribution and kind, so that switching rebuilds nothing."""
        if self.sourced:
            return f".venv-sourced-{self.name}"
        return ".venv" if self.name == DEFAULT else f".venv-{self.name}"


def detect(environ: Mapping[str, str], wanted: str | None = None) -> Distribution:
    """Find out which distribution to use; ``wanted`` is what the user asked for by ``DISTRO``.

    A sourced distribution is one whose rclpy is in ``AMENT_PREFIX_PATH`` outside of a virtual environment
    (wheels put an ament prefix into theirs).

    Raises:
        SetupError: the wanted and the sourced distribution differ, or there are no wheels of the wanted one.
    """
    prefixes = tuple(
        Path(part)
        for part in environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
        if part and not (Path(part) / "pyvenv.cfg").exists()
    )
    if any((prefix / _INDEX / "packages" / "rclpy").exists() for prefix in prefixes):
        name = environ.get("ROS_DISTRO", "")
        if not name:
            raise SetupError(
                "AMENT_PREFIX_PATH has rclpy but ROS_DISTRO is unset: source its setup.bash again"
            )
        if wanted and wanted != name:
            raise SetupError(
                f"DISTRO={wanted} was asked for, but ROS 2 {name} is sourced: "
                f"use a shell without it, or leave DISTRO out"
            )
        return Distribution(name, prefixes)
    name = wanted or DEFAULT
    if name not in WHEELS:
        raise SetupError(f"DISTRO={name}: wheels exist for {' and '.join(WHEELS)}; to use another, source it")
    return Distribution(name, ())


def interfaces(prefixes: Iterable[Path]) -> set[str]:
    """Names of the interface packages installed under ``prefixes``."""
    return {
        marker.name
        for prefix in prefixes
        if (folder := prefix / _INDEX / "rosidl_interfaces").is_dir()
        for marker in folder.iterdir()
    }


def find_python(distribution: Distribution, explicit: str | None = None) -> str:
    """An interpreter for the virtual environment: the sourced distribution's own, else any supported one.

    Raises:
        SetupError: none there, or it has no header files (the interface packages are compiled).
    """
    if explicit:
        candidates = [explicit]
    elif distribution.sourced:
        candidates = [_python_of(distribution)]
    else:
        names = [f"python{major}.{minor}" for major, minor in PYTHONS]
        candidates = [sys.executable, *filter(None, map(shutil.which, names))]
    for candidate in candidates:
        found = _ask(candidate)
        if found is None or found[0] not in PYTHONS:
            continue
        if not found[1]:
            major, minor = found[0]
            raise SetupError(
                f"{candidate} has no header files (Python.h): install python{major}.{minor}-dev (Debian, "
                f"Ubuntu) or python3-devel (Fedora)"
            )
        return candidate
    versions = ", ".join(f"{major}.{minor}" for major, minor in PYTHONS)
    raise SetupError(f"no usable Python ({versions}) found; tried {', '.join(candidates)}. Set PYTHON to one")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` without what another virtual environment left in it.

    The wheels' start-up hook exports ``LD_LIBRARY_PATH`` and a marker; a second environment's Python would
    take the marker for its own and load the first one's libraries.
    """
    env = dict(environ)
    if env.pop(_BOOTSTRAPPED, None):
        env.pop("LD_LIBRARY_PATH", None)
    for name in ("PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
        env.pop(name, None)
    return env


def environment(venv: Path, distribution: Distribution, environ: Mapping[str, str]) -> dict[str, str | None]:
    """The variables that a command in ``venv`` needs; ``None`` means: unset it."""
    clean = clean_environment(environ)
    variables: dict[str, str | None] = {name: None for name in environ if name not in clean}
    variables["VIRTUAL_ENV"] = str(venv)
    variables["PATH"] = _prepend(venv / "bin", clean.get("PATH"))
    prefixes = [venv, *(prefix for prefix in distribution.prefixes if prefix != venv)]
    variables["AMENT_PREFIX_PATH"] = os.pathsep.join(map(str, prefixes))
    if distribution.sourced:
        # Type supports of packages built here are opened by file name; the wheels' hook sees to that itself.
        variables["LD_LIBRARY_PATH"] = _prepend(venv / "lib", clean.get("LD_LIBRARY_PATH"))
    # Robots on the same network must not meet a developer's simulated one.
    variables["ROS_AUTOMATIC_DISCOVERY_RANGE"] = environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE") or "LOCALHOST"
    return variables


def _prepend(folder: Path, value: str | None) -> str:
    rest = [part for part in (value or "").split(os.pathsep) if part and part != str(folder)]
    return os.pathsep.join([str(folder), *rest])


def _python_of(distribution: Distribution) -> str:
    for prefix in distribution.prefixes:
        for pattern in ("lib/python3.*/site-packages/rclpy", "local/lib/python3.*/dist-packages/rclpy"):
            for path in prefix.glob(pattern):
                match = re.search(r"python(3)\.(\d+)", str(path.relative_to(prefix)))
                if match is None:
                    continue
                version = (int(match[1]), int(match[2]))
                if version not in PYTHONS:
                    raise SetupError(
                        f"ROS 2 {distribution.name} uses Python {match[1]}.{match[2]}; robot-mcp-kit needs "
                        f"3.11 or newer, which ROS 2 has from Jazzy on"
                    )
                return shutil.which(f"python{match[1]}.{match[2]}") or "python3"
    raise SetupError(f"ROS 2 {distribution.name} is sourced but has no rclpy for Python")


_PROBE = """
import os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
print(*sys.version_info[:2], int(os.path.exists(header)))
"""


def _ask(python: str) -> tuple[tuple[int, int], bool] | None:
    """Version of ``python`` and whether it has header files; ``None`` when it does not run (a dead shim)."""
    if python == sys.executable:
        header = Path(sysconfig.get_path("include"), "Python.h")
        return (sys.version_info[0], sys.version_info[1]), header.exists()
    try:
        done = subprocess.run(  # noqa: S603
            [python, "-S", "-c", _PROBE],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
            env=clean_environment(os.environ),
        )
        major, minor, header_exists = map(int, done.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return (major, minor), bool(header_exists)
