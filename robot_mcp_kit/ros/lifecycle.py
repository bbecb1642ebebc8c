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
            error of ours, and lifecycle's error processing returns the node to ``unconfigured``. A KeyError
            or IndexError always is one, also where ``LookupError`` is a reason.
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
        """Why the last transition failed; kept while lifecycle cleans up after it."""
        self.state = "unconfigured"
        """The lifecycle state that the last transition ended in."""

    def is_reason(self, error: Exception) -> bool:
        """Whether ``error`` says why something cannot be done, and is no accident."""
        return isinstance(error, self._reasons) and not isinstance(error, (KeyError, IndexError))

    def _take(self, name: str, reached: str) -> Any:
        self.failure = None
        try:
            self._steps[name]()
        except Exception as error:
            self.failure = error
            if self.is_reason(error):
                logger.error("cannot %s: %s", name, error)
                return TransitionCallbackReturn.FAILURE
            logger.exception("an error while trying to %s", name)
            return TransitionCallbackReturn.ERROR
        self.state = reached
        return TransitionCallbackReturn.SUCCESS

    def on_configure(self, _state: Any) -> Any:
        return self._take("configure", "inactive")

    def on_activate(self, _state: Any) -> Any:
        return self._take("activate", "active")

    def on_deactivate(self, _state: Any) -> Any:
        return self._take("deactivate", "inactive")

    def on_cleanup(self, _state: Any) -> Any:
        return self._take("clean up", "unconfigured")

    def on_shutdown(self, _state: Any) -> Any:
        return self._take("shut down", "finalized")

    def on_error(self, _state: Any) -> Any:
        failure = self.failure
        done = self._take("clean up", "unconfigured")
        if done is not TransitionCallbackReturn.SUCCESS:
            self.state = "finalized"
        self.failure = failure or self.failure
        return done
