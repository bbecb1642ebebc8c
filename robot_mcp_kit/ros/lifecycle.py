"""The managed node's transitions, handed to one object that knows what they mean (B38)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from rclpy.lifecycle import ManagedEntity, TransitionCallbackReturn

logger = logging.getLogger(__name__)

Step = Callable[[], None]


class Transitions(ManagedEntity):  # type: ignore[misc]
    """Runs one step per transition on the rclpy thread; a step that raises makes the transition fail.

    Args:
        configure, activate, deactivate, cleanup, shutdown: the steps.
        reasons: exceptions that mean "cannot be done now" (the node stays where it was); anything else is an
            error of ours, and lifecycle's error processing returns the node to ``unconfigured``.
    """

    def __init__(
        self,
        *,
        configure: Step,
        activate: Step,
        deactivate: Step,
        cleanup: Step,
        shutdown: Step,
        reasons: tuple[type[Exception], ...],
    ) -> None:
        self._steps = {
            "configure": configure,
            "activate": activate,
            "deactivate": deactivate,
            "clean up": cleanup,
            "shut down": shutdown,
        }
        self._reasons = reasons
        self.failure: Exception | None = None
        """Why the last transition failed."""

    def _take(self, name: str) -> Any:
        self.failure = None
        try:
            self._steps[name]()
        except self._reasons as error:
            self.failure = error
            logger.error("cannot %s: %s", name, error)
            return TransitionCallbackReturn.FAILURE
        except Exception as error:
            self.failure = error
            logger.exception("an error while trying to %s", name)
            return TransitionCallbackReturn.ERROR
        return TransitionCallbackReturn.SUCCESS

    def on_configure(self, _state: Any) -> Any:
        return self._take("configure")

    def on_activate(self, _state: Any) -> Any:
        return self._take("activate")

    def on_deactivate(self, _state: Any) -> Any:
        return self._take("deactivate")

    def on_cleanup(self, _state: Any) -> Any:
        return self._take("clean up")

    def on_shutdown(self, _state: Any) -> Any:
        return self._take("shut down")

    def on_error(self, _state: Any) -> Any:
        return self._take("clean up")
