"""The chat app's half: receive and verify events, call the robot's tools.

``inbox`` and ``receiver`` need nothing but the base install; ``session`` needs ``robot-mcp-kit[mcp]``.
"""

from robot_mcp_kit.client.inbox import Inbox, Receipt, TaskTrack
from robot_mcp_kit.client.receiver import EventReceiver

__all__ = ["EventReceiver", "Inbox", "Receipt", "TaskTrack"]
