"""The action servers of the ROS graph, as the node's discovery knows them now."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.skills.discovery import ActionGraph, FoundAction

_STATUS, _FEEDBACK, _FEEDBACK_TYPE = "/_action/status", "/_action/feedback", "_FeedbackMessage"


class RosActionGraph(ActionGraph):
    """Looks through the eyes of one node. An action client also has these topics, so only publishers of a
    status topic count as servers.
    """

    def __init__(self, node: Any) -> None:
        self._node = node

    def action_servers(self) -> list[FoundAction]:
        found = []
        for topic in sorted(name for name, _ in self._node.get_topic_names_and_types()):
            if not topic.endswith(_STATUS):
                continue
            nodes = [
                f"{info.node_namespace.rstrip('/')}/{info.node_name}"
                for info in self._node.get_publishers_info_by_topic(topic)
            ]
            if nodes:
                name = topic.removesuffix(_STATUS)
                # Of publishers only: a client that expects another type (this node, perhaps) is no server.
                publishers = self._node.get_publishers_info_by_topic(name + _FEEDBACK)
                types = tuple(sorted({info.topic_type.removesuffix(_FEEDBACK_TYPE) for info in publishers}))
                found.append(FoundAction(name, types, tuple(sorted(nodes))))
        return found

    def full_name(self, action_name: str) -> str:
        return str(self._node.resolve_service_name(action_name))
