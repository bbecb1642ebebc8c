"""``${VAR}`` and ``${VAR:-default}`` in definitions, and which stretch of a text came from which variable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from robot_mcp_kit.client.secrecy import is_credential_name, mask

_TEMPLATE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Stretch:
    """``text[start:end]`` came from the variable (its default included)."""

    start: int
    end: int
    variable: str

    @property
    def secret(self) -> bool:
        return is_credential_name(self.variable)


@dataclass(frozen=True, slots=True)
class Expanded:
    """A text after expansion, with the record that tells its secrets. Its repr shows none."""

    text: str = field(repr=False)
    stretches: tuple[Stretch, ...] = ()
    unset: tuple[str, ...] = ()
    """Variables without value and default; their templates stay in the text as they are (A28)."""

    def pieces(self) -> list[str | Stretch]:
        """The text in order: what may be shown as it is, and the secret stretches."""
        found: list[str | Stretch] = []
        at = 0
        for stretch in self.stretches:
            if stretch.secret:
                found += [self.text[at : stretch.start], stretch]
                at = stretch.end
        return [*found, self.text[at:]]

    def shown(self) -> str:
        """The text with every secret stretch replaced."""
        return "".join(piece if isinstance(piece, str) else mask(piece.variable) for piece in self.pieces())

    def secrets(self) -> list[str]:
        """What must not appear anywhere."""
        return [self.text[s.start : s.end] for s in self.stretches if s.secret and s.end > s.start]


def expand(template: str, environment: Mapping[str, str]) -> Expanded:
    """Fill in a template.

    An empty variable takes the default, if there is one; an unset one without default stays."""
    text = ""
    at = 0
    stretches: list[Stretch] = []
    unset: list[str] = []
    for found in _TEMPLATE.finditer(template):
        name, default = found["name"], found["default"]
        text += template[at : found.start()]
        at = found.end()
        value = environment.get(name)
        if default is not None and not value:
            value = default
        if value is None:
            unset.append(name)
            text += found[0]
            continue
        stretches.append(Stretch(len(text), len(text) + len(value), name))
        text += value
    return Expanded(text + template[at:], tuple(stretches), tuple(unset))


def variables(template: str) -> list[str]:
    """The variables that a template names, in order."""
    return [found["name"] for found in _TEMPLATE.finditer(template)]
