"""proMCP's own linter (promcp 0.5.2) as an oracle: in an environment of its own, asked as a command.

    python test/compat/promcp_oracle.py tools.json      # set up if needed, lint in strict mode
    python test/compat/promcp_oracle.py --where         # set up if needed, print the command's path

The package is no dependency of the kit: it comes from the package registry into a cache folder
(``ROBOT_MCP_KIT_COMPAT_DIR``, or ``~/.cache/robot-mcp-kit/compat``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

REQUIREMENT = "promcp==0.5.2"
SETUP_BOUND_S = 180


class OracleUnavailableError(RuntimeError):
    """It could not be installed; says why."""


def folder() -> Path:
    given = os.environ.get("ROBOT_MCP_KIT_COMPAT_DIR")
    return Path(given) if given else Path.home() / ".cache" / "robot-mcp-kit" / "compat"


def ensure() -> Path:
    """The linter's command, installed if it was not.

    Raises:
        OracleUnavailableError: the registry cannot be reached, or does not have it.
    """
    home = folder() / REQUIREMENT.replace("==", "-")
    command = home / "bin" / "promcp-lint"
    if command.exists():
        return command
    venv.create(home, with_pip=True, clear=True)
    try:
        subprocess.run(
            [
                home / "bin" / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                REQUIREMENT,
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=SETUP_BOUND_S,
        )
    except subprocess.TimeoutExpired as error:
        raise OracleUnavailableError(
            f"installing {REQUIREMENT} took longer than {SETUP_BOUND_S} s"
        ) from error
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.strip().splitlines() if line][-1:]
        raise OracleUnavailableError(f"{REQUIREMENT} could not be installed: {' '.join(said)}") from error
    return command


def ask(command: Path, tools: list[dict[str, Any]], file: Path) -> dict[str, Any]:
    """What the linter says of these tools in strict mode, with its exit code as ``exit_code``."""
    file.write_text(json.dumps({"tools": tools}))
    done = subprocess.run(
        [command, "--strict", "--json", file], capture_output=True, text=True, timeout=60, check=False
    )
    # A file that it cannot read ends in a traceback and no JSON.
    return {**json.loads(done.stdout), "exit_code": done.returncode}


_MANY = """
import contextlib, io, json, sys
from promcp.linter.cli import main
for file in sys.argv[1:]:
    said, sys.argv = io.StringIO(), ["promcp-lint", "--strict", "--json", file]
    try:
        with contextlib.redirect_stdout(said):
            code = main()
    except SystemExit as end:
        code = end.code
    print(json.dumps({**json.loads(said.getvalue()), "exit_code": code or 0}))
"""
"""The command's own entry point for one file after the other: a process for each would take minutes."""


def ask_many(command: Path, many: dict[str, list[dict[str, Any]]], folder: Path) -> dict[str, dict[str, Any]]:
    """As :func:`ask` for many lists of tools, in one process."""
    files = {name: folder / f"{number}.json" for number, name in enumerate(many)}
    for name, file in files.items():
        file.write_text(json.dumps({"tools": many[name]}))
    done = subprocess.run(
        [command.with_name("python"), "-c", _MANY, *files.values()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return dict(zip(files, map(json.loads, done.stdout.splitlines()), strict=True))


def codes(verdict: dict[str, Any]) -> set[str]:
    """Every code in a verdict."""
    findings = [*verdict["server"], *(found for tool in verdict["tools"] for found in tool["findings"])]
    return {finding["code"] for finding in findings}


def main(arguments: list[str]) -> int:
    try:
        command = ensure()
    except OracleUnavailableError as error:
        print(error, file=sys.stderr)
        return 3
    if arguments == ["--where"]:
        print(command)
        return 0
    return subprocess.run([command, "--strict", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
