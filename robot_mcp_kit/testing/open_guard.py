"""A guard for tests of everything else: it lets every goal through that is within limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from robot_mcp_kit.clock import Clock, SystemClock
from robot_mcp_kit.safety.approvals import ApprovalDesk
from robot_mcp_kit.safety.assemble import STANDING_FOLDER, operator_key, write_standing
from robot_mcp_kit.safety.audit import MemoryTrail, Trail
from robot_mcp_kit.safety.estop import EstopLatch
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.interlocks import Interlock, Interlocks
from robot_mcp_kit.safety.rulebook import Rulebook
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.safety.standing import StandingBook, WallWatch, sign
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig, load_config
from robot_mcp_kit.skills.config.safety import StandingApprovalSection

_KEY = "the key of a test"


def standing_for(
    config: RobotConfig, key: str, operator: str = "tester", *, also: Iterable[str] = ()
) -> StandingApprovalSection:
    """A signed standing approval for every skill of a robot (and ``also`` others), without bounds."""
    skills = [*config.skills, *also] or ["none"]
    return sign(
        StandingApprovalSection(id="everything", operator=operator, robot=config.robot.name, skills=skills),
        key,
    )


def approve_everything(state_dir: Path, skills_file: Path) -> None:
    """Put a standing approval for every skill of a file into a state directory, before its bridge starts.

    Raises:
        ConfigError: the file cannot be used.
    """
    key = operator_key(state_dir).get_secret_value()
    folder = state_dir / STANDING_FOLDER
    folder.mkdir(exist_ok=True)
    write_standing(standing_for(load_config(skills_file), key), folder / "everything.yaml")


def open_guard(
    config: RobotConfig,
    skills: Mapping[str, Skill],
    clock: Clock | None = None,
    *,
    approve: bool = True,
    also: Iterable[str] = (),
    trail: Trail | None = None,
    interlocks: Callable[[Clock], list[Interlock]] = lambda _clock: [],
    situation: Callable[[], Situation] = Situation,
) -> Guard:
    """A guard in memory.

    Args:
        config: its ``safety`` section holds.
        skills: by tool name.
        clock: monotonic.
        approve: a standing approval covers every skill; ``False``: motions wait for a person.
        also: skills that the test adds later.
        trail: instead of one in memory.
        interlocks: made with the clock.
        situation: what is known of the robot.
    """
    clock = clock if clock is not None else SystemClock()
    safety = config.safety
    watch = WallWatch(clock, time.time)
    approvals = [standing_for(config, _KEY, also=also)] if approve else []
    return Guard(
        Rulebook(config, skills),
        trail=trail if trail is not None else MemoryTrail(),
        estop=EstopLatch(None, time.time),
        desk=ApprovalDesk(clock, timeout_s=safety.approval_timeout_s, max_pending=safety.max_pending),
        standing=StandingBook(approvals, [_KEY], config.robot.name, watch),
        interlocks=Interlocks(interlocks(clock)),
        clock=clock,
        situation=situation,
    )
