"""What a check found: one line for a person, the same as data."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from robot_mcp_kit.skills.text import clean_text

Level = Literal["ok", "warning", "FAILED", "skipped"]

_COLOURS = {"ok": "\x1b[32m", "warning": "\x1b[33m", "FAILED": "\x1b[1;31m", "skipped": "\x1b[2m"}
_RESET = "\x1b[0m"
_LEVEL_COLUMNS, _NAME_COLUMNS = 9, 13
_MAX_CHARACTERS = 800


@dataclass(frozen=True, slots=True)
class Line:
    """One check.

    ``text`` is what was found, ``fix`` what to do about it (one entry a step). ``skipped`` means: could not
    be looked at because of a fault in an earlier line, or does not apply.
    """

    name: str
    level: Level
    text: str
    fix: tuple[str, ...] = ()


def ok(name: str, text: str) -> Line:
    return Line(name, "ok", text)


def warning(name: str, text: str, *fix: str) -> Line:
    return Line(name, "warning", text, fix)


def failed(name: str, text: str, *fix: str) -> Line:
    return Line(name, "FAILED", text, fix)


def skipped(name: str, text: str) -> Line:
    return Line(name, "skipped", text)


def any_failed(lines: Iterable[Line]) -> bool:
    return any(line.level == "FAILED" for line in lines)


def as_data(lines: Sequence[Line]) -> dict[str, Any]:
    """For ``--json``."""
    return {"ok": not any_failed(lines), "checks": [asdict(line) for line in lines]}


def rendered(line: Line, *, columns: int, colour: bool) -> str:
    """One check as text, wrapped to the terminal."""
    indent = " " * (_LEVEL_COLUMNS + _NAME_COLUMNS)
    width = max(columns, 60)
    first = f"{line.level:{_LEVEL_COLUMNS}}{line.name:{_NAME_COLUMNS}}"
    # What others wrote (a topic's name, a receiver's answer) must not move the cursor.
    rows = textwrap.wrap(
        clean_text(line.text, _MAX_CHARACTERS), width, initial_indent=first, subsequent_indent=indent
    )
    for step in line.fix:
        rows += textwrap.wrap(
            clean_text(step, _MAX_CHARACTERS),
            width,
            initial_indent=f"{indent}-> ",
            subsequent_indent=f"{indent}   ",
        )
    if colour:
        rows[0] = rows[0].replace(line.level, f"{_COLOURS[line.level]}{line.level}{_RESET}", 1)
    return "\n".join(rows)


def summary(lines: Sequence[Line]) -> str:
    """The last row."""
    counts = {level: sum(line.level == level for line in lines) for level in ("ok", "warning", "FAILED")}
    words = f"{len(lines)} checks: {counts['ok']} ok, {counts['warning']} warnings, {counts['FAILED']} FAILED"
    left_out = sum(line.level == "skipped" for line in lines)
    return words + (f", {left_out} not possible or not needed" if left_out else "")


def show(lines: Sequence[Line], *, columns: int, colour: bool) -> None:
    """Print all of it."""
    for line in lines:
        print(rendered(line, columns=columns, colour=colour))
    print(summary(lines), flush=True, file=sys.stdout)
