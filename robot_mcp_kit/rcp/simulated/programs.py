"""The simulated controller's programs: one instruction a line, ``#`` begins a comment.

::

    movej 0 -45 90 0 45 0        # degrees, one for each joint
    movel 600 0 500 180 0 90     # mm and degrees: x y z rx ry rz
    set gripper 1
    wait 0.5                     # seconds
    home
"""

from __future__ import annotations

import math
from dataclasses import dataclass

JOINTS = 6
MAX_WAIT_S = 600.0
_COUNTS = {"movej": JOINTS, "movel": 6, "wait": 1, "home": 0}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line that does something."""

    line: int
    word: str
    """``movej``, ``movel``, ``set``, ``wait``, ``home``."""
    numbers: tuple[float, ...] = ()
    signal: str = ""


def parse(code: str, outputs: frozenset[str]) -> tuple[list[Instruction], list[str], list[str]]:
    """The instructions, what is wrong, and what is odd. With anything wrong the program is not run."""
    found: list[Instruction] = []
    errors: list[str] = []
    for number, text in enumerate(code.splitlines(), start=1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        try:
            found.append(_instruction(number, words, outputs))
        except ValueError as error:
            errors.append(f"line {number}: {error}")
    warnings = [] if found or errors else ["the program does nothing"]
    return found, errors, warnings


def _instruction(line: int, words: list[str], outputs: frozenset[str]) -> Instruction:
    word, rest = words[0], words[1:]
    if word == "set":
        if len(rest) != 2:
            raise ValueError("set needs a signal and a value")
        if rest[0] not in outputs:
            raise ValueError(f"{rest[0]} is no output; there are {', '.join(sorted(outputs))}")
        return Instruction(line, word, (_number(rest[1]),), rest[0])
    if word not in _COUNTS:
        raise ValueError(f"{word} is no instruction; there are {', '.join([*_COUNTS, 'set'])}")
    if len(rest) != _COUNTS[word]:
        raise ValueError(f"{word} needs {_COUNTS[word]} numbers, not {len(rest)}")
    numbers = tuple(_number(one) for one in rest)
    if word == "wait" and not 0 <= numbers[0] <= MAX_WAIT_S:
        raise ValueError(f"wait needs 0 to {MAX_WAIT_S:g} seconds")
    return Instruction(line, word, numbers)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text} is no number") from None
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value
