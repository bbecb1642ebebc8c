"""Callbacks that only watch: what they raise is logged and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


def subscribe(listeners: list[Callable[[T], None]], listener: Callable[[T], None]) -> Callable[[], None]:
    """Add a listener; the function returned removes it."""
    listeners.append(listener)

    def remove() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return remove


def tell(listeners: list[Callable[[T], None]], value: T) -> None:
    """Call each with ``value``, in the order in which they came."""
    for listener in tuple(listeners):
        try:
            listener(value)
        except Exception:
            logger.exception("a listener of the task manager raised")
