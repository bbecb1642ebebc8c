"""A robot's context as text for a language model's prompt: byte for byte the protocol's own form (R45).

Names come from the robot, so they are data that a stranger may have written. Characters that end a line,
cannot be seen or reorder what is read are taken out of them, and no name is longer than
:data:`MAX_NAME_CHARS`: each fact stays on its own line (R46).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robot_mcp_kit.rcp.models import IOSignal, RobotContext

FIRST_LINE = "CONNECTED ROBOT (live data via RCP):"
NAMED_SIGNALS = 8
"""So many of each direction are named; the count tells of the others."""
MAX_NAME_CHARS = 256
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def plain_name(text: object) -> str:
    """A name from the robot without what could end a line or hide; spaces for line ends and tabs."""
    kept = "".join(
        char if unicodedata.category(char) not in _UNSEEN else " " if char.isspace() else ""
        for char in str(text)[: MAX_NAME_CHARS * 4]
    )
    return kept if len(kept) <= MAX_NAME_CHARS else kept[: MAX_NAME_CHARS - 1] + "…"


def prompt_block(context: RobotContext, missing: Mapping[str, str] | None = None) -> str:
    """The block; empty without identity, as the protocol has it.

    Args:
        context: what was read.
        missing: part of the context to why it could not be read. Each gets a line of its own after the
            protocol's, so that nobody takes "not read" for "there is none" (R13). With it, what else is known
            is told even without identity.
    """
    if context.identity is None and not missing:
        return ""
    told = (
        f"  Not available: {plain_name(part)} ({plain_name(why)})" for part, why in (missing or {}).items()
    )
    return "\n".join([FIRST_LINE, *_facts(context), *told])


def _facts(context: RobotContext) -> Iterator[str]:
    identity, tcp = context.identity, context.tcp
    if identity is not None:
        yield f"  Model: {plain_name(identity.manufacturer)} {plain_name(identity.model)}"
        yield f"  Controller: {plain_name(identity.controller)}"
        yield f"  Firmware: {plain_name(identity.firmware)}"
        yield f"  Serial: {plain_name(identity.serial)}"
        yield f"  Payload: {identity.payload_kg} kg | Reach: {identity.reach_mm} mm"
    if tcp is not None:
        place = f"X={tcp.x:.1f} Y={tcp.y:.1f} Z={tcp.z:.1f}"
        yield f"  Current TCP: {place} Rx={tcp.rx:.2f} Ry={tcp.ry:.2f} Rz={tcp.rz:.2f}"
    if context.joints:
        positions = (f"{plain_name(joint.name)}={joint.position_deg:.1f}" for joint in context.joints)
        yield f"  Current joints: {', '.join(positions)}"
        limits = (f"{plain_name(one.name)}: {one.min_deg:.0f} to {one.max_deg:.0f}" for one in context.joints)
        yield f"  Joint limits: {', '.join(limits)}"
    signals = context.io.signals
    yield from _levels("inputs", [one for one in signals if one.signal_type == "digital_input"])
    yield from _levels("outputs", [one for one in signals if one.signal_type == "digital_output"])
    loaded = next((program for program in context.programs if program.loaded), None)
    if loaded is not None:
        yield f"  Loaded program: {plain_name(loaded.name)}{' (RUNNING)' if loaded.running else ''}"
    for tool in context.tools:
        offset = f"({tool.tcp_x:.1f},{tool.tcp_y:.1f},{tool.tcp_z:.1f})"
        yield f"  Tool: {plain_name(tool.name)} TCP={offset} mass={tool.mass_kg:.1f}kg"


def _levels(direction: str, signals: list[IOSignal]) -> Iterator[str]:
    if signals:
        named = signals[:NAMED_SIGNALS]
        levels = (f"{plain_name(one.name)}={'HIGH' if one.value else 'LOW'}" for one in named)
        yield f"  Digital {direction} ({len(signals)}): {', '.join(levels)}"
