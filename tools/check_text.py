"""Checks of text files that no linter makes; mends white space. Takes file names, or all that git tracks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

LARGEST_BYTES = 500_000
_BINARY = frozenset({".png", ".jpg", ".gif", ".ico", ".db", ".gz", ".whl"})


def mended(text: str) -> str:
    """``text`` without white space at line ends, with exactly one line feed at its end."""
    text = re.sub(r"[ \t]+(?=\r?\n|\Z)", "", text)
    return text.rstrip("\r\n") + "\n" if text.strip() else ""


def problems(path: Path) -> list[str]:
    """What is wrong with a file and cannot be mended by itself; white space is mended on the way."""
    if path.suffix in _BINARY or path.is_symlink() or not path.is_file():
        return []
    if (size := path.stat().st_size) > LARGEST_BYTES:
        return [f"{path}: {size} bytes, more than {LARGEST_BYTES}"]
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        return [f"{path}: not UTF-8 ({error})"]
    found = []
    if re.search(r"^(<{7}|>{7})( |$)", text, re.MULTILINE):
        found.append(f"{path}: unresolved merge")
    try:
        if path.suffix == ".toml":
            tomllib.loads(text)
        elif path.suffix == ".json":
            json.loads(text)
        elif path.suffix in (".yaml", ".yml"):
            import yaml

            list(yaml.safe_load_all(text))
    except Exception as error:
        found.append(f"{path}: {error}")
    fixed = mended(text)
    # A Markdown line may end in two spaces on purpose, and the licence is what it is.
    if fixed != text and path.suffix != ".md" and path.name != "LICENSE":
        path.write_bytes(fixed.encode())
        found.append(f"{path}: white space mended")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    names = list(sys.argv[1:] if arguments is None else arguments)
    if not names:
        listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True)  # noqa: S607
        names = [name for name in listed.stdout.split("\0") if name]
    found = [problem for name in names for problem in problems(Path(name))]
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
