"""Steps of which none may keep the next one from being taken."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


def carefully(task_id: str, step: Callable[[], object]) -> None:
    """Take one step of a task's end or stop; what it raises is logged and goes no further."""
    try:
        step()
    except Exception:
        logger.exception("task %s: a step of its end failed", task_id, extra={"task_id": task_id})
