"""What the graph offers beside what the skills file makes of it."""

from __future__ import annotations

from typing import Any

from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.discovery import ActionCatalog, ActionGraph, FoundAction
from robot_mcp_kit.skills.registry import build_skills

from .schemas import Types

GRASP = "arm_msgs/action/Grasp"
CONFIG = """
robot: {map_frame: world}
skills:
  grasp: {action: grasp, type: arm_msgs/action/Grasp}
  release: {action: release, type: arm_msgs/action/Grasp, enabled: false}
  wave: {action: wave, type: arm_msgs/action/Grasp}
"""


class Graph(ActionGraph):
    def __init__(self, *found: FoundAction) -> None:
        self.found = list(found)

    def action_servers(self) -> list[FoundAction]:
        return self.found

    def full_name(self, action_name: str) -> str:
        return action_name if action_name.startswith("/") else f"/robot1/{action_name}"


def entries(*found: FoundAction) -> list[dict[str, Any]]:
    return ActionCatalog(parse_config(CONFIG), Graph(*found), Types()).entries()


def server(name: str, *types: str, nodes: tuple[str, ...] = ("/arm",)) -> FoundAction:
    return FoundAction(name, types or (GRASP,), nodes)


def test_an_action_with_an_entry_is_exposed_by_it_and_needs_none() -> None:
    """B34: names are compared as the node resolves them."""
    (entry,) = entries(server("/robot1/grasp"))
    assert (entry["tools"], entry["exposed"], entry["yaml_entry"], entry["note"]) == (
        ["grasp"],
        True,
        None,
        "",
    )


def test_a_disabled_entry_exposes_nothing() -> None:
    (entry,) = entries(server("/robot1/release"))
    assert (entry["exposed"], entry["yaml_entry"]) == (False, None)
    assert "release is disabled" in entry["note"]


def test_another_action_comes_with_an_entry_that_works_as_it_is() -> None:
    """B34."""
    first, second = entries(server("/robot2/grasp"), server("/robot3/stop"))
    assert not first["exposed"]
    written = first["yaml_entry"]
    assert "  robot2_grasp:\n" in written, "grasp is taken"
    assert "  robot3_stop:\n" in second["yaml_entry"], "stop is a tool already"
    assert 'target.header.frame_id: "world"' in written
    assert "target.header.stamp: {hidden: true}" in written
    assert "width: {}  # float32, m" in written
    assert "success_when: {success: true}" in written
    skill = build_skills(parse_config(written), None, Types())["robot2_grasp"]
    assert skill.action_name == "/robot2/grasp"


def test_names_that_collide_get_a_number() -> None:
    one, two = entries(server("/pick"), server("/pick"))
    assert "  pick:\n" in one["yaml_entry"]
    assert "  pick_2:\n" in two["yaml_entry"]


def test_a_type_that_is_not_installed_is_said_and_offers_no_entry() -> None:
    (entry,) = entries(server("/fly", "drone_msgs/action/Fly"))
    assert (entry["installed"], entry["yaml_entry"]) == (False, None)
    assert "not installed" in entry["note"]


def test_what_does_not_fit_together_is_said() -> None:
    """B5, E43."""
    (entry,) = entries(server("/robot1/wave", "leg_msgs/action/Wave", GRASP, nodes=("/a", "/b")))
    assert "disagree" in entry["note"]
    assert "2 nodes serve this name" in entry["note"]
    (entry,) = entries(server("/robot1/wave", "leg_msgs/action/Wave"))
    assert "The entry wave says arm_msgs/action/Grasp" in entry["note"]
