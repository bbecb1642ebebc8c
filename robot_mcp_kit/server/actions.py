"""``list_actions``: what the ROS graph offers, for the person who writes the skills file."""

from __future__ import annotations

import json
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from robot_mcp_kit.server.tools import make_tool
from robot_mcp_kit.skills.discovery import ActionCatalog

LIST_ACTIONS = "list_actions"


def list_actions_tool(catalog: ActionCatalog) -> Tool:
    """The tool that lists the graph's action servers and exposes none of them (B34)."""

    async def call(arguments: dict[str, Any]) -> CallToolResult:
        word = str(arguments.get("name_contains") or "").casefold()
        found = [entry for entry in catalog.entries() if word in str(entry["action"]).casefold()]
        data = {"actions": found}
        return CallToolResult(
            content=[TextContent(type="text", text=json.dumps(data, ensure_ascii=False))],
            structured_content=data,
        )

    return make_tool(
        LIST_ACTIONS,
        call,
        title="List the robot's actions",
        description=(
            "List the ROS 2 action servers that are running, with their types, which tools use them, and for "
            "the others the entry that a person would add to the skills file to get a tool. Moves nothing "
            "and makes nothing available: only a person who edits that file and restarts the node does."
        ),
        schema={
            "type": "object",
            "properties": {
                "name_contains": {
                    "type": "string",
                    "description": "Only actions whose name has this in it.",
                    "default": "",
                }
            },
        },
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )
