"""Who asks and who agrees. They are never the same (R32)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requester:
    """The one that asked for a motion."""

    session: str = "local"
    """Of the MCP connection, or another name for who called; approvals die with it (R33)."""
    surface: str = "api"
    """``mcp``, ``rcp``, ``api``."""
    client: str = ""
    """What the client calls itself. Claimed, not proven."""

    @property
    def principal(self) -> str:
        return f"{self.surface}:{self.session}"

    def record(self) -> dict[str, str]:
        """For the audit trail."""
        return {"session": self.session, "surface": self.surface, "client": self.client[:80]}


@dataclass(frozen=True, slots=True)
class Approver:
    """The person that agreed or refused, over a channel that proved it."""

    name: str
    """Who, as the channel says."""
    channel: str
    """``operator`` (the operator's key), ``chat`` (the chat app's signature), ``standing``."""

    @property
    def principal(self) -> str:
        return f"{self.channel}:{self.name}"
