"""Build ROS 2 interface packages straight into a virtual environment: generators and a compiler, no CMake.

Run by the Python of that environment, which has rosidl (from the wheels, or from a sourced distribution)::

    python -m tools.build_interfaces nav2_msgs robot_mcp_kit_msgs [--distro kilted]

For each package it makes the C code, the Python module and the type supports that rmw_fastrtps_cpp
(fastrtps_c) and rmw_cyclonedds_cpp (introspection_c) ask for, type descriptions with their RIHS01 hashes,
headers, and the ament index entries. It leaves out C++, which rclpy does not need.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.interface_packages import InterfaceError, InterfacePackage, load

ROOT = Path(__file__).resolve().parent.parent
GENERATORS = {
    "introspection_c": "rosidl_typesupport_introspection_c",
    "py": "rosidl_generator_py",
    "c": "rosidl_generator_c",
    "fastrtps_c": "rosidl_typesupport_fastrtps_c",
    "typesupport_c": "rosidl_typesupport_c",
}
"""Short name -> package with the generator and its templates; the slow ones first."""

_SUMMARY = (__doc__ or "").split("\n")[0]
_INDEX = Path("share/ament_index/resource_index")
# -O0: half the build time; the code only copies fields.
_FLAGS = ("-O0", "-w", "-fPIC")
# Reached through every action or service definition without being written in it.
_IMPLIED = ("action_msgs", "service_msgs", "unique_identifier_msgs", "builtin_interfaces")


class BuildError(Exception):
    """A package could not be built; the text says at which step and why."""


def compilers() -> tuple[str, str]:
    """C and C++ compiler: ``CC`` and ``CXX``, else gcc and g++, else cc and c++.

    Raises:
        BuildError: one of them is missing.
    """
    found = []
    for variable, names in (("CC", ("gcc", "cc", "clang")), ("CXX", ("g++", "c++", "clang++"))):
        candidates = (os.environ[variable],) if os.environ.get(variable) else names
        path = next(filter(None, map(shutil.which, candidates)), None)
        if path is None:
            raise BuildError(
                f"no {'C' if variable == 'CC' else 'C++'} compiler ({', '.join(candidates)}): "
                f"install one (Debian, Ubuntu: apt install build-essential) or set {variable}"
            )
        found.append(path)
    return found[0], found[1]


class Builder:
    """Builds one package into ``prefix``; what it depends on is looked up under all ``prefixes``."""

    def __init__(
        self, package: InterfacePackage, prefix: Path, prefixes: Sequence[Path], work: Path, jobs: int
    ) -> None:
        self.package = package
        self.name = package.name
        self.prefix = prefix
        self.prefixes = [prefix, *(other for other in prefixes if other != prefix)]
        self.work = work
        self.jobs = jobs
        self.cc, self.cxx = compilers()
        self.lib = work / "lib"
        self.interfaces = [Path(relative) for relative in sorted(package.files)]
        self.idls = [path.with_suffix(".idl") for path in self.interfaces]
        self.depends = self._closure()

    def build(self) -> None:
        """Do all of it. The installed package is replaced only when everything was built.

        Raises:
            BuildError: a definition is wrong, a dependency is not installed, or the compiler failed.
        """
        self._stage()
        self._convert()
        self._generate()
        self._compile()
        self._install()

    # sources

    def _closure(self) -> list[str]:
        """Interface packages whose libraries are linked: those named, and the ones every action reaches."""
        needed = sorted(self.package.depends)
        needed += [name for name in _IMPLIED if name not in needed and name != self.name]
        for name in needed:
            if not any((prefix / _INDEX / "rosidl_interfaces" / name).exists() for prefix in self.prefixes):
                looked = ", ".join(map(str, self.prefixes))
                raise BuildError(f"{self.name} needs {name}, which is not installed under {looked}")
        return needed

    def _stage(self) -> None:
        for relative, path in self.package.files.items():
            target = self.work / "src" / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    def _convert(self) -> None:
        import rosidl_adapter.action
        import rosidl_adapter.msg
        import rosidl_adapter.srv
        from rosidl_adapter import convert_to_idl

        for module in (rosidl_adapter.msg, rosidl_adapter.srv, rosidl_adapter.action):
            module.print = lambda *_: None
        for relative in self.interfaces:
            try:
                convert_to_idl(self.work / "src", self.name, relative, self.work / "idl")
            except Exception as error:
                raise BuildError(f"{self.package.files[str(relative)]}: {error}") from error

    def _arguments(self) -> dict[str, Any]:
        """What every generator is told."""
        includes = []
        for prefix in self.prefixes:
            folder = prefix / _INDEX / "rosidl_interfaces"
            for marker in sorted(folder.iterdir()) if folder.is_dir() else ():
                if marker.name != self.name:
                    includes.append(f"{marker.name}:{prefix / 'share' / marker.name}")
        return {
            "package_name": self.name,
            "idl_tuples": [f"{self.work / 'idl'}:{idl}" for idl in self.idls],
            "target_dependencies": [],
            "ros_interface_dependencies": [],
            "ros_interface_files": [str(self.work / "src" / path) for path in self.interfaces],
            "include_paths": includes,
            "type_description_tuples": [
                f"{idl}:{self.work / 'td' / idl.with_suffix('.json')}" for idl in self.idls
            ],
        }

    def _generate(self) -> None:
        from rosidl_generator_type_description import generate_type_hash

        common = self._arguments()
        described = self.work / "td.json"
        described.write_text(json.dumps({**common, "output_dir": str(self.work / "td")}))
        _parse_each_file_once()
        try:
            generate_type_hash(str(described))
        except Exception as error:
            raise BuildError(f"{self.name}: type descriptions: {error}") from error
        tasks = []
        for kind, generator in GENERATORS.items():
            out = self.work / kind / self.name
            for folder in {path.parent for path in self.interfaces}:
                (out / folder).mkdir(parents=True, exist_ok=True)
            templates = self._share(generator) / "resource"
            arguments = self.work / f"{kind}.json"
            arguments.write_text(
                json.dumps({**common, "output_dir": str(out), "template_dir": str(templates)})
            )
            tasks.append((kind, str(arguments)))
        (self.work / "py" / self.name / "__init__.py").write_text("")
        with ProcessPoolExecutor(self.jobs) as pool:
            for kind, error_text in pool.map(_run_generator, tasks):
                if error_text:
                    raise BuildError(f"{self.name}: generator {GENERATORS[kind]}: {error_text}")
        for kind in ("c", "fastrtps_c", "introspection_c"):
            generator = GENERATORS[kind]
            template = self._share(generator) / "resource" / f"{generator}__visibility_control.h.in"
            text = template.read_text(encoding="utf-8")
            for placeholder, value in (("NAME", self.name), ("NAME_UPPER", self.name.upper())):
                text = text.replace(f"@PROJECT_{placeholder}@", value)
            header = self.work / kind / self.name / "msg" / f"{generator}__visibility_control.h"
            header.parent.mkdir(exist_ok=True)
            header.write_text(text, encoding="utf-8")

    def _share(self, package: str) -> Path:
        for prefix in self.prefixes:
            if (folder := prefix / "share" / package).is_dir():
                return folder
        raise BuildError(f"{package} is not installed: rosidl-default-generators brings it")

    # libraries

    def _compile(self) -> None:
        self.lib.mkdir()
        name = self.name
        own_c = f"-l{name}__rosidl_generator_c"
        own_fast = f"-l{name}__rosidl_typesupport_fastrtps_c"
        runtime = ["-lrosidl_typesupport_c", "-lrosidl_runtime_c"]
        c_sources = self._sources("c", "*/detail/*.c")
        self._library(
            "rosidl_generator_c",
            self._objects(self.cc, c_sources),
            ["-lrosidl_runtime_c", "-lrcutils", *self._of("rosidl_generator_c")],
        )

        def fast() -> None:
            self._library(
                "rosidl_typesupport_fastrtps_c",
                [self._unity("fastrtps_c", "cpp", "*/detail/*.cpp")],
                [
                    *(own_c, "-lfastcdr", "-lrmw", "-lrosidl_runtime_c"),
                    *("-lrosidl_typesupport_fastrtps_c", "-lrosidl_typesupport_fastrtps_cpp"),
                    *self._of("rosidl_typesupport_fastrtps_c"),
                    *self._of("rosidl_generator_c"),
                ],
                cxx=True,
            )

        def python() -> None:
            self._library(
                "rosidl_generator_py",
                [self._unity("py", "c", "*/_*_s.c")],
                [
                    own_c,
                    "-lrosidl_runtime_c",
                    *(self._of("rosidl_generator_c") + self._of("rosidl_generator_py")),
                ],
            )

        def introspection() -> None:
            self._library(
                "rosidl_typesupport_introspection_c",
                self._objects(self.cc, self._sources("introspection_c", "*/detail/*.c")),
                [
                    *(own_c, "-lrosidl_runtime_c", "-lrosidl_typesupport_introspection_c"),
                    *self._of("rosidl_typesupport_introspection_c"),
                    *self._of("rosidl_generator_c"),
                ],
            )

        self._at_once(fast, python)
        introspection()
        self._library(
            "rosidl_typesupport_c",
            [self._unity("typesupport_c", "cpp", "*/*__type_support.cpp")],
            [own_c, own_fast, *runtime, *self._of("rosidl_typesupport_c")],
            cxx=True,
        )
        self._link(
            self.lib / f"{name}_s__rosidl_typesupport_c{sysconfig.get_config_var('EXT_SUFFIX')}",
            [str(self.work / "py" / name / f"_{name}_s.ep.rosidl_typesupport_c.c")],
            [
                *(f"-l{name}__rosidl_generator_py", own_c, f"-l{name}__rosidl_typesupport_c", own_fast),
                *runtime,
                *self._of("rosidl_typesupport_c"),
            ],
        )

    @functools.cached_property
    def _includes(self) -> list[str]:
        import numpy

        folders = [self.work / kind for kind in ("c", "fastrtps_c", "py", "introspection_c")]
        for prefix in self.prefixes:
            include = prefix / "include"
            if include.is_dir():
                others = [path for path in sorted(include.iterdir()) if path.is_dir()]
                folders += [path for path in others if path.name != self.name]
                folders.append(include)
        return [f"-I{folder}" for folder in [*folders, sysconfig.get_path("include"), numpy.get_include()]]

    def _of(self, library: str) -> list[str]:
        """The dependencies' libraries of that kind, as far as they have one."""
        found = []
        for name in self.depends:
            paths = [prefix / "lib" / f"lib{name}__{library}.so" for prefix in self.prefixes]
            found += [str(path) for path in paths if path.exists()][:1]
        return found

    def _sources(self, kind: str, pattern: str) -> list[str]:
        return sorted(str(path) for path in (self.work / kind / self.name).glob(pattern))

    def _unity(self, kind: str, suffix: str, pattern: str) -> str:
        """One file that includes all sources: headers are read once."""
        unity = self.work / f"{kind}_unity.{suffix}"
        unity.write_text("".join(f'#include "{path}"\n' for path in self._sources(kind, pattern)))
        return str(unity)

    def _objects(self, compiler: str, sources: Iterable[str]) -> list[str]:
        """Compiled one by one: these sources define the same macros."""

        def compile_one(source: str) -> str:
            self._run([compiler, *_FLAGS, *self._defines, *self._includes, "-c", source, "-o", f"{source}.o"])
            return f"{source}.o"

        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(compile_one, sources))

    @property
    def _defines(self) -> list[str]:
        return [f"-DROSIDL_GENERATOR_C_BUILDING_DLL_{self.name}"]

    def _library(self, library: str, inputs: list[str], libraries: list[str], *, cxx: bool = False) -> None:
        self._link(self.lib / f"lib{self.name}__{library}.so", inputs, libraries, cxx=cxx)

    def _link(self, target: Path, inputs: list[str], libraries: list[str], *, cxx: bool = False) -> None:
        search = [f"-L{self.lib}", *(f"-L{prefix / 'lib'}" for prefix in self.prefixes)]
        language = [self.cxx, "-std=c++17"] if cxx else [self.cc]
        command = [*language, *_FLAGS, *self._defines, *self._includes, "-shared", *inputs, "-o", str(target)]
        self._run([*command, *search, "-Wl,-rpath,$ORIGIN", *libraries])

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)  # noqa: S603
        if done.returncode:
            raise BuildError(f"{self.name}: {Path(command[0]).name} failed:\n{done.stderr[:3000]}")

    def _at_once(self, *steps: Callable[[], None]) -> None:
        with ThreadPoolExecutor(self.jobs) as pool:
            for future in [pool.submit(step) for step in steps]:
                future.result()

    # installation

    def _install(self) -> None:
        module = Path(sysconfig.get_path("platlib", vars={"platbase": str(self.prefix)})) / self.name
        share = self.prefix / "share" / self.name
        headers = self.prefix / "include" / self.name
        for old in (module, share, headers):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self.work / "py" / self.name, module, ignore=shutil.ignore_patterns("*.c", "*.h"))
        for library in self.lib.iterdir():
            _replace(library, (module if "_s__" in library.name else self.prefix / "lib") / library.name)
        listed = []
        for path, idl in zip(self.interfaces, self.idls, strict=True):
            (share / path.parent).mkdir(parents=True, exist_ok=True)
            described = self.work / "td" / idl.with_suffix(".json")
            for source in (self.work / "src" / path, self.work / "idl" / idl, described):
                shutil.copyfile(source, share / path.parent / source.name)
                listed.append(f"{path.parent}/{source.name}")
        shutil.copyfile(self.package.manifest, share / "package.xml")
        for kind in ("c", "fastrtps_c", "introspection_c"):
            shutil.copytree(
                self.work / kind / self.name,
                headers / self.name,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("*.c", "*.cpp", "*.o"),
            )
        for resource, text in (("packages", ""), ("rosidl_interfaces", "\n".join(listed) + "\n")):
            marker = self.prefix / _INDEX / resource / self.name
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.write_text(text)


