"""From the checked file and a state directory to a guard. The only place that knows all parts."""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr, ValidationError

from robot_mcp_kit.clock import Clock, SystemClock, WallClock
from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.safety.approvals import ApprovalDesk
from robot_mcp_kit.safety.audit import AuditError, AuditTrail
from robot_mcp_kit.safety.audit_verify import audit_key
from robot_mcp_kit.safety.estop import EstopLatch
from robot_mcp_kit.safety.guard import Guard
from robot_mcp_kit.safety.interlocks import Interlock, Interlocks, Reader
from robot_mcp_kit.safety.rulebook import Rulebook
from robot_mcp_kit.safety.situation import Situation
from robot_mcp_kit.safety.standing import DEMO_KEY, StandingBook, WallWatch
from robot_mcp_kit.secret_file import kept_secret
from robot_mcp_kit.skills.base import Skill
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.skills.config.safety import InterlockSection, StandingApprovalSection
from robot_mcp_kit.skills.config.yaml_tree import read_yaml

logger = logging.getLogger(__name__)

OPERATOR_KEY_VARIABLE = "ROBOT_MCP_OPERATOR_KEY"
KEY_FILE = "operator.key"
STANDING_FOLDER = "standing"
AUDIT_FOLDER = "audit"
ESTOP_FILE = "estop.json"
_MIN_KEY_CHARS = 16

ReaderFor = Callable[[str, InterlockSection], Reader]
"""Makes the reader of an interlock, by its name and entry."""


def operator_key(state_dir: Path, environ: Mapping[str, str] = os.environ) -> SecretStr:
    """The operator's key: from the environment, else from a file that is made at the first start.

    Raises:
        ConfigError: too short, or the file cannot be used.
    """
    given = environ.get(OPERATOR_KEY_VARIABLE, "").strip()
    where = OPERATOR_KEY_VARIABLE
    if not given:
        file = state_dir / KEY_FILE
        where = str(file)
        given = kept_secret(file, lambda: secrets.token_urlsafe(32), "the operator's key")
    if len(given) < _MIN_KEY_CHARS:
        raise ConfigError(
            f"{where}: the operator's key has {len(given)} characters; {_MIN_KEY_CHARS} at least"
        )
    return SecretStr(given)


def load_standing(folder: Path) -> list[StandingApprovalSection]:
    """The standing approvals of a state directory, ``standing/*.yaml``, in the order of their names.

    Raises:
        ConfigError: a file that is none.
    """
    return [read_standing(file) for file in sorted(folder.glob("*.yaml"))] if folder.is_dir() else []


def read_standing(file: Path) -> StandingApprovalSection:
    """One standing approval from a YAML file.

    Raises:
        ConfigError: it cannot be read; names the key.
    """
    try:
        document = read_yaml(file.read_text(encoding="utf-8"), str(file))
        return StandingApprovalSection.model_validate(document.data)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{file}: {path}: {first['msg'].removeprefix('Value error, ')}") from error


def write_standing(approval: StandingApprovalSection, file: Path) -> None:
    """Write a standing approval as YAML (JSON is YAML)."""
    data = approval.model_dump(mode="json", exclude_none=True)
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class GuardParts:
    """What a guard needs from outside."""

    state_dir: Path
    operator_key: SecretStr
    situation: Callable[[], Situation]
    reader_for: ReaderFor
    clock: Clock
    wall: WallClock
    secrets: Sequence[str] = ()
    """Further texts that are never written down."""


def build_guard(
    config: RobotConfig,
    skills: Mapping[str, Skill],
    parts: GuardParts,
    standing: Iterable[StandingApprovalSection] | None = None,
) -> Guard:
    """A guard over a state directory.

    Args:
        config: the checked file.
        skills: by tool name.
        parts: the rest.
        standing: instead of those in the state directory; those of the file always count too.

    Raises:
        ConfigError: the section contradicts itself, or the audit trail cannot be used.
    """
    rules = Rulebook(config, skills)
    safety, key = config.safety, parts.operator_key.get_secret_value()
    extra = load_standing(parts.state_dir / STANDING_FOLDER) if standing is None else list(standing)
    keys = [key]
    if safety.trust_demo_key:
        keys.append(DEMO_KEY)
        logger.warning(
            "safety.trust_demo_key: standing approvals signed with the key that everybody knows hold here; "
            "right for a simulated robot only"
        )
    try:
        trail = AuditTrail(
            parts.state_dir / AUDIT_FOLDER,
            wall=parts.wall,
            key=audit_key(key),
            max_file_bytes=int(safety.audit.max_file_mb * 1_000_000),
            secrets=[key, *parts.secrets],
        )
    except AuditError as error:
        raise ConfigError(str(error)) from error
    try:
        watch = WallWatch(parts.clock, parts.wall, trail.state.last_wall_s)
        locks = [
            Interlock(name, section, parts.reader_for(name, section), parts.clock)
            for name, section in safety.interlocks.items()
        ]
        return Guard(
            rules,
            trail=trail,
            estop=EstopLatch(parts.state_dir / ESTOP_FILE, parts.wall),
            desk=ApprovalDesk(
                parts.clock, timeout_s=safety.approval_timeout_s, max_pending=safety.max_pending
            ),
            standing=StandingBook(
                [*safety.standing_approvals, *extra], keys, config.robot.name, watch, trail.state.uses
            ),
            interlocks=Interlocks(locks),
            clock=parts.clock,
            situation=parts.situation,
        )
    except BaseException:
        trail.close()
        raise


def no_readers(name: str, _section: InterlockSection) -> Reader:
    """For configurations without interlocks.

    Raises:
        ConfigError: there is one.
    """
    raise ConfigError(f"safety.interlocks.{name}: nothing here can read it")


def plain_parts(
    state_dir: Path,
    *,
    clock: Clock | None = None,
    wall: WallClock = time.time,
    key: str | None = None,
    situation: Callable[[], Situation] = Situation,
    reader_for: ReaderFor = no_readers,
) -> GuardParts:
    """Parts without a robot around them: for tests and tools."""
    return GuardParts(
        state_dir=state_dir,
        operator_key=operator_key(state_dir) if key is None else SecretStr(key),
        situation=situation,
        reader_for=reader_for,
        clock=clock if clock is not None else SystemClock(),
        wall=wall,
    )
