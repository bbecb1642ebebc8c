"""Which ROS 2 the set-up chooses, on prefixes that look like installations."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.distribution import (
    Distribution,
    SetupError,
    clean_environment,
    detect,
    environment,
    find_python,
    interfaces,
)

INDEX = Path("share/ament_index/resource_index")


def prefix(folder: Path, *, packages: tuple[str, ...] = (), interfaces: tuple[str, ...] = ()) -> Path:
    """A folder that the ament index takes for an installation with these packages."""
    for kind, names in (("packages", (*packages, *interfaces)), ("rosidl_interfaces", interfaces)):
        for name in names:
            marker = folder / INDEX / kind / name
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
    return folder


@pytest.fixture
def opt(tmp_path: Path) -> Path:
    return prefix(tmp_path / "opt" / "jazzy", packages=("rclpy",), interfaces=("std_msgs", "nav2_msgs"))


def test_without_a_sourced_distribution_kilted_comes_as_wheels() -> None:
    found = detect({})
    assert found == Distribution("kilted", ())
    assert not found.sourced
    assert found.venv_name == ".venv"


def test_distro_chooses_other_wheels_in_an_environment_of_their_own() -> None:
    found = detect({}, "jazzy")
    assert found == Distribution("jazzy", ())
    assert found.venv_name == ".venv-jazzy"


def test_wheels_that_do_not_exist_are_refused_with_those_that_do() -> None:
    with pytest.raises(SetupError, match=r"DISTRO=humble.*kilted and jazzy"):
        detect({}, "humble")


def test_a_sourced_distribution_is_used_with_its_overlays(opt: Path, tmp_path: Path) -> None:
    overlay = prefix(tmp_path / "ws" / "install", interfaces=("my_msgs",))
    found = detect({"AMENT_PREFIX_PATH": f"{overlay}:{opt}", "ROS_DISTRO": "jazzy"})
    assert found == Distribution("jazzy", (overlay, opt))
    assert found.sourced
    assert found.venv_name == ".venv-sourced-jazzy"
    assert interfaces(found.prefixes) == {"my_msgs", "std_msgs", "nav2_msgs"}


def test_our_own_environment_is_not_taken_for_a_sourced_distribution(opt: Path) -> None:
    (opt / "pyvenv.cfg").touch()
    assert not detect({"AMENT_PREFIX_PATH": str(opt), "ROS_DISTRO": "jazzy"}).sourced


def test_a_prefix_without_rclpy_is_no_distribution(tmp_path: Path) -> None:
    overlay = prefix(tmp_path / "ws", interfaces=("my_msgs",))
    assert not detect({"AMENT_PREFIX_PATH": str(overlay), "ROS_DISTRO": "kilted"}).sourced


def test_asking_for_another_distribution_than_the_sourced_one_is_refused(opt: Path) -> None:
    with pytest.raises(SetupError, match=r"DISTRO=kilted.*jazzy is sourced"):
        detect({"AMENT_PREFIX_PATH": str(opt), "ROS_DISTRO": "jazzy"}, "kilted")


def test_a_distribution_without_its_name_is_refused(opt: Path) -> None:
    with pytest.raises(SetupError, match="ROS_DISTRO"):
        detect({"AMENT_PREFIX_PATH": str(opt)})


def test_a_distribution_with_too_old_a_python_is_refused_with_the_versions(opt: Path) -> None:
    (opt / "lib/python3.10/site-packages/rclpy").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"uses Python 3\.10.*3\.11 or newer"):
        find_python(Distribution("humble", (opt,)))


def test_the_distributions_own_python_is_used(opt: Path) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (opt / f"lib/python{version}/site-packages/rclpy").mkdir(parents=True)
    assert Path(find_python(Distribution("jazzy", (opt,)))).name.startswith("python3")


def test_an_interpreter_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    dead = tmp_path / "python3.12"
    dead.write_text("#!/bin/sh\nexit 127\n")
    dead.chmod(0o755)
    with pytest.raises(SetupError, match=r"no usable Python \(3\.11, 3\.12, 3\.13\).*Set PYTHON"):
        find_python(Distribution("kilted", ()), str(dead))


def test_a_python_without_headers_is_refused_with_the_package_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "python3.12"
    bare.write_text("#!/bin/sh\necho 3 12 0\n")
    bare.chmod(0o755)
    with pytest.raises(SetupError, match=r"Python\.h.*python3\.12-dev"):
        find_python(Distribution("kilted", ()), str(bare))


def test_what_another_environments_wheels_left_is_dropped() -> None:
    dirty = {
        "_ROS_WHEELS_BOOTSTRAP_COMPLETE": "1",
        "LD_LIBRARY_PATH": "/other/lib",
        "VIRTUAL_ENV": "/other",
        "A": "b",
    }
    assert clean_environment(dirty) == {"A": "b"}
    variables = environment(Path("/x/.venv"), Distribution("kilted", ()), dirty)
    assert variables["LD_LIBRARY_PATH"] is None
    assert variables["VIRTUAL_ENV"] == "/x/.venv"


def test_a_library_path_of_the_users_own_is_kept() -> None:
    assert clean_environment({"LD_LIBRARY_PATH": "/opt/ros/lib"}) == {"LD_LIBRARY_PATH": "/opt/ros/lib"}


def test_a_command_finds_the_environment_first_and_the_distribution_behind_it(opt: Path) -> None:
    venv = Path("/x/.venv-sourced-jazzy")
    variables = environment(
        venv, Distribution("jazzy", (opt,)), {"PATH": "/bin", "LD_LIBRARY_PATH": f"{opt}/lib"}
    )
    assert variables["PATH"] == f"{venv}/bin:/bin"
    assert variables["AMENT_PREFIX_PATH"] == f"{venv}:{opt}"
    assert variables["LD_LIBRARY_PATH"] == f"{venv}/lib:{opt}/lib"


def test_entering_twice_changes_nothing() -> None:
    venv = Path("/x/.venv")
    once = {
        k: v
        for k, v in environment(venv, Distribution("kilted", ()), {"PATH": "/bin"}).items()
        if v is not None
    }
    twice = environment(venv, Distribution("kilted", ()), once)
    assert {**once, **{k: v for k, v in twice.items() if v is not None}} == once


@pytest.mark.parametrize(("given", "expected"), [("", "LOCALHOST"), ("SUBNET", "SUBNET")])
def test_discovery_stays_on_this_machine_unless_said_otherwise(given: str, expected: str) -> None:
    variables = environment(Path("/x"), Distribution("kilted", ()), {"ROS_AUTOMATIC_DISCOVERY_RANGE": given})
    assert variables["ROS_AUTOMATIC_DISCOVERY_RANGE"] == expected