def _replace(source: Path, target: Path) -> None:
    """Put a new file in place of one that running processes may have mapped."""
    fresh = target.with_name(f".{target.name}.new")
    shutil.copy(source, fresh)
    fresh.replace(target)


def _parse_each_file_once() -> None:
    """The generators parse every definition several times, and parsing is most of their time."""
    import rosidl_parser.parser

    original = rosidl_parser.parser.parse_idl_file
    if hasattr(original, "__wrapped__"):
        return
    parsed: dict[str, Any] = {}

    @functools.wraps(original)
    def parse(locator: Any, _png_file: str | None = None) -> Any:
        key = str(locator.get_absolute_path())
        if key not in parsed:
            parsed[key] = original(locator)
        return parsed[key]

    for module in list(sys.modules.values()):
        if getattr(module, "parse_idl_file", None) is original:
            module.parse_idl_file = parse  # type: ignore[attr-defined]


def _run_generator(task: tuple[str, str]) -> tuple[str, str]:
    """Run one generator in its own process. Returns its kind and what went wrong, empty when nothing did."""
    kind, arguments = task
    try:
        if kind == "c":
            from rosidl_generator_c import generate_c as generate
        elif kind == "py":
            from rosidl_generator_py import generate_py

            generate = functools.partial(generate_py, typesupport_impls=["rosidl_typesupport_c"])
        elif kind == "fastrtps_c":
            from rosidl_typesupport_fastrtps_c import generate_typesupport_fastrtps_c as generate
        elif kind == "introspection_c":
            from rosidl_typesupport_introspection_c import generate_c as generate
        else:
            from rosidl_typesupport_c import generate_c

            supports = ["rosidl_typesupport_fastrtps_c", "rosidl_typesupport_introspection_c"]
            generate = functools.partial(generate_c, type_supports=supports)
        _parse_each_file_once()
        generate(arguments)
    except Exception as error:
        return kind, f"{type(error).__name__}: {error}"
    return kind, ""


def build(package: InterfacePackage, prefix: Path, prefixes: Sequence[Path], jobs: int) -> float:
    """Build ``package`` into ``prefix`` and return the seconds it took."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{package.name}-") as work:
        Builder(package, prefix, prefixes, Path(work), jobs).build()
    return time.monotonic() - began


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.build_interfaces", description=_SUMMARY)
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="in the order to build them")
    parser.add_argument("--distro", default="kilted", help="whose definitions (default: %(default)s)")
    parser.add_argument("--prefix", type=Path, default=Path(sys.prefix), help="default: this environment")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(argv)
    known = load(ROOT, arguments.distro)
    prefixes = [Path(part) for part in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if part]
    try:
        for name in arguments.packages:
            if name not in known:
                raise BuildError(f"{name}: no such interface package here; there are {', '.join(known)}")
            seconds = build(known[name], arguments.prefix, prefixes, arguments.jobs)
            count = len(known[name].files)
            print(f"built {name} ({count} interface{'s' * (count != 1)}, {seconds:.1f} s)", flush=True)
    except (BuildError, InterfaceError) as error:
        print(f"build_interfaces: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
