"""The YAML: what it accepts, and that every complaint names file, line, key and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.skills.config import NavigateSection, load_config, parse_config
from robot_mcp_kit.skills.registry import build_skills

TEMPLATE = Path(__file__).parents[2] / "config/skills.yaml"
NAVIGATE = (
    "skills:\n  navigate_to:\n    action: navigate_to_pose\n    type: nav2_msgs/action/NavigateToPose\n"
)


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "robot.yaml")
    return str(caught.value)


def test_the_template_is_the_demo_robot() -> None:
    config = load_config(TEMPLATE)
    assert {name: (p.x_m, p.y_m, p.yaw_rad) for name, p in config.places.items()} == {
        "kitchen": (10.0, 6.5, 1.5708),
        "office": (2.0, 6.5, 1.5708),
        "workshop": (2.0, 1.5, -1.5708),
        "storage": (10.0, 1.5, -1.5708),
        "lobby": (11.0, 4.0, 0.0),
    }
    for name, place in config.places.items():
        zone = "corridor" if name == "lobby" else name
        assert config.zones[zone].contains(place.x_m, place.y_m)
    section = config.skills["navigate_to"]
    assert isinstance(section, NavigateSection)
    assert str(section.limits.x_m) == "0 .. 12"
    assert "navigate_to" in build_skills(config)


def test_names_are_compared_without_case_and_separators() -> None:
    config = load_config(TEMPLATE)
    for name in ("store room", "Store-Room", " STORE_ROOM "):
        found = config.find_place(name)
        assert found is not None
        assert found[0] == "storage"
    assert config.find_place("garage") is None


def test_an_empty_file_is_a_robot_without_skills() -> None:
    assert parse_config("").skills == {}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        load_config(tmp_path / "missing.yaml")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(b"robot: \xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(file)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("robot:\n  nme: x\n", 2, ["robot.nme", 'Did you mean "name"?']),
        ("robt: {}\n", 1, ["robt", 'Did you mean "robot"?']),
        (
            NAVIGATE + "    goal_tolerence_m: 0.5\n",
            5,
            ["goal_tolerence_m", 'Did you mean "goal_tolerance_m"?'],
        ),
        (NAVIGATE + "    limits:\n      x_m: [3, 1]\n", 6, ["limits.x_m", "smaller one"]),
        (NAVIGATE + "    limits:\n      x_m: [3]\n", 6, ["limits.x_m", "[min, max]"]),
        (NAVIGATE + "    limits:\n      z_m: [1, 3]\n", 6, ["limits.z_m", "Known here: x_m, y_m"]),
        (NAVIGATE + "    policy: stack\n", 5, ["policy", "replace"]),
        (NAVIGATE + "    goal_tolerance_m: -1\n", 5, ["goal_tolerance_m", "greater than 0"]),
        (NAVIGATE + "    goal_tolerance_m: yes\n", 5, ["goal_tolerance_m", "true and false"]),
        (NAVIGATE + "    goal_tolerance_m: '1'\n", 5, ["goal_tolerance_m", "without quotes"]),
        (NAVIGATE.replace("navigate_to_pose", "a b"), 3, ["skills.navigate_to.action", "'a b'"]),
        (NAVIGATE.replace("NavigateToPose", "fly"), 4, ["skills.navigate_to.type", "'nav2_msgs/action/fly'"]),
        ("skills:\n  go: 3\n", 2, ["skills.go", "expected keys"]),
        ("skills:\n  go:\n    action: x\n", 2, ["skills.go", '"type" is missing']),
        ("places:\n  a:\n    x_m: 1\n    y_m: 2\n", 2, ["places.a", '"yaw_rad" is missing']),
        ("places:\n  a: {x_m: 1, y_m: .nan, yaw_rad: 0}\n", 2, ["places.a.y_m", "finite"]),
        ("places:\n  a:\n    x_m: 1\n    y_m: 2\n    yaw_rad: 90\n", 5, ["yaw_rad", "1.5708"]),
        ("places:\n  a: {x_m: 1, y_m: 2, yaw_rad: 0, frame: /map}\n", 2, ['write "map"']),
        ("places:\n  a: {x_m: 1, y_m: 2, yaw_rad: 0, frame: ''}\n", 2, ["places.a.frame", "empty"]),
        (
            "places:\n  a: {x_m: 1, y_m: 2, yaw_rad: 0, frame: odom}\n",
            2,
            ["places.a.frame", "robot.frames (map)"],
        ),
        (
            "places:\n  a b: {x_m: 1, y_m: 2, yaw_rad: 0}\n  c:\n    x_m: 1\n    y_m: 2\n    yaw_rad: 0\n"
            "    aliases:\n      - d\n      - A_B\n",
            9,
            ["places.c.aliases[1]", '"A_B" already names the place "a b"'],
        ),
        ("places:\n  a: {x_m: 1, y_m: 2, yaw_rad: 0}\n  a: {}\n", 3, ["places.a", "already on line 2"]),
        ("places:\n  on: {}\n", 2, ["bool", 'in quotes: "on"']),
        ("places:\n  1: {}\n", 2, ['in quotes: "1"']),
        ("zones:\n  a:\n    polygon_m: [[0, 0], [1, 0]]\n", 3, ["zones.a.polygon_m", "3 items"]),
        ("zones:\n  a: {polygon_m: [[0, 0], [2, 2], [2, 0], [0, 3]]}\n", 2, ["zones.a", "cross each other"]),
        ("zones:\n  a: {polygon_m: [[0, 0], [1, 1], [2, 2]]}\n", 2, ["zones.a", "no area"]),
        ("robot:\n  frames: [odom]\n", 1, ["robot", 'map_frame "map"']),
        ("robot: [\n", 2, ["not valid YAML"]),
        ("a: 1\n---\nb: 2\n", 2, ["not valid YAML"]),
        ("- robot\n", 1, ["expected keys: robot"]),
        ("robot: &r\n  name: *r\n", 2, ["contains itself"]),
        ("x: &x {a: 1}\nrobot:\n  <<: *x\n", 3, ["merge keys"]),
        ("robot:\n  name: !!python/name:os.system ''\n", 2, ["cannot read this value"]),
    ],
)
def test_a_complaint_names_file_line_key_and_what_is_right(text: str, line: int, words: list[str]) -> None:
    said = complaint(text)
    assert f"robot.yaml, line {line}" in said
    for word in words:
        assert word in said


def test_a_place_outside_the_limits_is_a_contradiction() -> None:
    text = NAVIGATE + "    limits: {x_m: [0, 5]}\nplaces:\n  far: {x_m: 9, y_m: 1, yaw_rad: 0}\n"
    assert "places.far.x_m: 9 is outside skills.navigate_to.limits.x_m (0 .. 5)" in complaint(text)


def test_all_faults_are_told_at_once() -> None:
    said = complaint("robot:\n  nme: x\n  bse: y\n")
    assert said.count("robot.yaml, line") == 2


def test_a_disabled_skill_is_not_built() -> None:
    config = parse_config(NAVIGATE + "    enabled: false\n")
    assert build_skills(config) == {}
