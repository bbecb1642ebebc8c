"""The definitions in interfaces/ and msg/: what is built, in which order, and that they are true."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tools.check_type_hashes import differences, expected, installed
from tools.interface_packages import ROOTS, InterfaceError, external, load, missing

ROOT = Path(__file__).resolve().parent.parent.parent
COMMON = {
    "action_msgs",
    "builtin_interfaces",
    "geometry_msgs",
    "nav_msgs",
    "sensor_msgs",
    "shape_msgs",
    "std_msgs",
}
COMMON |= {"trajectory_msgs"}


def test_everything_is_built_where_nothing_is_provided_dependencies_first() -> None:
    names = [package.name for package in missing(load(ROOT, "kilted"), COMMON)]
    assert set(names) == {
        *("nav2_msgs", "control_msgs", "moveit_msgs", "tf2_msgs", "vision_msgs", "robot_mcp_kit_msgs"),
        *("geographic_msgs", "octomap_msgs", "object_recognition_msgs"),
    }
    assert names.index("geographic_msgs") < names.index("nav2_msgs")
    assert names.index("octomap_msgs") < names.index("moveit_msgs")


def test_nothing_is_built_that_the_distribution_has_nor_what_only_that_needs() -> None:
    available = COMMON | {"nav2_msgs", "moveit_msgs", "tf2_msgs", "vision_msgs"}
    assert [p.name for p in missing(load(ROOT, "kilted"), available)] == [
        "control_msgs",
        "robot_mcp_kit_msgs",
    ]


def test_nothing_is_built_where_a_workspace_has_everything() -> None:
    available = COMMON | set(ROOTS)
    assert missing(load(ROOT, "kilted"), available) == []


def test_what_the_definitions_need_beyond_themselves_are_common_interfaces() -> None:
    packages = load(ROOT, "kilted")
    assert external(packages.values(), packages) == COMMON


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "interfaces", tmp_path / "interfaces")
    return tmp_path


def test_a_type_of_an_undeclared_package_is_refused_with_the_file_to_mend(tree: Path) -> None:
    with (tree / "interfaces/octomap_msgs/msg/Octomap.msg").open("a") as file:
        file.write("sensor_msgs/JointState joints\n")
    with pytest.raises(InterfaceError, match=r"octomap_msgs/package\.xml: add <depend> for sensor_msgs"):
        load(tree, "kilted")


def test_packages_that_need_each_other_are_refused(tree: Path) -> None:
    manifest = tree / "interfaces/octomap_msgs/package.xml"
    manifest.write_text(
        manifest.read_text().replace("<depend>std_msgs", "<depend>moveit_msgs</depend>\n<depend>std_msgs")
    )
    with pytest.raises(InterfaceError, match="need each other"):
        missing(load(tree, "kilted"), COMMON)


def test_a_removal_of_what_is_not_there_is_refused(tree: Path) -> None:
    (tree / "interfaces/overrides/jazzy/nav2_msgs/REMOVED").write_text("msg/Nothing.msg\n")
    with pytest.raises(InterfaceError, match=r"msg/Nothing\.msg"):
        load(tree, "jazzy")


def test_the_hash_of_a_package_changes_with_a_definition_and_with_nothing_else(tree: Path) -> None:
    before = {name: package.digest() for name, package in load(tree, "kilted").items()}
    path = tree / "interfaces/nav2_msgs/action/Spin.action"
    path.write_text(path.read_text().replace("# Turn on the spot.", "# Turn round."))
    after = {name: package.digest() for name, package in load(tree, "kilted").items()}
    assert [name for name in before if before[name] != after[name]] == ["nav2_msgs"]


def test_jazzy_has_its_own_variants() -> None:
    kilted, jazzy = load(ROOT, "kilted")["nav2_msgs"], load(ROOT, "jazzy")["nav2_msgs"]
    assert "msg/WaypointStatus.msg" in kilted.files.keys() - jazzy.files.keys()
    assert "msg/MissedWaypoint.msg" in jazzy.files.keys() - kilted.files.keys()
    assert "disable_collision_checks" in kilted.files["action/Spin.action"].read_text()
    assert "disable_collision_checks" not in jazzy.files["action/Spin.action"].read_text()


def test_every_field_and_constant_says_what_it_is() -> None:
    for package in load(ROOT, "kilted").values():
        for path in package.files.values():
            for line in path.read_text().splitlines():
                if line and not line.startswith("#") and line != "---":
                    assert re.search(r"\S  # \S", line), f"{path}: {line}"


def test_equal_constants_of_one_action_have_different_comments() -> None:
    """rosidl's parser looks a constant up by its text: two equal ones would both go into one part."""
    for distro in ("kilted", "jazzy"):
        for package in load(ROOT, distro).values():
            for path in package.files.values():
                lines = [line for line in path.read_text().splitlines() if re.match(r"\w+ [A-Z0-9_]+=", line)]
                assert len(lines) == len(set(lines)), path


def test_the_table_of_hashes_covers_every_definition() -> None:
    for distro in ("kilted", "jazzy"):
        table = expected(distro)
        for package in load(ROOT, distro).values():
            if package.name == "robot_mcp_kit_msgs":
                continue
            for relative in package.files:
                kind, name = relative.split("/")
                name = name.rsplit(".", 1)[0]
                assert f"{package.name}/{kind}/{name}" in table


@pytest.mark.ros
def test_what_is_installed_here_equals_the_originals() -> None:
    """Of the packages that the set-up built; a distribution's own are what they are."""
    distro = os.environ.get("DISTRO") or os.environ.get("ROS_DISTRO") or "kilted"
    venv = Path(sys.prefix)
    built = {
        package.name for package in load(ROOT, distro).values() if (venv / "share" / package.name).is_dir()
    }
    if not (venv / ".setup").is_dir():
        pytest.skip("not an environment of the set-up")
    assert differences(expected(distro, built), installed([venv])) == []


def test_a_wrong_field_and_a_missing_type_are_told(tmp_path: Path) -> None:
    want = {"a_msgs/msg/Right": "RIHS01_1", "a_msgs/msg/Wrong": "RIHS01_2", "a_msgs/msg/Missing": "RIHS01_3"}
    folder = tmp_path / "share/a_msgs/msg"
    folder.mkdir(parents=True)
    for name, value in (("Right", "RIHS01_1"), ("Wrong", "RIHS01_9")):
        document = {"type_hashes": [{"type_name": f"a_msgs/msg/{name}", "hash_string": value}]}
        (folder / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "share/a_msgs/other").mkdir()
    (tmp_path / "share/a_msgs/other/config.json").write_text("[]")
    wrong = differences(want, installed([tmp_path]))
    assert [line.split(":")[0] for line in wrong] == ["a_msgs/msg/Missing", "a_msgs/msg/Wrong"]
    assert "not installed" in wrong[0]
    assert "RIHS01_9" in wrong[1]
    assert "RIHS01_2" in wrong[1]


def test_the_nearest_prefix_wins(tmp_path: Path) -> None:
    for name, value in (("near", "RIHS01_1"), ("far", "RIHS01_2")):
        folder = tmp_path / name / "share/a_msgs/msg"
        folder.mkdir(parents=True)
        document = {"type_hashes": [{"type_name": "a_msgs/msg/A", "hash_string": value}]}
        (folder / "A.json").write_text(json.dumps(document))
    assert installed([tmp_path / "near", tmp_path / "far"]) == {"a_msgs/msg/A": "RIHS01_1"}
