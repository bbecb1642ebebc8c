"""What is shipped: both ROS packages and the Python package agree, and the base needs no more than that."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.bootstrap import Setup
from tools.distribution import Distribution

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def manifest(path: str) -> ElementTree.Element:
    return ElementTree.parse(ROOT / path).getroot()  # noqa: S314


@pytest.mark.parametrize("path", ["package.xml", "msg/package.xml"])
def test_the_versions_agree(path: str) -> None:
    assert manifest(path).findtext("version") == PROJECT["version"]
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("path", ["package.xml", "msg/package.xml"])
def test_manifests_are_of_format_3_and_under_the_licence(path: str) -> None:
    assert manifest(path).get("format") == "3"
    assert manifest(path).findtext("license") == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_every_message_package_that_is_imported_is_declared() -> None:
    declared = {node.text for node in manifest("package.xml") if node.tag.endswith("depend")}
    text = "\n".join(path.read_text() for path in (ROOT / "robot_mcp_kit").rglob("*.py"))
    imported = set(
        re.findall(
            r"^\s*(?:from|import) (\w+_msgs|\w+_interfaces|std_srvs|rclpy|tf2_ros|rosidl_\w+)\b", text, re.M
        )
    )
    # tf2_ros for Python is a package of another name.
    assert imported - {"tf2_ros"} - declared == set()
    assert "tf2_ros" not in imported or "tf2_ros_py" in declared
    assert "rclpy" in imported


def test_every_message_of_our_own_is_built_and_every_field_explained() -> None:
    listed = re.search(r"foreach\(name ([\w ]+)\)", (ROOT / "msg/CMakeLists.txt").read_text())
    assert listed is not None
    assert sorted(listed[1].split()) == sorted(path.stem for path in (ROOT / "msg").glob("*.msg"))


def test_the_base_needs_pydantic_and_httpx_only() -> None:
    names = {re.split(r"[<>=\[ ]", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert names == {"pydantic", "httpx"}


def test_the_links_of_an_editable_installation_are_what_a_real_one_installs() -> None:
    namespace: dict[str, object] = {}
    source = (ROOT / "setup.py").read_text().replace("from setuptools import setup", "")
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        exec(source, {"setup": namespace.update})  # noqa: S102
    finally:
        os.chdir(before)
    data_files = namespace["data_files"]
    assert isinstance(data_files, list)
    shipped = {f"{folder}/{Path(name).name}": (ROOT / name) for folder, names in data_files for name in names}
    setup = Setup(ROOT / ".venv", Distribution("kilted", ()), {})
    assert setup._links() == shipped


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("pip", reason="this environment was made without pip")
    out = tmp_path_factory.mktemp("wheel")
    # A copy: setuptools leaves what it builds beside the source.
    tree = out / "tree"
    for name in ("robot_mcp_kit", "launch", "config", "resource", "scripts"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "setup.cfg", "package.xml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*command, "-w", str(out), str(tree)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


@pytest.mark.slow
def test_a_plain_installation_brings_two_libraries_one_command_and_the_ros_files(
    wheel: zipfile.ZipFile,
) -> None:
    names = wheel.namelist()
    info = next(name.split("/")[0] for name in names if ".dist-info/" in name)
    metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    plain = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert sorted(re.split(r"[<>=,; ]", text)[0] for text in plain) == ["httpx", "pydantic"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License"] == "Apache-2.0"
    assert wheel.read(f"{info}/entry_points.txt").decode().split() == [
        *("[console_scripts]", "robot-mcp-kit", "=", "robot_mcp_kit.cli:main")
    ]
    assert "robot_mcp_kit/py.typed" in names
    assert any(name.endswith("data/lib/robot_mcp_kit/bridge") for name in names)
    assert any(name.endswith("data/share/robot_mcp_kit/launch/bridge.launch.py") for name in names)
    assert any(
        name.endswith("data/share/ament_index/resource_index/packages/robot_mcp_kit") for name in names
    )
    assert not [name for name in names if name.split("/")[0] in ("tools", "test", "interfaces", "bench")]
    bridge = next(item for item in wheel.infolist() if item.filename.endswith("lib/robot_mcp_kit/bridge"))
    assert bridge.external_attr >> 16 & 0o111, "ros2 run looks for executables"


def test_scripts_for_ros2_run_start_the_python_of_their_environment(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").touch()
    for folder in ("bin", "lib/robot_mcp_kit"):
        (tmp_path / folder).mkdir(parents=True)
    python = tmp_path / "bin/python3"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    for name, module in (("bridge", "robot_mcp_kit.node.main"), ("sim", "robot_mcp_kit.sim.node")):
        script = tmp_path / "lib/robot_mcp_kit" / name
        script.write_text((ROOT / "scripts" / name).read_text())
        script.chmod(0o755)
        done = subprocess.run(
            [script, "--ros-args", "-p", "a:=b c"], capture_output=True, text=True, check=True
        )
        assert f"from {module} import main" in done.stdout
        assert done.stdout.endswith("--ros-args -p a:=b c\n")


def test_nothing_names_the_host_of_a_package_registry() -> None:
    hosts = re.compile(r"(pypi|pythonhosted|npmjs|ghcr)\.(org|com|io)")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and path != Path(__file__).resolve():
            assert not hosts.search(path.read_text(errors="ignore")), name
