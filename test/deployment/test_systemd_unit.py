"""The systemd unit: what it promises, and that its command line starts the node (B39)."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

CONFIG = Path(__file__).parents[2] / "config"
UNIT = CONFIG / "robot-mcp-kit.service"
ENVIRONMENT = CONFIG / "bridge.env"


def settings() -> dict[str, dict[str, list[str]]]:
    """Section -> key -> values in order; a key may be given several times."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(section, {}).setdefault(key, []).append(value)
    return found


def environment_file() -> dict[str, str]:
    found = {}
    for line in ENVIRONMENT.read_text().splitlines():
        if line and not line.startswith("#"):
            [(name, value)] = [tuple(shlex.split(line)[0].split("=", 1))]
            found[name] = value
    return found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("NoNewPrivileges", "yes"),
        ("PrivateTmp", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "read-only"),
        ("PrivateDevices", "yes"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectKernelModules", "yes"),
        ("ProtectControlGroups", "yes"),
        ("RestrictNamespaces", "yes"),
        ("RestrictSUIDSGID", "yes"),
        ("LockPersonality", "yes"),
        ("SystemCallArchitectures", "native"),
        ("SystemCallFilter", "@system-service"),
        ("CapabilityBoundingSet", ""),
    ],
)
def test_the_service_is_hardened(key: str, value: str) -> None:
    """B39."""
    assert settings()["Service"][key] == [value]


def test_it_does_not_run_as_root_and_writes_only_its_own_folders() -> None:
    service = settings()["Service"]
    assert service["User"] == service["Group"] == ["robot-mcp"]
    assert service["StateDirectory"] == service["LogsDirectory"] == ["robot-mcp-kit"]
    assert "ReadWritePaths" not in service


def test_shared_memory_and_discovery_of_the_middleware_are_left_to_it() -> None:
    """Fast DDS talks over /dev/shm and reads the interfaces over netlink; a private IPC would cut it off."""
    service = settings()["Service"]
    assert "PrivateIPC" not in service
    assert "PrivateNetwork" not in service
    assert "AF_NETLINK" in service["RestrictAddressFamilies"][0].split()


def test_a_crash_is_restarted_for_ever_and_a_wrong_configuration_is_not() -> None:
    """B39."""
    parts = settings()
    service = parts["Service"]
    assert service["Restart"] == ["on-failure"]
    assert service["RestartPreventExitStatus"] == ["2"]
    assert parts["Unit"]["StartLimitIntervalSec"] == ["0"]
    assert int(service["TimeoutStopSec"][0]) > 5, "the node stops its motions and flushes events in under 5 s"


def test_no_secret_is_in_the_unit_and_the_environment_file_names_them() -> None:
    assert "SECRET" not in UNIT.read_text()
    assert "TOKEN" not in UNIT.read_text()
    assert settings()["Service"]["EnvironmentFile"] == ["/etc/robot-mcp-kit/bridge.env"]
    assert environment_file()["RVC_EVENT_SECRET"] == ""
    assert "#ROBOT_MCP_TOKEN=" in ENVIRONMENT.read_text()


def run_command_line(tmp_path: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """The unit's ExecStart as systemd would run it, with a Python that only says what it got."""
    [command] = settings()["Service"]["ExecStart"]
    words = [word.replace("$$", "$") for word in shlex.split(command)]
    speaker = tmp_path / "python3"
    speaker.write_text('#!/bin/sh\necho "$WORKSPACE:" "$@"\n')
    speaker.chmod(0o755)
    setup = tmp_path / "setup.bash"
    setup.write_text("export WORKSPACE=${WORKSPACE:-}sourced\nfalse\n")
    environment = {
        **environment_file(),
        "PATH": os.environ["PATH"],
        "ROBOT_MCP_SETUP": f"{setup} {setup}",
        "ROBOT_MCP_PYTHON": str(speaker),
        **changes,
    }
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_the_command_line_sources_every_script_and_passes_the_options_on(tmp_path: Path) -> None:
    done = run_command_line(tmp_path)
    assert done.returncode == 0, done.stderr
    options = "--skills /etc/robot-mcp-kit/skills.yaml --log-format json"
    assert done.stdout == f"sourcedsourced: -m robot_mcp_kit run {options}\n"


def test_a_setup_script_that_is_not_there_ends_it_with_2_and_its_name(tmp_path: Path) -> None:
    done = run_command_line(tmp_path, ROBOT_MCP_SETUP="/no/such/setup.bash")
    assert done.returncode == 2
    assert "/no/such/setup.bash cannot be read" in done.stderr


def test_the_options_of_the_environment_file_are_ones_that_run_knows(tmp_path: Path) -> None:
    from robot_mcp_kit.cli import build_parser

    args = build_parser().parse_args(["run", *environment_file()["ROBOT_MCP_OPTIONS"].split()])
    assert args.log_format == "json"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_systemd_finds_no_fault_in_it(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # Verifying wants the user to exist.
    unit.write_text(
        UNIT.read_text().replace("User=robot-mcp", "User=root").replace("Group=robot-mcp", "Group=root")
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert complaints == []
