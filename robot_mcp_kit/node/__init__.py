"""The node: one bridge between its ROS side and its MCP side, built from parameters and one YAML file.

The composition root. Every other room knows only its neighbours; this one puts them together.
"""

from robot_mcp_kit.node.lean import collect_less_often, import_libraries

collect_less_often()
import_libraries()
