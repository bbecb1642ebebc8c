"""What can be set from outside: ROS parameters, and secrets from the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from robot_mcp_kit.bridge.settings import BridgeSettings
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.names import check_server_name
from robot_mcp_kit.ros.parameters import ParameterSpec
from robot_mcp_kit.ros.thread import EXECUTORS
from robot_mcp_kit.server.listening import APPROVAL_SECRET_VARIABLE, OBSERVER_TOKEN_VARIABLE, TOKEN_VARIABLE
from robot_mcp_kit.sqlite_file import SYNC_MODES

_BRIDGE_DEFAULTS = BridgeSettings()

RCP_TOKEN_VARIABLE = "ROBOT_MCP_RCP_TOKEN"  # noqa: S105 - the variable's name
"""As the protocol's server calls it; that room is only imported where it is asked for."""

PARAMETERS: tuple[ParameterSpec, ...] = (
    ParameterSpec(
        "skills_file", "", "YAML file that describes this robot: actions, frames, limits, places, zones"
    ),
    ParameterSpec(
        "server_name", "robot", "Name of this server in events and task ids, as the chat app knows it"
    ),
    ParameterSpec(
        "host", "127.0.0.1", f"Address to listen on; beyond this machine only with {TOKEN_VARIABLE} set"
    ),
    ParameterSpec("port", 8765, "TCP port of the MCP endpoint; 0 takes a free one", 0, 65535),
    ParameterSpec("allowed_hosts", [""], "Further Host headers to answer to, such as robot.local:8765"),
    ParameterSpec(
        "stdio", False, "Speak MCP on stdin and stdout instead of HTTP, for a client that starts us"
    ),
    ParameterSpec("rcp_server", False, "Also serve the Robot Context Protocol, JSON-RPC over WebSocket"),
    ParameterSpec(
        "rcp_host",
        "127.0.0.1",
        f"Address of that server; beyond this machine only with {RCP_TOKEN_VARIABLE} set",
    ),
    ParameterSpec("rcp_port", 9796, "TCP port of that server; 0 takes a free one", 0, 65535),
    ParameterSpec(
        "ledger_file",
        "",
        "File that tasks, idempotency keys and undelivered events outlive a crash in; empty: in memory only",
    ),
    ParameterSpec(
        "ledger_sync",
        "normal",
        "normal: the ledger survives a killed process; full: a power cut too, for disk syncs with each step",
    ),
    ParameterSpec(
        "progress_period_s",
        _BRIDGE_DEFAULTS.progress_period_s,
        "Least time between two progress events",
        0.05,
        60.0,
    ),
    ParameterSpec(
        "feedback_timeout_s",
        _BRIDGE_DEFAULTS.feedback_timeout_s,
        "Silence of a running action after which its task is reported as stalled",
        0.5,
        3600.0,
    ),
    ParameterSpec(
        "server_lost_timeout_s",
        _BRIDGE_DEFAULTS.server_lost_timeout_s,
        "Absence of an action server after which its running goal counts as lost",
        0.5,
        600.0,
    ),
    ParameterSpec(
        "acceptance_timeout_s",
        _BRIDGE_DEFAULTS.acceptance_timeout_s,
        "Time a server may take to accept a goal",
        0.5,
        600.0,
    ),
    ParameterSpec(
        "state_dir",
        "",
        "Directory of the audit trail, the operator's key and the emergency stop; empty: "
        "ROBOT_MCP_STATE_DIR, else one for this node under ~/.local/state/robot-mcp-kit",
    ),
)

END_GRACE_S = 2.5
"""So long a node that ends waits for the confirmations of its cancels, which have left. It has five seconds
in all (B29), for the chat app and the ROS side as well.
"""
EVENTS_GRACE_S = 1.2
"""So long a node that ends tries to deliver its last events; with a ledger on disk the next one goes on."""


LOG_PARAMETERS: tuple[ParameterSpec, ...] = (
    ParameterSpec("log_format", "pretty", "Log lines on stderr: pretty or json"),
    ParameterSpec("log_level", "info", "debug, info, warning or error"),
)

AUTOSTART = ParameterSpec(
    "autostart", True, "Configure and activate by itself; false leaves that to a lifecycle manager"
)

EXECUTOR = ParameterSpec(
    "executor", "auto", "rclpy's executor: auto, events, single_threaded or multi_threaded; read at start"
)

