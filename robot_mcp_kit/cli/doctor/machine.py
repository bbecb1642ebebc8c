"""The checks of this machine: packages, the endpoint's address, the token, the ledger's file, disks."""

from __future__ import annotations

import errno
import importlib.metadata
import importlib.util
import json
import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from robot_mcp_kit.cli.doctor.report import Line, failed, ok, skipped, warning
from robot_mcp_kit.server.listening import TOKEN_VARIABLE, is_loopback
from robot_mcp_kit.skills.text import clean_text
from robot_mcp_kit.sqlite_file import is_held

LEAST_TOKEN_CHARACTERS = 16
SHM_LEAST_MB = 16
_PROBE_TIMEOUT_S = 3.0
_NEEDED = ("mcp", "uvicorn", "starlette", "structlog", "yaml")
_MIB = 1024 * 1024


def check_packages() -> Line:
    """Whether what ``run`` imports beside ROS is installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    install = "pip install 'robot-mcp-kit[mcp]' into this Python's environment"
    if missing:
        return failed("packages", f"not installed: {', '.join(missing)}", install)
    version = importlib.metadata.version("mcp")
    major, minor = (int(part) for part in version.split(".")[:2])
    if not (2, 3) <= (major, minor) < (3, 0):
        return failed("packages", f"mcp {version} is installed; 2.3 or a later 2.x is needed", install)
    return ok("packages", f"mcp {version}, {', '.join(_NEEDED[1:])}")


# -- the endpoint -------------------------------------------------------------------------------------------


def check_endpoint(host: str, port: int, environment: Mapping[str, str]) -> tuple[Line, bool]:
    """Whether the address is free or has a bridge already; and whether there is one."""
    where = f"{host}:{port}"
    if port == 0:
        return ok("endpoint", f"{host}, any free port"), False
    try:
        _try_to_listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _who_is_there(host, port, environment)
        fixes = {
            errno.EACCES: "ports below 1024 are for root; choose a higher one",
            errno.EADDRNOTAVAIL: "choose an address of this machine (ip addr), or 127.0.0.1",
        }
        fix = fixes.get(error.errno or 0, "correct --host")
        return failed("endpoint", f"cannot listen on {where}: {error.strerror or error}", fix), False
    return ok("endpoint", f"{where} is free"), False


def _try_to_listen(host: str, port: int) -> None:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)


def _who_is_there(host: str, port: int, environment: Mapping[str, str]) -> tuple[Line, bool]:
    where = f"{host}:{port}"
    taken = f"stop it (ss -ltnp 'sport = :{port}' names it) or choose another --port"
    try:
        status, answer = _initialize(host, port, environment.get(TOKEN_VARIABLE, "").strip())
    except (httpx.HTTPError, ValueError) as error:
        why = str(error) or type(error).__name__
        return failed("endpoint", f"{where} is taken by something that speaks no HTTP: {why}", taken), False
    if status == 401 and answer.get("bearer"):
        if environment.get(TOKEN_VARIABLE, "").strip():
            text = f"{where} has a server already, and it refuses the token in {TOKEN_VARIABLE}"
            return failed(
                "endpoint", text, "give clients and bridge the same token, or choose another --port"
            ), False
        text = f"{where} has a server already that wants a token; perhaps a bridge"
        return warning("endpoint", text, f"set {TOKEN_VARIABLE} to look"), False
    info = answer.get("serverInfo")
    if not isinstance(info, dict):
        return failed("endpoint", f"{where} is taken by another HTTP server (status {status})", taken), False
    name, version = clean_text(info.get("name"), 60), clean_text(info.get("version"), 30)
    if "robot" not in str(answer.get("instructions", "")):
        return failed("endpoint", f"{where} is taken by another MCP server, {name} {version}", taken), False
    return ok("endpoint", f"{where}: a bridge answers there already ({name} {version})"), True


def _initialize(host: str, port: int, token: str) -> tuple[int, dict[str, Any]]:
    """MCP's first request: status and result; ``bearer`` when a token is asked for, ``{}`` for neither."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    url = f"http://{shown}:{port}/mcp"
    headers = {"Accept": "application/json, text/event-stream"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "robot-mcp-kit doctor", "version": "1"},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with httpx.Client(timeout=_PROBE_TIMEOUT_S, trust_env=False) as client:
        response = client.post(url, json=request, headers=headers)
        session = response.headers.get("mcp-session-id")
        if session:
            client.delete(url, headers={**headers, "mcp-session-id": session})
    text = response.text
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        text = next((row[5:] for row in text.splitlines() if row.startswith("data:") and "{" in row), "")
    try:
        result = json.loads(text).get("result")
    except (ValueError, AttributeError):
        result = None
    if "bearer" in response.headers.get("www-authenticate", "").lower():
        return response.status_code, {"bearer": True}
    return response.status_code, result if isinstance(result, dict) else {}


