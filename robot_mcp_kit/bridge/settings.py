"""Times the bridge works with. Seconds of the bridge's monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from robot_mcp_kit.skills.config import SkillSection

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class BridgeSettings(BaseModel):
    """Defaults for every skill; a skill's own section in the YAML may say otherwise for some."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    progress_period_s: Seconds = 1.0
    """Least time between two progress events of a task; milestones do not wait."""
    feedback_timeout_s: Seconds = 15.0
    """Silence after which a task is marked stalled."""
    server_lost_timeout_s: Seconds = 5.0
    """Absence of the action server after which a running goal counts as lost."""
    server_wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0
    acceptance_timeout_s: Seconds = 10.0
    search_timeout_s: Seconds = 5.0
    """How long to look for a goal whose acceptance did not come."""
    reject_retry_delay_s: Seconds = 0.5
    """After a refusal the goal is tried once more, under a new id; Nav2 refuses while it is starting."""
    cancel_grace_s: Seconds = 4.5
    """How long a cancelled task waits for the confirmed stop; below the contract's 5 s."""
    cancel_reply_timeout_s: Seconds = 2.0
    """A cancel request without an answer is repeated after this."""
    preemption_window_s: Seconds = 0.5
    """How long after an unexplained abort to look for the goal that replaced ours."""
    watch_period_s: Seconds = 0.25
    """How often silence and the server's presence are looked at."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What one run uses: the bridge's settings and the skill's own."""

    bridge: BridgeSettings
    server_wait_s: float
    acceptance_timeout_s: float
    feedback_timeout_s: float | None
    """``None``: this action gives no feedback."""
    result_timeout_s: float | None
    queues: bool = False
    """The goal waits for those that move the same part of the robot, instead of taking over."""

    @classmethod
    def of(cls, bridge: BridgeSettings, section: SkillSection | None) -> RunSettings:
        """Merge; ``section`` values win, a feedback timeout of 0 means never."""

        def pick(own: float | None, default: float) -> float:
            return default if own is None else own

        if section is None:
            return cls(
                bridge, bridge.server_wait_s, bridge.acceptance_timeout_s, bridge.feedback_timeout_s, None
            )
        return cls(
            bridge,
            pick(section.server_wait_s, bridge.server_wait_s),
            pick(section.acceptance_timeout_s, bridge.acceptance_timeout_s),
            pick(section.feedback_timeout_s, bridge.feedback_timeout_s) or None,
            section.result_timeout_s,
            section.policy == "queue",
        )