_CHOICES = {"log_format": ("pretty", "json"), "log_level": ("debug", "info", "warning", "error")}


def log_settings(values: dict[str, Any]) -> tuple[str, str]:
    """Format and level of the log.

    Raises:
        ConfigError: names the parameter and what can be chosen.
    """
    for name, choices in _CHOICES.items():
        _check_choice(name, values[name], choices)
    return values["log_format"], values["log_level"]


def executor_setting(values: dict[str, Any]) -> str:
    """Which executor the rclpy thread uses.

    Raises:
        ConfigError: names the parameter and what can be chosen.
    """
    _check_choice(EXECUTOR.name, values[EXECUTOR.name], EXECUTORS)
    return str(values[EXECUTOR.name])


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"parameter {name}: '{value}' is none of {', '.join(choices)}")


class NodeSettings(BaseModel):
    """The parameters, checked. Units are in the names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    skills_file: Path
    server_name: str = Field(min_length=1)
    host: str
    port: int
    allowed_hosts: tuple[str, ...] = ()
    stdio: bool
    token: SecretStr | None = None
    observer_token: SecretStr | None = None
    """Of clients of the proMCP profiles that may look and stop, and move nothing."""
    rcp_server: bool = False
    rcp_host: str = "127.0.0.1"
    rcp_port: int = 9796
    rcp_token: SecretStr | None = None
    ledger_file: Path | None = None
    ledger_sync: str = "normal"
    state_dir: Path | None = None
    approval_secret: SecretStr | None = None
    bridge: BridgeSettings


def settings_from(values: dict[str, Any]) -> NodeSettings:
    """Settings from parameter values and the environment.

    Raises:
        ConfigError: names the parameter.
    """
    values = dict(values)
    if not values["skills_file"]:
        raise ConfigError(
            "parameter skills_file: is empty. Name the YAML file of this robot "
            "(--ros-args -p skills_file:=/path/to/skills.yaml, or robot-mcp-kit run --skills FILE); "
            "config/skills.yaml of this package is the template."
        )
    if values["ledger_sync"] not in SYNC_MODES:
        raise ConfigError(
            f"parameter ledger_sync: '{values['ledger_sync']}' is none of {', '.join(SYNC_MODES)}"
        )
    values["ledger_file"] = values["ledger_file"] or None
    values["state_dir"] = values["state_dir"] or None
    bridge = {name: values.pop(name) for name in list(values) if name in BridgeSettings.model_fields}
    values["allowed_hosts"] = tuple(host for host in values["allowed_hosts"] if host)
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    approval = os.environ.get(APPROVAL_SECRET_VARIABLE, "").strip()
    if token and token == approval:
        raise ConfigError(
            f"{APPROVAL_SECRET_VARIABLE}: is the same as {TOKEN_VARIABLE}, so a client could approve its own "
            "motions; choose another"
        )
    observer = os.environ.get(OBSERVER_TOKEN_VARIABLE, "").strip()
    if observer and not token:
        raise ConfigError(
            f"{OBSERVER_TOKEN_VARIABLE}: without {TOKEN_VARIABLE} no token is asked for, so everybody may "
            "move the robot; set both"
        )
    if observer and observer in (token, approval):
        raise ConfigError(
            f"{OBSERVER_TOKEN_VARIABLE}: is the same as another secret, so it would allow more than to look; "
            "choose another"
        )
    rcp_token = os.environ.get(RCP_TOKEN_VARIABLE, "").strip()
    if rcp_token and rcp_token == approval:
        raise ConfigError(
            f"{RCP_TOKEN_VARIABLE}: is the same as {APPROVAL_SECRET_VARIABLE}, so a client could approve its "
            "own motions; choose another"
        )
    try:
        check_server_name(values["server_name"])
    except ConfigError as error:
        raise ConfigError(f"parameter {error}") from error
    try:
        return NodeSettings(
            **values,
            rcp_token=SecretStr(rcp_token) if rcp_token else None,
            token=SecretStr(token) if token else None,
            observer_token=SecretStr(observer) if observer else None,
            approval_secret=SecretStr(approval) if approval else None,
            bridge=BridgeSettings(**bridge),
        )
    except ValidationError as error:
        # Only where and what: the rest shows the values.
        raise ConfigError(
            "\n".join(
                f"parameter {'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
            )
        ) from None
