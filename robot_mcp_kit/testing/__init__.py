"""What you need to test your own capability server: a clock you turn by hand and a receiver that really
listens.

::

    from robot_mcp_kit.testing import FakeClock, RecordingReceiver, Reply, assert_eventually
"""

from robot_mcp_kit.testing.chat_app import ChatAppDouble
from robot_mcp_kit.testing.clock import FakeClock, settle
from robot_mcp_kit.testing.collecting import CollectingPoster, make_event
from robot_mcp_kit.testing.eventually import assert_eventually
from robot_mcp_kit.testing.held import held
from robot_mcp_kit.testing.receiver import ReceivedRequest, RecordingReceiver, Reply

__all__ = [
    "ChatAppDouble",
    "CollectingPoster",
    "FakeClock",
    "ReceivedRequest",
    "RecordingReceiver",
    "Reply",
    "assert_eventually",
    "held",
    "make_event",
    "settle",
]
