"""Refusals as values: a code to branch on, a sentence to read, and never a secret in either (A41)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FailureClass(StrEnum):
    """What can be done about a failure. Only ``transient`` is tried again by itself."""

    TRANSIENT = "transient"
    AUTH = "auth"
    CONFIG = "config"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something was not done, on purpose.

    Args:
        code: stable, ``private_address``, ``approval_stale``, ...
        message: what is wrong and the way out.
        server: which server's entry.
        field: which part of it.
        failure_class: what can be done.
    """

    code: str
    message: str
    server: str = ""
    field: str = ""
    failure_class: FailureClass = FailureClass.CONFIG

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.server, self.field) if part)
        return f"{where}: {self.message}" if where else self.message


class RefusedError(Exception):
    """A refusal, where nothing can be returned instead.

    Attributes:
        refusal: the value.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"[{refusal.code}] {refusal}")
        self.refusal = refusal
