"""A definition with its variables filled in, keeping the record of what came from where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from robot_mcp_kit.client.definitions import Definition
from robot_mcp_kit.client.refusals import Refusal
from robot_mcp_kit.client.secrecy import is_credential_name
from robot_mcp_kit.client.templates import Expanded, expand


@dataclass(frozen=True, slots=True)
class Materialized:
    """What runs, or where it connects. The repr shows no value."""

    definition: Definition
    url: Expanded
    headers: Mapping[str, Expanded] = field(repr=False)
    command: Expanded
    args: tuple[Expanded, ...]
    env: Mapping[str, Expanded] = field(repr=False)
    cwd: Expanded | None
    event_secrets: tuple[Expanded, ...] = field(repr=False)
    unset: tuple[Refusal, ...] = ()
    """Variables without a value, one for each field that names them (A28)."""

    @property
    def name(self) -> str:
        return self.definition.name

    def secrets(self) -> list[str]:
        """Every secret in it, for whoever checks that none is shown."""
        found = [secret for text in self._texts() for secret in text.secrets()]
        for values in (self.headers, self.env):
            found += [text.text for key, text in values.items() if is_credential_name(key) and text.text]
        return found + [text.text for text in self.event_secrets if text.text]

    def _texts(self) -> list[Expanded]:
        texts = [self.url, self.command, *self.args, *self.headers.values(), *self.env.values()]
        return [*texts, *([self.cwd] if self.cwd is not None else []), *self.event_secrets]


def materialize(definition: Definition, environment: Mapping[str, str]) -> Materialized:
    """Fill in the variables. Only what the definition names is read from ``environment``."""
    unset: list[Refusal] = []

    def fill(where: str, template: str) -> Expanded:
        expanded = expand(template, environment)
        unset.extend(
            Refusal("variable_unset", f"the variable {name} is not set", definition.name, where)
            for name in expanded.unset
        )
        return expanded

    return Materialized(
        definition=definition,
        url=fill("url", definition.url),
        headers={key: fill(f"headers.{key}", value) for key, value in definition.headers.items()},
        command=fill("command", definition.command),
        args=tuple(fill(f"args[{index}]", value) for index, value in enumerate(definition.args)),
        env={key: fill(f"env.{key}", value) for key, value in definition.env.items()},
        cwd=None if definition.cwd is None else fill("cwd", definition.cwd),
        event_secrets=tuple(
            fill(f"event_secrets[{index}]", value) for index, value in enumerate(definition.event_secrets)
        ),
        unset=tuple(unset),
    )
