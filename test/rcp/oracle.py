"""The protocol's own SDK (rcp-sdk 0.2.0) as an oracle: it is asked in this process and never copied from.

The release is yanked, so the exact version is named. It is no dependency of the kit: it comes from the
package registry into a cache folder (``ROBOT_MCP_KIT_COMPAT_DIR``, or ``~/.cache/robot-mcp-kit/compat``).
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

REQUIREMENT = "rcp-sdk==0.2.0"
SETUP_BOUND_S = 120


class OracleUnavailableError(RuntimeError):
    """It could not be installed; says why."""


def folder() -> Path:
    given = os.environ.get("ROBOT_MCP_KIT_COMPAT_DIR")
    home = Path(given) if given else Path.home() / ".cache" / "robot-mcp-kit" / "compat"
    return home / REQUIREMENT.replace("==", "-")


def ensure() -> Path:
    """The folder that has the package, installed if it was not.

    Raises:
        OracleUnavailableError: the registry cannot be reached, or does not have it.
    """
    home = folder()
    if (home / "rcp_sdk" / "__init__.py").exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=home.name, dir=home.parent))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        subprocess.run(
            [*install, "--target", fresh, REQUIREMENT],
            check=True,
            capture_output=True,
            text=True,
            timeout=SETUP_BOUND_S,
        )
        fresh.replace(home)
    except subprocess.TimeoutExpired as error:
        raise OracleUnavailableError(
            f"installing {REQUIREMENT} took longer than {SETUP_BOUND_S} s"
        ) from error
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.strip().splitlines() if line][-1:]
        raise OracleUnavailableError(f"{REQUIREMENT} could not be installed: {' '.join(said)}") from error
    except OSError as error:
        # Another test process was faster.
        if not (home / "rcp_sdk" / "__init__.py").exists():
            raise OracleUnavailableError(f"{home}: {error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return home


def load() -> ModuleType:
    """The package ``rcp_sdk``."""
    where = str(ensure())
    if where not in sys.path:
        sys.path.append(where)
    return importlib.import_module("rcp_sdk")
