"""Which definition a name stands for: the whole entry of the highest source, never parts of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from robot_mcp_kit.client.definitions import Definition
from robot_mcp_kit.client.refusals import Refusal, RefusedError
from robot_mcp_kit.client.sources import Source, Tier


@dataclass(frozen=True, slots=True)
class Resolved:
    """One name and what it stands for.

    Exactly one of ``definition`` and ``refusal`` is set: a malformed entry of the highest source leaves the
    name without a server, and no lower source takes its place.
    """

    name: str
    tier: Tier
    origin: str
    definition: Definition | None = None
    refusal: Refusal | None = None
    shadowed: tuple[str, ...] = ()
    """``tier: origin`` of the entries that lost, highest first."""
    disabled: str | None = None
    """Why it is switched off; ``None`` when it is not."""

    @property
    def usable(self) -> bool:
        return self.definition is not None and self.disabled is None


@dataclass(frozen=True, slots=True)
class Resolution:
    """All names, and what was wrong with sources as a whole."""

    servers: Mapping[str, Resolved] = field(default_factory=dict)
    problems: tuple[Refusal, ...] = ()

    def with_disabled(self, overlay: Mapping[str, str]) -> Resolution:
        """The same with some servers switched off; they stay listed, with the reason.

        Args:
            overlay: reasons by name. An empty overlay gives everything back unchanged (A29).

        Raises:
            RefusedError: a name is not there, ``unknown_server``.
        """
        for name in overlay:
            if name not in self.servers:
                raise RefusedError(
                    Refusal("unknown_server", f"there is no server {name!r} to switch off", name)
                )
        servers = {name: replace(one, disabled=overlay.get(name)) for name, one in self.servers.items()}
        return replace(self, servers=servers)


def resolve(sources: Iterable[Source]) -> Resolution:
    """Decide every name (A1-A5). Within a tier, the source given first wins.

    A managed source that cannot be read at all blocks every name from the tiers below: what it would have
    defined cannot be told from what it never mentioned. Another managed source's names stand. In other tiers
    an unreadable source is only reported.
    """
    ordered = sorted(sources, key=lambda source: source.tier)
    problems: list[Refusal] = []
    blocked: Refusal | None = None
    for source in ordered:
        decoded = source.decoded
        problems += decoded.notes
        if decoded.unreadable is not None:
            problem = replace(decoded.unreadable, field=source.origin)
            problems.append(problem)
            if source.tier is Tier.MANAGED and blocked is None:
                blocked = problem
    servers: dict[str, Resolved] = {}
    for source in ordered:
        for name in (*source.decoded.definitions, *source.decoded.malformed):
            if name in servers:
                loser = f"{source.tier.name.lower()}: {source.origin}"
                servers[name] = replace(servers[name], shadowed=(*servers[name].shadowed, loser))
            elif blocked is not None and source.tier is not Tier.MANAGED:
                refusal = Refusal(
                    "managed_source_unreadable",
                    f"the managed source {blocked.field} cannot be read, and it might define this name",
                    name,
                )
                servers[name] = Resolved(name, source.tier, source.origin, refusal=refusal)
            else:
                servers[name] = Resolved(
                    name,
                    source.tier,
                    source.origin,
                    definition=source.decoded.definitions.get(name),
                    refusal=source.decoded.malformed.get(name),
                )
    return Resolution(servers, tuple(problems))
