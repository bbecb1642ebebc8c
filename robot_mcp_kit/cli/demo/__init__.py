"""``robot-mcp-kit demo``: the whole story on this machine, with a simulated robot."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robot_mcp_kit.cli.common import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    CliError,
    default_skills_file,
    existing_file,
    require,
    require_ros,
)

if TYPE_CHECKING:
    from robot_mcp_kit.cli.demo.checks import Evidence
    from robot_mcp_kit.cli.demo.story import Stage, StorySettings

WATCH_FACTOR = 2.0
ONCE_FACTOR = 4.0

HELP = "watch a tool call drive a simulated robot"
DESCRIPTION = """\
Start a simulated robot, the bridge and a verifying event receiver, call navigate_to as an MCP client, and
show what happens: progress, the time left, the trigger before arrival, the end, and where the robot really
is. Uses free ports and a ROS domain of its own; a robot on this network does not notice. Exit code 0 only
if every
check holds."""
EPILOG = """\
examples:
  robot-mcp-kit demo
  robot-mcp-kit demo --keep
  robot-mcp-kit demo --once --json
  robot-mcp-kit demo --once --fault blocked_doors=kitchen_door     (a drive that fails: exit code 1)

Checks of --json: accepted, at_least_three_progress_events, eta_falls, eta_below_fired_exactly_once,
task_done,
all_signatures_valid, seq_contiguous, final_pose_within_tolerance."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--once", action="store_true", help="no live view: plain lines, faster, end after one drive"
    )
    parser.add_argument(
        "--json", action="store_true", help="exactly one JSON object on standard output (implies --once)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="stay afterwards, so that you can connect your own client"
    )
    parser.add_argument(
        "--real-time-factor",
        type=float,
        metavar="X",
        help=f"simulated seconds a second (default: {WATCH_FACTOR:g} to watch, {ONCE_FACTOR:g} with --once)",
    )
    parser.add_argument("--place", default="kitchen", help="where to drive (default: kitchen)")
    parser.add_argument(
        "--skills", metavar="FILE", help="another skills file (default: the one of the demo robot)"
    )
    parser.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="longest drive, wall seconds (default: 120)"
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a fault of the simulated robot, such as blocked_doors=kitchen_door; may be given again",
    )


def execute(args: argparse.Namespace) -> int:
    headless = args.once or args.json
    factor = args.real_time_factor or (ONCE_FACTOR if headless else WATCH_FACTOR)
    if not (0 < factor <= 100):
        raise CliError(f"--real-time-factor {factor:g}: must be above 0 and at most 100.")
    if not (math.isfinite(args.timeout) and args.timeout > 0):
        raise CliError(f"--timeout {args.timeout:g}: must be above 0.")
    if args.keep and headless:
        raise CliError("--keep stays for a person, --once ends by itself: choose one.")
    faults = dict(parse_fault(text) for text in args.fault)
    skills = existing_file(args.skills, "--skills") if args.skills else str(default_skills_file())
    require_ros("robot-mcp-kit demo")
    require("mcp", "The demo", "mcp")
    if not args.json:
        require("rich", "The view", "mcp")
    from robot_mcp_kit.cli.demo.story import DemoError, StorySettings, evidence_for

    settings = StorySettings(
        skills_file=Path(skills),
        place=args.place,
        real_time_factor=factor,
        timeout_s=args.timeout,
        sim_parameters=faults,
    )
    try:
        evidence = evidence_for(settings)
    except DemoError as error:
        raise CliError(str(error)) from error
    return asyncio.run(_until_signalled(args, settings, evidence))


def parse_fault(text: str) -> tuple[str, Any]:
    """``blocked_doors=kitchen_door,office_door`` → ("blocked_doors", [...]); ``slow_down=0.5``,
    ``stuck=true``.

    Raises:
        CliError: names the fault and what exists.
    """
    from robot_mcp_kit.sim.faults import FIELDS, default

    name, equals, value = text.partition("=")
    if name not in FIELDS or not equals:
        raise CliError(f"--fault {text}: write NAME=VALUE with one of the names {', '.join(FIELDS)}.")
    kind = type(default(name))
    try:
        if kind is list:
            return name, [item for item in value.split(",") if item]
        if kind is bool:
            return name, {"true": True, "false": False}[value.lower()]
        return name, kind(value)
    except (ValueError, KeyError):
        raise CliError(f"--fault {text}: {name} wants a value of type {kind.__name__}.") from None


