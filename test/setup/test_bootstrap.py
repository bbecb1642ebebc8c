"""The set-up's steps and stamps, with the commands it would run replaced at the one place that runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tools.bootstrap import Setup, main, shell
from tools.check_type_hashes import expected
from tools.distribution import Distribution, SetupError

ROOT = Path(__file__).resolve().parent.parent.parent
BUILT = [
    *(
        "geographic_msgs",
        "nav2_msgs",
        "control_msgs",
        "object_recognition_msgs",
        "octomap_msgs",
        "moveit_msgs",
    ),
    *("tf2_msgs", "vision_msgs", "robot_mcp_kit_msgs"),
]


class Machine(Setup):
    """A set-up on a machine where every command succeeds at once unless ``refuse`` knows it."""

    def __init__(
        self,
        venv: Path,
        root: Path,
        *,
        distribution: Distribution | None = None,
        uv: str | None = None,
        refuse: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            venv, distribution or Distribution("kilted", ()), {"PATH": "/usr/bin"}, uv=uv, root=root
        )
        self.refuse = dict(refuse or {})
        self.commands: list[str] = []

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        text = " ".join(command)
        self.commands.append(text)
        for word, answer in self.refuse.items():
            if word in text:
                return subprocess.CompletedProcess(command, 1, answer, "")
        if " venv" in text:
            for name in ("python", "pip"):
                program = self.venv / "bin" / name
                program.parent.mkdir(parents=True, exist_ok=True)
                program.write_text("#!/bin/sh\nexit 0\n")
                program.chmod(0o755)
        if "tools.build_interfaces" in text:
            self.install(command[-1])
        return subprocess.CompletedProcess(command, 0, "built", "")

    def install(self, package: str) -> None:
        folder = self.venv / "share" / package / "msg"
        folder.mkdir(parents=True, exist_ok=True)
        entries = [
            {"type_name": name, "hash_string": value}
            for name, value in expected(self.distribution.name, [package]).items()
        ]
        (folder / "All.json").write_text(json.dumps({"type_hashes": entries}))

    def built(self) -> list[str]:
        return [text.split()[-1] for text in self.commands if "build_interfaces" in text]


Make = Callable[..., Machine]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    for name in ("interfaces", "msg", "tools", "scripts", "launch", "config", "resource"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "setup.cfg", "package.xml"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def make(root: Path, tmp_path: Path) -> Make:
    def machine(**changes: object) -> Machine:
        return Machine(tmp_path / ".venv", root, **changes)  # type: ignore[arg-type]

    return machine


def test_the_first_run_installs_builds_and_links_everything(make: Make, root: Path) -> None:
    machine = make()
    machine.run(None)
    assert machine.built() == BUILT
    assert any("ros-kilted.txt" in text for text in machine.commands)
    assert any("-e" in text and f"{root}[dev,mcp,ros,rcp]" in text for text in machine.commands)
    for link in (
        "lib/robot_mcp_kit/bridge",
        "lib/robot_mcp_kit/sim",
        "share/robot_mcp_kit/launch/bridge.launch.py",
    ):
        assert (machine.venv / link).is_symlink()
        assert (machine.venv / link).exists()


def test_the_second_run_runs_nothing(make: Make) -> None:
    make().run(None)
    again = make()
    again.run(None)
    assert again.commands == []


def test_a_changed_definition_rebuilds_its_package_and_those_that_contain_it(make: Make, root: Path) -> None:
    make().run(None)
    path = root / "interfaces/octomap_msgs/msg/Octomap.msg"
    path.write_text(path.read_text() + "# changed\n")
    again = make()
    again.run(None)
    assert again.built() == ["octomap_msgs", "moveit_msgs"]
    assert all("build_interfaces" in text for text in again.commands)


def test_another_version_of_a_tool_is_installed_and_nothing_is_built_again(make: Make, root: Path) -> None:
    make().run(None)
    pins = root / "tools/requirements/constraints.txt"
    pins.write_text(pins.read_text().replace("ruff==", "ruff==9"))
    again = make()
    again.run(None)
    assert len([text for text in again.commands if "pip" in text]) == 2
    assert again.built() == []


def test_other_wheels_build_everything_again(make: Make, root: Path) -> None:
    make().run(None)
    wheels = root / "tools/requirements/ros-kilted.txt"
    wheels.write_text(wheels.read_text().replace("rclpy[fastrtps]==", "rclpy[fastrtps]==1"))
    again = make()
    again.run(None)
    assert again.built() == BUILT


def test_a_changed_launch_file_is_a_link_and_a_new_one_becomes_one(make: Make, root: Path) -> None:
    make().run(None)
    (root / "launch/new.launch.py").write_text("")
    again = make()
    again.run(None)
    assert (again.venv / "share/robot_mcp_kit/launch/new.launch.py").is_symlink()
    assert again.built() == []


def test_an_interrupted_run_goes_on_where_it_was(make: Make) -> None:
    with pytest.raises(SetupError, match="no space left"):
        make(refuse={"moveit_msgs": "no space left"}).run(None)
    again = make()
    again.run(None)
    assert again.built() == ["moveit_msgs", "tf2_msgs", "vision_msgs", "robot_mcp_kit_msgs"]


def test_an_environment_whose_python_is_gone_is_made_anew(make: Make) -> None:
    machine = make()
    machine.run(None)
    (machine.venv / "bin/python").unlink()
    again = make()
    again.run(None)
    assert again.built() == BUILT


def test_a_build_that_differs_from_the_original_stops_the_set_up(make: Make) -> None:
    machine = make()
    original = machine.install

    def wrong(package: str) -> None:
        original(package)
        path = machine.venv / "share" / package / "msg/All.json"
        path.write_text(path.read_text().replace("RIHS01_22a9", "RIHS01_0000"))

    machine.install = wrong  # type: ignore[method-assign]
    with pytest.raises(SetupError, match="nav2_msgs/action/NavigateToPose_Goal: other fields"):
        machine.run(None)


def test_with_uv_pip_is_not_used(make: Make) -> None:
    machine = make(uv="/usr/bin/uv")
    machine.run(None)
    assert not any("-m pip" in text for text in machine.commands)
    assert any(text.startswith("/usr/bin/uv venv") for text in machine.commands)


def test_where_uv_finds_less_pip_goes_on(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    machine = make(uv="/usr/bin/uv", refuse={"uv pip": "no solution"})
    machine.run(None)
    assert len([text for text in machine.commands if "-m pip" in text]) == 2
    assert "no solution" in capsys.readouterr().err


def test_a_python_without_venv_is_told_with_the_package_to_install(make: Make) -> None:
    with pytest.raises(SetupError, match="python3-venv"):
        make(refuse={"-m venv": "The virtual environment was not created: ensurepip is not available."}).run(
            None
        )


def test_a_machine_without_a_compiler_is_told_before_anything_is_made(make: Make) -> None:
    machine = make()
    machine.environ = {"PATH": "/nowhere", "CXX": "no-such-compiler"}
    with pytest.raises(SetupError, match=r"no C\+\+ compiler.*build-essential"):
        machine.run(None)
    assert machine.commands == []


def prefix(folder: Path, names: Sequence[str]) -> Path:
    for kind in ("packages", "rosidl_interfaces"):
        for name in names:
            marker = folder / "share/ament_index/resource_index" / kind / name
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
    python = folder / "lib"
    python.mkdir(exist_ok=True)
    return folder


COMMON = [
    "action_msgs",
    "builtin_interfaces",
    "geometry_msgs",
    "nav_msgs",
    "sensor_msgs",
    "shape_msgs",
    "std_msgs",
]
COMMON += ["trajectory_msgs"]


def test_with_a_sourced_distribution_only_what_it_lacks_is_built(make: Make, tmp_path: Path) -> None:
    opt = prefix(tmp_path / "opt", [*COMMON, "nav2_msgs", "moveit_msgs", "rclpy"])
    (opt / "lib/python3.11/site-packages/rclpy").mkdir(parents=True)
    machine = make(distribution=Distribution("kilted", (opt,)), uv="/usr/bin/uv")
    machine.run(None)
    assert machine.built() == ["control_msgs", "tf2_msgs", "vision_msgs", "robot_mcp_kit_msgs"]
    made = next(text for text in machine.commands if "-m venv" in text)
    assert "--system-site-packages" in made
    assert not any("ros-kilted" in text for text in machine.commands)


def test_a_distribution_that_lacks_common_interfaces_is_told_what_to_install(
    make: Make, tmp_path: Path
) -> None:
    opt = prefix(tmp_path / "opt", [*COMMON[:-1], "rclpy"])
    with pytest.raises(SetupError, match="apt install ros-kilted-trajectory-msgs"):
        make(distribution=Distribution("kilted", (opt,))).run(None)


def test_shell_lines_survive_spaces_and_quotes() -> None:
    text = shell({"A": "it's a b", "B": None})
    done = subprocess.run(
        ["bash", "-c", f'B=1\n{text}\nprintf "%s|%s" "$A" "${{B-unset}}"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "it's a b|unset"


def test_a_wrong_distro_ends_with_a_sentence_and_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMENT_PREFIX_PATH", "")
    assert main(["--distro", "foxy"]) == 1
    assert "DISTRO=foxy" in capsys.readouterr().err
