"""Errors that callers see. Each names the field and the way out."""

from __future__ import annotations

from collections.abc import Iterable


class TaskError(Exception):
    """Raise from a task body to fail the task with structured information for a planner.

    Args:
        error_code: stable machine code, ``DOOR_CLOSED``.
        message: one or two sentences for a language model.
        recoverable: ``False`` means: do not replan around this.
        suggestions: names of tools or actions that may help.
    """

    def __init__(
        self,
        error_code: str,
        message: str,
        *,
        recoverable: bool = True,
        suggestions: Iterable[str] | None = None,
    ) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
        self.recoverable = recoverable
        # A single text is one suggestion, not a list of its characters.
        self.suggestions = [suggestions] if isinstance(suggestions, str) else list(suggestions or ())


class ArgumentError(ValueError):
    """A tool argument was refused before anything moved.

    Args:
        field: the argument's name as the caller knows it (``yaw_rad``).
        message: what is wrong and what would be right.
        allowed: values that would have been accepted (places, frames), if few enough to list.
    """

    def __init__(self, field: str, message: str, *, allowed: Iterable[str] = ()) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
        self.allowed = list(allowed)


class GoalFieldError(ValueError):
    """A goal field does not exist in the action's type, or does not hold that value."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class ConfigError(ValueError):
    """Configuration that cannot be used; stops the start. Names file, line and key."""
