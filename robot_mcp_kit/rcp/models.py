"""What the Robot Context Protocol says about a robot: plain dataclasses with its fields, types and defaults.

Angles of joints are degrees, lengths millimetres, masses kilograms. The three rotations of a TCP are the
controller's own; :class:`robot_mcp_kit.rcp.rotation.RotationConvention` says which (R16).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from robot_mcp_kit.rcp.prompt import prompt_block
from robot_mcp_kit.safety.risk import RiskLevel

SignalType = Literal["digital_input", "digital_output", "analog_input", "analog_output"]
SIGNAL_TYPES: frozenset[str] = frozenset(get_args(SignalType))
SignalMode = Literal["voltage", "current"]


@dataclass
class JointState:
    """One joint: where it is and how far it may go."""

    name: str
    position_deg: float
    min_deg: float = -360.0
    max_deg: float = 360.0
    max_speed_deg_s: float = 180.0


@dataclass
class TCPPosition:
    """The tool centre point in the controller's base frame: millimetres, and rotations as the controller has
    them.
    """

    x: float
    y: float
    z: float
    rx: float
    ry: float
    rz: float


@dataclass
class IOSignal:
    """One signal: 0 or 1 for digital ones, 0.0 to 1.0 of full scale for analog ones.

    Raises:
        ValueError: ``signal_type`` is none of the four (R8).
    """

    name: str
    signal_type: SignalType
    value: float
    mode: SignalMode | None = None
    """What an analog signal is carried by: 0-10 V or 4-20 mA; ``None``: not known, or digital."""

    def __post_init__(self) -> None:
        if self.signal_type not in SIGNAL_TYPES:
            allowed = ", ".join(sorted(SIGNAL_TYPES))
            raise ValueError(f"signal_type: {str(self.signal_type)[:80]!r} must be one of {allowed}")

    @property
    def is_digital(self) -> bool:
        return self.signal_type.startswith("digital_")

    @property
    def is_output(self) -> bool:
        return self.signal_type.endswith("_output")


@dataclass
class IOState:
    """Every signal of the controller."""

    signals: list[IOSignal] = field(default_factory=list)


@dataclass
class ProgramInfo:
    """A program on the controller."""

    name: str
    loaded: bool = False
    running: bool = False
    paused: bool = False


@dataclass
class ToolData:
    """An end effector: the offset of its TCP from the flange (mm) and its mass."""

    name: str
    tcp_x: float = 0.0
    tcp_y: float = 0.0
    tcp_z: float = 0.0
    mass_kg: float = 0.0


@dataclass
class AdapterCapabilities:
    """What an adapter can do. What is not declared is refused before the adapter is asked (R12)."""

    read: bool = True
    validate: bool = False
    deploy: bool = False
    execute: bool = False
    events: list[str] = field(default_factory=list)
    streaming: bool = False


@dataclass
class RobotIdentity:
    """Which robot this is."""

    manufacturer: str
    model: str
    controller: str
    firmware: str
    serial: str
    joint_count: int = 6
    joint_limits: list[JointState] = field(default_factory=list)
    payload_kg: float = 0.0
    reach_mm: float = 0.0

    @property
    def label(self) -> str:
        """``maker model (SN: serial)``, as the audit trail has it (R36)."""
        return f"{self.manufacturer} {self.model} (SN: {self.serial})"


@dataclass
class RobotContext:
    """Everything there is to say about a robot now; a part that could not be read is empty."""

    identity: RobotIdentity | None = None
    tcp: TCPPosition | None = None
    joints: list[JointState] = field(default_factory=list)
    io: IOState = field(default_factory=IOState)
    programs: list[ProgramInfo] = field(default_factory=list)
    tools: list[ToolData] = field(default_factory=list)

    def to_prompt_block(self) -> str:
        """Text for a language model's prompt, one line a fact; empty without identity (R45)."""
        return prompt_block(self)


@dataclass
class RCPEvent:
    """Something that happened: ``timestamp`` is Unix milliseconds (R48); 0 means: stamp it on arrival."""

    channel: str
    data: dict[str, Any] = field(default_factory=dict)
    timestamp: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class UploadResult:
    """How an upload ended; ``audit_id`` is filled in by the guarded session (R44)."""

    success: bool
    message: str = ""
    audit_id: str = ""


@dataclass
class DiffResult:
    """A local program against the controller's. A changed line counts in ``changed`` only."""

    local_code: str
    controller_code: str
    added: int = 0
    removed: int = 0
    changed: int = 0

    def summary(self) -> str:
        """``+3 -1 ~2 lines`` (R42)."""
        return f"+{self.added} -{self.removed} ~{self.changed} lines"


@dataclass
class AuditEntry:
    """One decided request as the protocol shows it; what is on disk is this project's own trail.

    Raises:
        ValueError: ``risk_level`` is none of the four (R7).
    """

    id: str
    timestamp: str
    """ISO 8601, UTC."""
    action: str
    risk_level: RiskLevel
    approved_by: str
    robot: str
    params: dict[str, Any] = field(default_factory=dict)
    result: str = ""
    """``success``, ``failed``, ``rejected``."""
    diff_summary: str = ""

    def __post_init__(self) -> None:
        self.risk_level = RiskLevel(self.risk_level)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "risk_level": self.risk_level.value}


__all__ = [
    "SIGNAL_TYPES",
    "AdapterCapabilities",
    "AuditEntry",
    "DiffResult",
    "IOSignal",
    "IOState",
    "JointState",
    "ProgramInfo",
    "RCPEvent",
    "RiskLevel",
    "RobotContext",
    "RobotIdentity",
    "SignalMode",
    "SignalType",
    "TCPPosition",
    "ToolData",
    "UploadResult",
]
