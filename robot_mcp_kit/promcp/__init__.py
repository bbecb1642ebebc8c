"""proMCP: ``read_*``, ``do_*`` and ``can_do``, for any MCP server. Needs neither ROS nor MCP.

Response models and values in ``contracts``, decorators, a lint over tool descriptions. The robot's own
surface over these shapes is in ``robot_mcp_kit.server``.
"""

from robot_mcp_kit.promcp.contracts import (
    PROMCP_VERSION,
    Blocked,
    Candidate,
    CapabilityReport,
    Constraints,
    CurrentState,
    DoResponse,
    DoStatus,
    Intent,
    Permission,
    Quality,
    ReadResponse,
    Unroutable,
)
from robot_mcp_kit.promcp.decorators import (
    Effect,
    PartialEffectError,
    Reading,
    can_do_tool,
    do_tool,
    read_tool,
)
from robot_mcp_kit.promcp.lint import Finding, LintReport, lint_server, lint_tool
from robot_mcp_kit.promcp.registry import Registry

__all__ = [
    "PROMCP_VERSION",
    "Blocked",
    "Candidate",
    "CapabilityReport",
    "Constraints",
    "CurrentState",
    "DoResponse",
    "DoStatus",
    "Effect",
    "Finding",
    "Intent",
    "LintReport",
    "PartialEffectError",
    "Permission",
    "Quality",
    "ReadResponse",
    "Reading",
    "Registry",
    "Unroutable",
    "can_do_tool",
    "do_tool",
    "lint_server",
    "lint_tool",
    "read_tool",
]
