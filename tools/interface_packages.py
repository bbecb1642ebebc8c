"""The interface packages this tree can build itself: what they hold and need, in which order to build them.

``interfaces/<package>/{msg,srv,action}/`` holds the definitions as of ROS 2 Kilted.
``interfaces/overrides/<distro>/<package>/`` holds the files that differ in another distribution and, in a
text file ``REMOVED``, the names of those it lacks. ``msg/`` is this project's own package,
robot_mcp_kit_msgs.

Standard library only: the set-up reads this before anything is installed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOTS = ("nav2_msgs", "control_msgs", "moveit_msgs", "tf2_msgs", "vision_msgs", "robot_mcp_kit_msgs")
"""Packages that the bridge and the simulated robot import; what these need follows from their package.xml."""

KINDS = ("msg", "srv", "action")


class InterfaceError(Exception):
    """Definitions that cannot be used; the text says which and why."""


@dataclass(frozen=True)
class InterfacePackage:
    """One interface package of this tree."""

    name: str
    manifest: Path
    files: Mapping[str, Path]
    """``action/Spin.action`` -> where that definition lies, overrides applied."""
    depends: frozenset[str]

    def digest(self) -> str:
        """Hash of everything the built package depends on in this tree."""
        seen = hashlib.sha256(self.manifest.read_bytes())
        for relative, path in sorted(self.files.items()):
            seen.update(f"\0{relative}\0".encode())
            seen.update(path.read_bytes())
        return seen.hexdigest()

    def referenced(self) -> set[str]:
        """Packages whose types the definitions use by name."""
        text = "\n".join(path.read_text(encoding="utf-8") for path in self.files.values())
        return set(re.findall(r"^\s*(\w+)/\w+", text, re.MULTILINE)) - {self.name}


def load(root: Path, distro: str) -> dict[str, InterfacePackage]:
    """All packages of the tree at ``root``, as ``distro`` has them, by name.

    Raises:
        InterfaceError: a package.xml is missing or does not list a package whose types are used.
    """
    packages = {}
    for manifest in sorted((root / "interfaces").glob("*/package.xml")):
        base = manifest.parent
        override = root / "interfaces" / "overrides" / distro / base.name
        files = {**_definitions(base), **_definitions(override)}
        for removed in _removed(override):
            if files.pop(removed, None) is None:
                raise InterfaceError(f"{override}/REMOVED names {removed}, which {base} does not have")
        packages[base.name] = _package(base.name, manifest, files)
    own = root / "msg"
    if (own / "package.xml").exists():
        # Its definitions lie directly in msg/, beside the CMakeLists.txt that colcon builds.
        files = {f"msg/{path.name}": path for path in sorted(own.glob("*.msg"))}
        packages["robot_mcp_kit_msgs"] = _package("robot_mcp_kit_msgs", own / "package.xml", files)
    return packages


def missing(
    packages: Mapping[str, InterfacePackage], available: Collection[str], wanted: Iterable[str] = ROOTS
) -> list[InterfacePackage]:
    """What must be built so that all of ``wanted`` exist, dependencies first.

    A package that is ``available`` (some distribution provides it) is never built, nor what only it needs.
    Packages that this tree does not define are passed over: see :func:`external`.

    Raises:
        InterfaceError: packages need each other.
    """
    order: list[InterfacePackage] = []
    state: dict[str, bool] = {}

    def visit(name: str, needed_by: str) -> None:
        if name in available or state.get(name):
            return
        if name in state:
            raise InterfaceError(f"interface packages {name} and {needed_by} need each other")
        if name not in packages:
            return
        state[name] = False
        for dependency in sorted(packages[name].depends):
            visit(dependency, name)
        state[name] = True
        order.append(packages[name])

    for name in wanted:
        visit(name, "robot_mcp_kit")
    return order


def external(packages: Iterable[InterfacePackage], defined: Collection[str]) -> set[str]:
    """What ``packages`` need that this tree does not define: the common interfaces every distribution has."""
    return {name for package in packages for name in package.depends if name not in defined}


def _definitions(folder: Path) -> dict[str, Path]:
    return {f"{kind}/{path.name}": path for kind in KINDS for path in sorted(folder.glob(f"{kind}/*.{kind}"))}


def _removed(override: Path) -> list[str]:
    try:
        lines = (override / "REMOVED").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _package(name: str, manifest: Path, files: Mapping[str, Path]) -> InterfacePackage:
    tree = ElementTree.parse(manifest).getroot()  # noqa: S314 (a file of this tree)
    if tree.findtext("name") != name:
        raise InterfaceError(f"{manifest}: <name> is {tree.findtext('name')!r}, the folder says {name!r}")
    depends = frozenset(text for node in tree.findall("depend") if (text := (node.text or "").strip()))
    package = InterfacePackage(name, manifest, files, depends)
    if undeclared := package.referenced() - depends:
        raise InterfaceError(f"{manifest}: add <depend> for {', '.join(sorted(undeclared))}")
    return package
