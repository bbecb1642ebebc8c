"""The protocol's server: JSON-RPC 2.0 over WebSocket, on loopback, off until somebody starts it."""

from robot_mcp_kit.rcp.server.serving import DEFAULT_PORT, RCPServer
from robot_mcp_kit.rcp.server.settings import RCPServerSettings

__all__ = ["DEFAULT_PORT", "RCPServer", "RCPServerSettings"]
