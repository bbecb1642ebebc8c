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
        topics = dict(self._node.get_topic_names_and_types())
        found = []
        for topic in sorted(topics):
            if not topic.endswith(_STATUS):
                continue
            nodes = [
                f"{info.node_namespace.rstrip('/')}/{info.node_name}"
                for info in self._node.get_publishers_info_by_topic(topic)
            ]
            if nodes:
                name = topic.removesuffix(_STATUS)
                types = tuple(kind.removesuffix(_FEEDBACK_TYPE) for kind in topics.get(name + _FEEDBACK, ()))
                found.append(FoundAction(name, types, tuple(sorted(nodes))))
        return found

    def full_name(self, action_name: str) -> str:
        return str(self._node.resolve_service_name(action_name))
