"""Building interface packages, for real, with the generators of the ROS 2 that is installed here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.build_interfaces import Builder, BuildError, compilers
from tools.check_type_hashes import differences, expected, installed
from tools.interface_packages import InterfacePackage, load

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.ros

# In a process of its own: the generators' template engine takes over sys.stdout and does not give it back.
BUILD = """
import sys
from pathlib import Path
from tools.build_interfaces import BuildError, build
from tools.interface_packages import InterfacePackage
name, manifest, prefix, prefixes, depends = sys.argv[1:]
folder = Path(manifest).parent
files = {f"msg/{path.name}": path for path in sorted(folder.glob("msg/*.msg"))}
package = InterfacePackage(name, Path(manifest), files, frozenset(depends.split()))
try:
    build(package, Path(prefix), [Path(part) for part in prefixes.split(":")], 2)
except BuildError as error:
    sys.exit(str(error))
"""


def build(package: InterfacePackage, prefix: Path, prefixes: list[Path]) -> str:
    """Build, and return what went wrong."""
    (prefix / "lib").mkdir(parents=True)
    places = ":".join(map(str, prefixes))
    arguments = [package.name, str(package.manifest), str(prefix), places, " ".join(package.depends)]
    done = subprocess.run([sys.executable, "-c", BUILD, *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


@pytest.fixture
def prefixes() -> list[Path]:
    pytest.importorskip("rosidl_generator_py", reason="rosidl is not installed here; `make test` sets it up")
    return [Path(part) for part in os.environ.get("AMENT_PREFIX_PATH", sys.prefix).split(":") if part]


def package(folder: Path, name: str, text: str, *depends: str) -> InterfacePackage:
    path = folder / name / "msg" / "Thing.msg"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    manifest = folder / name / "package.xml"
    manifest.write_text(f"<package><name>{name}</name></package>")
    return InterfacePackage(name, manifest, {"msg/Thing.msg": path}, frozenset(depends))


@pytest.mark.slow
def test_a_package_built_here_is_imported_and_fits_through_the_middleware(
    tmp_path: Path, prefixes: list[Path]
) -> None:
    made = package(
        tmp_path, "kit_probe_msgs", "float64 x_m 1.5  # metres\nstd_msgs/Header header  # frame\n", "std_msgs"
    )
    prefix = tmp_path / "prefix"
    assert build(made, prefix, prefixes) == ""
    site = next(prefix.glob("lib/python3*/site-packages"))
    code = (
        "from rclpy.serialization import serialize_message, deserialize_message\n"
        "from kit_probe_msgs.msg import Thing\n"
        "one = Thing(); one.header.frame_id = 'map'\n"
        "two = deserialize_message(serialize_message(one), Thing)\n"
        "print(two.x_m, two.header.frame_id)\n"
    )
    env = {key: value for key, value in os.environ.items() if key != "_ROS_WHEELS_BOOTSTRAP_COMPLETE"}
    libraries = [
        str(prefix / "lib"),
        *(str(other / "lib") for other in prefixes),
        env.get("LD_LIBRARY_PATH", ""),
    ]
    env |= {"PYTHONPATH": f"{site}:{env.get('PYTHONPATH', '')}", "LD_LIBRARY_PATH": ":".join(libraries)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "1.5 map\n", done.stderr
    assert (prefix / "share/ament_index/resource_index/rosidl_interfaces/kit_probe_msgs").exists()


@pytest.mark.slow
def test_a_wrong_field_changes_the_hash_and_is_caught(tmp_path: Path, prefixes: list[Path]) -> None:
    original = load(ROOT, "kilted")["octomap_msgs"]
    tree = tmp_path / "octomap_msgs"
    files = {}
    for relative, path in original.files.items():
        files[relative] = tree / relative
        files[relative].parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, files[relative])
    manifest = shutil.copy(original.manifest, tree)
    wrong = files["msg/Octomap.msg"]
    wrong.write_text(wrong.read_text().replace("float64 resolution", "float32 resolution"))
    prefix = tmp_path / "prefix"
    package = InterfacePackage("octomap_msgs", Path(manifest), files, original.depends)
    assert build(package, prefix, prefixes) == ""
    lines = differences(expected("kilted", ["octomap_msgs"]), installed([prefix]))
    # Octomap itself, and OctomapWithPose, which contains it.
    assert [line.split(":")[0] for line in lines] == [
        "octomap_msgs/msg/Octomap",
        "octomap_msgs/msg/OctomapWithPose",
    ]


def test_a_definition_that_cannot_be_read_is_named(tmp_path: Path, prefixes: list[Path]) -> None:
    broken = package(tmp_path, "kit_broken_msgs", "floaty64 x\n")
    assert re.search(r"Thing\.msg: .*floaty64", build(broken, tmp_path / "prefix", prefixes))


def test_a_dependency_that_is_not_installed_is_named(tmp_path: Path, prefixes: list[Path]) -> None:
    lonely = package(tmp_path, "kit_lonely_msgs", "no_such_msgs/Thing x\n", "no_such_msgs")
    with pytest.raises(BuildError, match="kit_lonely_msgs needs no_such_msgs, which is not installed"):
        Builder(lonely, tmp_path / "prefix", prefixes, tmp_path / "work", 1)


def test_a_missing_compiler_is_told_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BuildError, match=r"no C compiler \(no-such-compiler\).*build-essential"):
        compilers()
