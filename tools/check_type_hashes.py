"""Compare the RIHS01 type hashes of installed interfaces with those of the originals.

A hash covers names, order and types of all fields, recursively; not comments, constants and defaults. Two
sides whose hashes agree read each other's messages. The expected ones are in ``type_hashes.json``, by
distribution::

    python -m tools.check_type_hashes --distro kilted [--only nav2_msgs ...] [PREFIX ...]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

_SUMMARY = (__doc__ or "").split("\n")[0]
TABLE = Path(__file__).with_name("type_hashes.json")


def expected(distro: str, packages: Collection[str] | None = None, table: Path = TABLE) -> dict[str, str]:
    """Type name -> hash as ``distro`` has it, of ``packages`` or of all in the table."""
    hashes: dict[str, str] = json.loads(table.read_text(encoding="utf-8")).get(distro, {})
    if packages is None:
        return hashes
    return {name: value for name, value in hashes.items() if name.split("/")[0] in packages}


def installed(prefixes: Iterable[Path]) -> dict[str, str]:
    """Type name -> hash of all under ``share/`` of ``prefixes``; the first prefix that has a type wins."""
    found: dict[str, str] = {}
    for prefix in prefixes:
        for path in sorted(prefix.glob("share/*/*/*.json")):
            if path.parent.name not in ("msg", "srv", "action"):
                continue
            document = json.loads(path.read_text(encoding="utf-8"))
            for entry in document.get("type_hashes", ()) if isinstance(document, dict) else ():
                found.setdefault(entry["type_name"], entry["hash_string"])
    return found


def differences(want: Mapping[str, str], have: Mapping[str, str]) -> list[str]:
    """One line for each type that is missing or that has other fields."""
    lines = []
    for name, value in sorted(want.items()):
        if name not in have:
            lines.append(f"{name}: not installed")
        elif have[name] != value:
            lines.append(f"{name}: other fields than the original (hash {have[name]}, expected {value})")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.check_type_hashes", description=_SUMMARY)
    parser.add_argument("prefixes", nargs="*", type=Path, metavar="PREFIX", help="default: AMENT_PREFIX_PATH")
    parser.add_argument("--distro", default="kilted")
    parser.add_argument("--only", nargs="*", metavar="PACKAGE", help="check these packages only")
    arguments = parser.parse_args(argv)
    prefixes = arguments.prefixes or [
        Path(part) for part in os.environ.get("AMENT_PREFIX_PATH", sys.prefix).split(os.pathsep) if part
    ]
    want = expected(arguments.distro, arguments.only)
    wrong = differences(want, installed(prefixes))
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"type hashes: {len(want) - len(wrong)} of {len(want)} agree with ROS 2 {arguments.distro}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
