"""Options become node parameters, unchanged on their way through ROS's own parser."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from robot_mcp_kit.cli import build_parser
from robot_mcp_kit.cli.common import CliError, parse_address, ros_arguments, split_ros_arguments
from robot_mcp_kit.cli.demo import parse_fault
from robot_mcp_kit.cli.run import node_argv


def parse_run(*words: str) -> argparse.Namespace:
    args = build_parser().parse_args(["run", *words])
    args.ros_arguments = []
    return args


def test_nothing_given_leaves_every_parameter_to_the_node() -> None:
    assert node_argv(parse_run()) == []


def test_options_become_parameters_of_the_same_name(tmp_path: Path) -> None:
    skills = tmp_path / "it's.yaml"
    skills.write_text("skills: {}")
    argv = node_argv(parse_run("--skills", str(skills), "--port", "0", "--stdio", "--namespace", "robot7"))
    quoted = str(skills.resolve()).replace("'", "''")
    assert f"skills_file:='{quoted}'" in argv
    assert "port:=0" in argv
    assert "stdio:=true" in argv
    assert "__ns:=/robot7" in argv


def test_the_users_own_ros_arguments_come_last_so_that_they_win() -> None:
    ours, ros = split_ros_arguments(["run", "--port", "1", "--ros-args", "-p", "port:=2"])
    assert ours == ["run", "--port", "1"]
    words = ros_arguments({"port": 1}, extra=ros)
    assert words == ["--ros-args", "-p", "port:=1", "--", "--ros-args", "-p", "port:=2"]


@pytest.mark.ros
def test_ros_reads_text_that_looks_like_a_number_as_text_and_the_last_word_wins() -> None:
    rclpy = pytest.importorskip("rclpy")
    words = ros_arguments(
        {"skills_file": "1e3", "host": "it's", "port": 1, "factor": 2.0},
        namespace="robot7",
        extra=["--ros-args", "-p", "port:=2"],
    )
    context = rclpy.Context()
    rclpy.init(args=words, context=context)
    try:
        node = rclpy.create_node(
            "probe", context=context, automatically_declare_parameters_from_overrides=True
        )
        values = {name: node.get_parameter(name).value for name in ("skills_file", "host", "port", "factor")}
        namespace = node.get_namespace()
        node.destroy_node()
    finally:
        rclpy.shutdown(context=context)
    assert values == {"skills_file": "1e3", "host": "it's", "port": 2, "factor": 2.0}
    assert namespace == "/robot7"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("8000", ("127.0.0.1", 8000)),
        (":0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_addresses_are_read(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["localhost", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", ""])
def test_what_is_not_an_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(CliError, match=r"127\.0\.0\.1:8000"):
        parse_address(text)


def test_faults_are_read_in_the_type_of_the_fault() -> None:
    assert parse_fault("blocked_doors=kitchen_door,office_door") == (
        "blocked_doors",
        ["kitchen_door", "office_door"],
    )
    assert parse_fault("slow_down=0.5") == ("slow_down", 0.5)
    assert parse_fault("stuck=True") == ("stuck", True)


@pytest.mark.parametrize("text", ["stuck=perhaps", "slow_down=fast", "stuck", "=1"])
def test_a_fault_of_the_wrong_type_is_refused(text: str) -> None:
    with pytest.raises(CliError, match="--fault"):
        parse_fault(text)
