"""Where a node keeps what must outlive it, and how its operator's tools find it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATE_DIR_VARIABLE = "ROBOT_MCP_STATE_DIR"
OPERATOR_FILE = "operator.json"


def state_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder that has the state directories of all nodes of this user."""
    home = environ.get("XDG_STATE_HOME", "").strip() or str(Path.home() / ".local" / "state")
    return Path(home) / "robot-mcp-kit"


def state_directory(configured: Path | None, node_name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where a node keeps its audit trail, its operator's key and its emergency stop.

    The parameter, else ``ROBOT_MCP_STATE_DIR``, else one for this ROS domain and node name under
    ``$XDG_STATE_HOME`` (``~/.local/state``).
    """
    if configured is not None:
        return configured
    given = environ.get(STATE_DIR_VARIABLE, "").strip()
    if given:
        return Path(given)
    domain = environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    return state_home(environ) / f"domain{domain}" / node_name.strip("/").replace("/", ".")


def known_state_directories(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """State directories that exist where nodes put them by default."""
    return sorted(path.parent for path in state_home(environ).glob("*/*/audit"))


@dataclass(frozen=True, slots=True)
class OperatorAddress:
    """Where a running node answers its operator."""

    url: str
    pid: int

    @property
    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def announce(state_dir: Path, url: str) -> None:
    """Tell this user's tools where the running node answers."""
    fresh = state_dir / (OPERATOR_FILE + ".new")
    fresh.write_text(json.dumps({"url": url, "pid": os.getpid()}) + "\n", encoding="utf-8")
    fresh.chmod(0o600)
    fresh.replace(state_dir / OPERATOR_FILE)


def withdraw(state_dir: Path) -> None:
    """The node ends."""
    (state_dir / OPERATOR_FILE).unlink(missing_ok=True)


def find_node(state_dir: Path) -> OperatorAddress | None:
    """The node that runs on this state directory, ``None`` if there is none."""
    try:
        data = json.loads((state_dir / OPERATOR_FILE).read_text(encoding="utf-8"))
        address = OperatorAddress(str(data["url"]), int(data["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return address if address.alive else None