async def _until_signalled(args: argparse.Namespace, settings: StorySettings, evidence: Evidence) -> int:
    """Run the demo; SIGINT and SIGTERM cancel it, so that every child is ended before this process is."""
    loop = asyncio.get_running_loop()
    work = loop.create_task(
        _run_json(settings, evidence) if args.json else _run_shown(args, settings, evidence)
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        return EXIT_INTERRUPTED


async def _run_json(settings: StorySettings, evidence: Evidence) -> int:
    from robot_mcp_kit.cli.demo.checks import report
    from robot_mcp_kit.cli.demo.story import DemoError, log_directory, stage, tell

    logs = log_directory()
    try:
        async with stage(settings, logs, _to_stderr) as on:
            await tell(settings, evidence, on, lambda _receipt: None, _to_stderr)
        content = report(evidence)
    except DemoError as error:
        content = {"ok": False, "checks": {}, "error": str(error)}
    content["logs"] = None if content["ok"] else str(logs)
    print(json.dumps(content, allow_nan=False))
    if content["ok"]:
        _remove(logs)
        return EXIT_OK
    failed = [name for name, held in content["checks"].items() if not held]
    _to_stderr(f"FAILED: {', '.join(failed) or content['error']}. Logs: {logs}")
    return EXIT_FAILED


async def _run_shown(args: argparse.Namespace, settings: StorySettings, evidence: Evidence) -> int:
    from rich.console import Console

    from robot_mcp_kit.cli.board import TaskBoard
    from robot_mcp_kit.cli.demo.checks import report
    from robot_mcp_kit.cli.demo.story import DemoError, log_directory, stage, tell

    console = Console(highlight=False, soft_wrap=True, force_terminal=False if args.once else None)
    logs = log_directory()
    try:
        async with contextlib.AsyncExitStack() as stack:
            with TaskBoard(console) as board:
                on = await stack.enter_async_context(stage(settings, logs, board.say))
                await tell(settings, evidence, on, board.show, board.say)
            content = report(evidence)
            _show_report(console, evidence, content)
            if args.keep:
                await _stay(console, on)
    except DemoError as error:
        console.print(f"The demo could not be run: {error}", markup=False, style="red")
        return EXIT_FAILED
    if content["ok"]:
        _remove(logs)
        return EXIT_OK
    console.print(f"Logs of the bridge and the others: {logs}", markup=False)
    return EXIT_FAILED


def _show_report(console: Any, evidence: Evidence, content: dict[str, Any]) -> None:
    measured, timings = content["measured"], content["timings"]
    pose = measured["pose"]
    console.print()
    if pose is None:
        console.print("The robot's pose could not be measured.", style="red")
    else:
        console.print(
            f"Measured pose ({pose['x_m']:.2f}, {pose['y_m']:.2f}) m, yaw {pose['yaw_rad']:.2f} rad: "
            f"{measured['error_m']:.2f} m from the place (tolerance {measured['tolerance_m']:g} m).",
            markup=False,
        )
    words = [
        f"{label} {timings[key] * 1000:.0f} ms"
        for label, key in (
            ("tool answered after", "call_to_task_info_s"),
            ("goal accepted after", "call_to_accepted_s"),
        )
        if timings[key] is not None
    ]
    if timings["total_s"] is not None:
        words.append(f"whole drive {timings['total_s']:.1f} s")
    console.print("; ".join(words), markup=False)
    final = evidence.final_task or {}
    failure = final.get("failure")
    if failure:
        console.print(f"{failure['error_code']}: {failure['message']}", markup=False, style="red")
    for name, held in content["checks"].items():
        mark, style = ("✓", "green") if held else ("✗", "bold red")
        console.print(f" {mark} {name.replace('_', ' ')}", style=style, markup=False)


async def _stay(console: Any, on: Stage) -> None:
    from robot_mcp_kit.cli.board import TaskBoard

    console.print()
    console.print(f"The robot stays. MCP endpoint: {on.mcp_url}", style="bold", markup=False)
    console.print(
        'In a client\'s configuration: {"mcpServers": {"robot": {"url": "' + on.mcp_url + '"}}}', markup=False
    )
    console.print(
        f"ROS: export ROS_DOMAIN_ID={on.domain_id} ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST", markup=False
    )
    console.print(
        f"What waits for a person, and how to let it: robot-mcp-kit approve --state-dir {on.state_dir}",
        markup=False,
    )
    console.print("Events are shown as they come. Ctrl-C ends it.", markup=False)
    with TaskBoard(console) as board:
        while True:
            board.show(await on.receipts.get())


def _to_stderr(text: str, _style: str = "") -> None:
    print(text, file=sys.stderr, flush=True)


def _remove(logs: Path) -> None:
    for file in logs.iterdir():
        file.unlink()
    logs.rmdir()
