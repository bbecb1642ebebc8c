"""``robot-mcp-kit rcp``: serve a robot over the Robot Context Protocol."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robot_mcp_kit.cli.common import EXIT_OK, CliError, require

if TYPE_CHECKING:
    from robot_mcp_kit.rcp.adapter import RCPAdapter
    from robot_mcp_kit.rcp.server import RCPServerSettings

HELP = "serve a robot over the Robot Context Protocol (JSON-RPC over WebSocket)"
DESCRIPTION = """\
Connect an adapter to its controller and serve it to clients on this machine. Reading and stop go through at
once; whatever sets or moves something waits for a person (robot-mcp-kit approve), passes the interlocks and
is written into the audit trail. Needs neither ROS nor MCP."""
EPILOG = """\
examples:
  robot-mcp-kit rcp --simulated
  robot-mcp-kit rcp --adapter my_robot:MyRobotAdapter --config '{"host": "192.168.0.10"}'
  robot-mcp-kit rcp --adapter examples/rcp_adapter.py:LineAdapter --config @cell.json --name cell_3

ROBOT_MCP_RCP_TOKEN in the environment: clients must send it (Authorization: Bearer ...); needed for any other
--host than loopback. Exit codes: 0 ended by a signal; 2 the adapter or the address cannot be used."""
SIMULATED = "robot_mcp_kit.rcp.simulated:SimulatedAdapter"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--adapter", metavar="MODULE:CLASS", help="an RCPAdapter; or FILE.py:CLASS")
    which.add_argument("--simulated", action="store_true", help="a simulated six-axis robot")
    parser.add_argument(
        "--config", metavar="JSON", default="{}", help="for the adapter's connect; @FILE reads a file"
    )
    parser.add_argument("--name", default="rcp", help="name of the robot's state directory (default: rcp)")
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="where the audit trail and the operator's key are kept (default: ROBOT_MCP_STATE_DIR, else one "
        "under ~/.local/state/robot-mcp-kit)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=9796, help="TCP port (default: 9796; 0: any free one)")


def execute(args: argparse.Namespace) -> int:
    require("websockets", "The RCP server", "rcp")
    require("yaml", "The RCP server", "rcp")
    adapter = load_adapter(SIMULATED if args.simulated else args.adapter)
    config = read_config(args.config)
    from pydantic import ValidationError

    from robot_mcp_kit.errors import ConfigError
    from robot_mcp_kit.rcp.errors import RCPError
    from robot_mcp_kit.rcp.server import RCPServerSettings
    from robot_mcp_kit.rcp.server.settings import TOKEN_VARIABLE
    from robot_mcp_kit.safety.state_dir import STATE_DIR_VARIABLE, state_home

    given = args.state_dir or os.environ.get(STATE_DIR_VARIABLE, "").strip()
    state_dir = Path(given).expanduser() if given else state_home() / "rcp" / args.name
    token = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        settings = RCPServerSettings.model_validate({"host": args.host, "port": args.port, "token": token})
        asyncio.run(_serve(adapter, config, state_dir, args.name, settings))
    except ValidationError as error:
        first = error.errors()[0]
        raise CliError(f"--{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ConfigError, RCPError) as error:
        raise CliError(str(error)) from error
    return EXIT_OK


async def _serve(
    adapter: RCPAdapter, config: Mapping[str, Any], state_dir: Path, name: str, settings: RCPServerSettings
) -> None:
    from robot_mcp_kit.rcp.assemble import guarded_robot
    from robot_mcp_kit.rcp.server import RCPServer
    from robot_mcp_kit.safety.assemble import operator_key
    from robot_mcp_kit.safety.state_dir import announce, withdraw

    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    key = operator_key(state_dir)
    async with guarded_robot(adapter, state_dir, name=name, key=key) as robot:
        if not await _unless(end, robot.connect(config)):
            return
        server = RCPServer(robot, settings.model_copy(update={"operator_key": key}))
        async with server.running():
            announce(state_dir, server.url)
            try:
                print(f"{(await robot.discover()).label} at {server.url}, state in {state_dir}", flush=True)
                await end.wait()
            finally:
                withdraw(state_dir)


async def _unless(end: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Whether ``work`` was done before somebody asked for the end."""
    doing, ending = asyncio.create_task(work), asyncio.create_task(end.wait())
    try:
        await asyncio.wait([doing, ending], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return False
        doing.result()
        return True
    finally:
        doing.cancel()
        ending.cancel()


def load_adapter(named: str) -> RCPAdapter:
    """A new adapter from ``module:Class`` or ``file.py:Class``.

    Raises:
        CliError: it is not there, or is no adapter; says why.
    """
    from robot_mcp_kit.rcp.adapter import RCPAdapter

    where, _, name = named.rpartition(":")
    if not where or not name:
        raise CliError(f"--adapter {named}: write MODULE:CLASS, for example my_robot:MyRobotAdapter.")
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else _from_module(where)
    except ImportError as error:
        raise CliError(f"--adapter {named}: {where} cannot be imported: {error}") from error
    made = getattr(module, name, None)
    if not (isinstance(made, type) and issubclass(made, RCPAdapter)):
        raise CliError(f"--adapter {named}: {name} is no subclass of robot_mcp_kit.rcp.RCPAdapter.")
    try:
        return made()
    except TypeError as error:
        raise CliError(f"--adapter {named}: it cannot be made: {error}") from error


def _from_module(name: str) -> Any:
    # As `python -m` does: a module beside the caller is found.
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise ImportError("there is no such file")
    spec = importlib.util.spec_from_file_location(f"rcp_adapter_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def read_config(text: str) -> dict[str, Any]:
    """The adapter's configuration from JSON, or from a file with JSON in it.

    Raises:
        CliError: it cannot be read, or is no object.
    """
    try:
        content = Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
        data = json.loads(content)
    except (OSError, ValueError) as error:
        raise CliError(f"--config: {error}") from error
    if not isinstance(data, dict):
        raise CliError('--config: must be a JSON object, for example {"host": "192.168.0.10"}.')
    return data