def check_token(host: str, environment: Mapping[str, str]) -> Line:
    """Whether the bridge would be open to the network without a token."""
    token = environment.get(TOKEN_VARIABLE, "").strip()
    fix = f"{TOKEN_VARIABLE}=$(openssl rand -hex 32)"
    if token and len(token) < LEAST_TOKEN_CHARACTERS:
        return warning("token", f"{TOKEN_VARIABLE} has only {len(token)} characters", fix)
    if token:
        return ok("token", f"clients must send the one in {TOKEN_VARIABLE}")
    if is_loopback(host):
        return ok("token", f"none needed: {host} is this machine only")
    return failed(
        "token",
        f"{host} can be reached from other machines and {TOKEN_VARIABLE} is not set: `run` refuses",
        fix,
    )


# -- files --------------------------------------------------------------------------------------------------


ANOTHER_BRIDGE = "another bridge has it: stop that one"


def check_ledger(path: str | None, *, bridge_runs: bool) -> Line:
    """Whether the ledger's file can be used; nothing is changed, and no file is left behind."""
    if path is None:
        return skipped("ledger", "in memory: a restart forgets what runs; --ledger FILE checks a file")
    file = Path(path).expanduser()
    if not file.exists():
        try:
            with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".robot-mcp-kit-doctor-"):
                return ok("ledger", f"{file} will be made; its folder can be written")
        except OSError as error:
            return failed(
                "ledger",
                f"{file.parent} cannot be written by this user: {error.strerror or error}",
                "make the folder and give it to the user that runs the bridge (systemd: StateDirectory=)",
            )
    try:
        if is_held(file):
            if bridge_runs:
                return ok("ledger", f"{file} is in use by the running bridge")
            return failed("ledger", f"{file} is in use", ANOTHER_BRIDGE)
        # Not created, and not by root for a user who could not open it then.
        connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=0.5, isolation_level=None
        )
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        fix = ANOTHER_BRIDGE if "locked" in str(error) else "check its owner and mode (ls -l)"
        return failed("ledger", f"{file}: {error}", fix)
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        return failed(
            "ledger", f"{file} is damaged: {verdict}", "move it away; the bridge starts with a new one"
        )
    return ok("ledger", f"{file} is sound and can be written")


def check_disk(ledger: str | None, least_mb: float, environment: Mapping[str, str]) -> Line:
    """Free space where the bridge writes: ledger, ROS logs, and the middleware's shared memory."""
    logs = environment.get("ROS_LOG_DIR") or os.path.join(environment.get("ROS_HOME") or "~/.ros", "log")
    places = {"ROS logs": Path(logs).expanduser(), "temporary files": Path(tempfile.gettempdir())}
    if ledger is not None:
        places["ledger"] = Path(ledger).expanduser()
    scarce, least = [], None
    for use, path in places.items():
        there = next((folder for folder in (path, *path.parents) if folder.exists()), Path("/"))
        free_mb = shutil.disk_usage(there).free / _MIB
        least = free_mb if least is None else min(least, free_mb)
        if free_mb < least_mb:
            scarce.append(f"{free_mb:.0f} MB left for {use} in {there}")
    if scarce:
        return failed(
            "disk", "; ".join(scarce), f"free some space; {least_mb:g} MB are wanted (--min-free-mb)"
        )
    shared = Path("/dev/shm")  # noqa: S108 - measured, not written
    if shared.is_dir() and shutil.disk_usage(shared).free / _MIB < SHM_LEAST_MB:
        return warning(
            "disk",
            f"{shutil.disk_usage(shared).free / _MIB:.0f} MB left in {shared}, which Fast DDS uses",
            "remove files of processes that are gone (fastdds shm clean); containers: a larger --shm-size",
        )
    return ok("disk", f"{least:.0f} MB free")
