"""``robot-mcp-kit lint``: check tool descriptions of any MCP server."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from typing import Any

from robot_mcp_kit.cli.common import EXIT_FAILED, EXIT_OK, CliError, require
from robot_mcp_kit.server.listening import TOKEN_VARIABLE

HELP = "check the tools of an MCP server against proMCP, and their units"
DESCRIPTION = """\
Check names, descriptions and schemas of a server's tools: proMCP's rules (read_, do_, can_do), and that no
number is a length, angle, speed or time without saying so in its name. Nothing is called. The source is a
.json or .yaml file (what tools/list answers), a .py file (it is run), or the URL of an MCP endpoint."""
EPILOG = """\
examples:
  robot-mcp-kit lint tools.json --strict
  robot-mcp-kit lint http://127.0.0.1:8765/promcp/move/mcp --strict --json
  robot-mcp-kit lint http://127.0.0.1:8765/mcp --rules units

exit codes: 0 passes; 1 errors (with --strict warnings too); 2 the tools could not be read.
A bearer token for a URL is read from the environment variable ROBOT_MCP_TOKEN."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE|URL", help="where the tools are described")
    parser.add_argument("--strict", action="store_true", help="warnings fail too")
    parser.add_argument("--json", action="store_true", help="one JSON object, as proMCP's own linter prints")
    parser.add_argument(
        "--rules",
        choices=("promcp", "units"),
        default="promcp",
        help="promcp (default): all rules; units: only units, frames and descriptions, for servers whose "
        "tools are not read_ and do_",
    )


def execute(args: argparse.Namespace) -> int:
    from robot_mcp_kit.promcp.lint import lint_server
    from robot_mcp_kit.promcp.load import LoadError, load_tools

    try:
        if args.source.startswith(("http://", "https://")):
            tools = asyncio.run(_from_url(args.source))
        else:
            tools = load_tools(args.source)
    except LoadError as error:
        raise CliError(str(error)) from error
    report = lint_server(tools, triad=args.rules == "promcp")
    passes = report.passes(strict=args.strict)
    if args.json:
        print(json.dumps(report.to_dict(strict=args.strict), ensure_ascii=False, indent=2))
        return EXIT_OK if passes else EXIT_FAILED
    for where, findings in [("server", report.server), *report.tools]:
        print(f"{where}: {'ok' if not findings else ''}".rstrip(": ") if findings else f"{where}: ok")
        for finding in findings:
            print(f"  {finding.severity:<7} {finding.code:<5} {finding.message}")
    print(
        f"{len(tools)} tools, {report.count('error')} errors, {report.count('warning')} warnings: "
        f"{'passes' if passes else 'does not pass'}"
    )
    return EXIT_OK if passes else EXIT_FAILED


async def _from_url(url: str) -> list[dict[str, Any]]:
    require("mcp", "Reading the tools of an endpoint", "mcp")
    from robot_mcp_kit.client.session import connect

    tools: list[dict[str, Any]] = []
    try:
        async with connect(url, token=os.environ.get(TOKEN_VARIABLE) or None) as session:
            cursor: str | None = None
            while True:
                page = await session.client.list_tools(cursor=cursor)
                tools += [
                    tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools
                ]
                cursor = page.next_cursor
                if cursor is None:
                    break
    except Exception as error:  # the SDK wraps what happened in groups of its own
        print(f"robot-mcp-kit lint: {error!r}", file=sys.stderr)
        raise CliError(f"{url}: no MCP endpoint answered there") from error
    if not tools:
        raise CliError(f"{url}: the server has no tools")
    return tools
