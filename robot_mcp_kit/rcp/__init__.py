"""Robot Context Protocol: the adapter SDK. Needs neither ROS nor MCP.

Write a class with ten methods and an assistant knows the robot: who it is, where its joints and tool are,
what its signals say, what it can run. Whatever moves goes through this project's safety layer.
"""

from robot_mcp_kit.rcp.adapter import RCPAdapter
from robot_mcp_kit.rcp.errors import (
    AdapterBusyError,
    AdapterDisconnectedError,
    AdapterError,
    HardwareError,
    NotSupportedError,
    ParameterError,
    RCPError,
    RCPErrorCode,
)
from robot_mcp_kit.rcp.limits import MotionLimits
from robot_mcp_kit.rcp.models import (
    AdapterCapabilities,
    AuditEntry,
    DiffResult,
    IOSignal,
    IOState,
    JointState,
    ProgramInfo,
    RCPEvent,
    RobotContext,
    RobotIdentity,
    TCPPosition,
    ToolData,
    UploadResult,
)
from robot_mcp_kit.rcp.rotation import RotationConvention
from robot_mcp_kit.safety.risk import ACTION_RISK, PROHIBITED_ACTIONS, RiskLevel

__all__ = [
    "ACTION_RISK",
    "PROHIBITED_ACTIONS",
    "AdapterBusyError",
    "AdapterCapabilities",
    "AdapterDisconnectedError",
    "AdapterError",
    "AuditEntry",
    "DiffResult",
    "HardwareError",
    "IOSignal",
    "IOState",
    "JointState",
    "MotionLimits",
    "NotSupportedError",
    "ParameterError",
    "ProgramInfo",
    "RCPAdapter",
    "RCPError",
    "RCPErrorCode",
    "RCPEvent",
    "RiskLevel",
    "RobotContext",
    "RobotIdentity",
    "RotationConvention",
    "TCPPosition",
    "ToolData",
    "UploadResult",
]
