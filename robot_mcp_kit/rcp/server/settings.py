"""What an RCP server may be told: where it listens, who may come, how much of it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr

DEFAULT_PORT = 9796
TOKEN_VARIABLE = "ROBOT_MCP_RCP_TOKEN"  # noqa: S105 - the variable's name


class RCPServerSettings(BaseModel):
    """Loopback unless a token is set; strict limits unless raised."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(DEFAULT_PORT, ge=0, le=65535)
    """0: any free one."""
    token: SecretStr | None = None
    """Asked of every client: ``Authorization: Bearer <token>``. Needed beyond loopback."""
    operator_key: SecretStr | None = None
    """A connection that brings this instead decides about requests; ``None``: none does."""
    allowed_hosts: tuple[str, ...] = ()
    """Further Host headers that are answered."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages that may connect, ``https://cell.example``. Default: no page of any browser."""
    max_message_bytes: int = Field(1_048_576, ge=1024)
    """A longer message ends the connection (close code 1009)."""
    max_connections: int = Field(16, ge=1)
    max_operators: int = Field(4, ge=1)
    """Apart from the others, so that a crowd does not keep the operator out."""
    messages_per_s: float = Field(50.0, gt=0)
    """Of one connection, on average. A stop is not counted."""
    burst: int = Field(100, ge=1)
    """So many may come at once."""
    max_in_flight: int = Field(32, ge=1)
    """Requests of one connection that are not answered yet. A stop is not counted."""
    max_queued_events: int = Field(1000, ge=1)
    """Of one connection; whoever is slower misses the oldest."""
