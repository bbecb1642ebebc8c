"""Reads definition files. A file that cannot be read is not an empty one."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import yaml

from robot_mcp_kit.client.definitions import Decoded, decode
from robot_mcp_kit.client.refusals import Refusal

MAX_FILE_BYTES = 1024 * 1024


class Tier(IntEnum):
    """Who wrote a definition; the smaller one wins. Plugins last: their names are not their own."""

    MANAGED = 0
    LOCAL = 1
    PROJECT = 2
    USER = 3
    PLUGIN = 4


@dataclass(frozen=True, slots=True)
class Source:
    """One place that definitions come from.

    Args:
        tier: its rank.
        origin: a path or a plugin's name, for people and approvals.
        decoded: what it holds.
    """

    tier: Tier
    origin: str
    decoded: Decoded = field(default_factory=Decoded)


def document_source(tier: Tier, origin: str, document: Any) -> Source:
    """A source from a parsed document."""
    return Source(tier, origin, decode(document))


def read_source(path: Path, tier: Tier) -> Source:
    """Read ``mcp.yaml`` or an ``mcpServers`` JSON, by the file's ending. No such file: a source without
    servers.
    """
    origin = str(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Source(tier, origin)
    except OSError as error:
        return _unreadable(tier, origin, error.strerror or type(error).__name__)
    if len(data) > MAX_FILE_BYTES:
        return _unreadable(tier, origin, f"larger than {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8")
        if path.suffix in (".yaml", ".yml"):
            document = yaml.load(text, _Loader)  # noqa: S506  a SafeLoader
        else:
            document = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        # Not the parser's own words: they quote the file, and that may be a secret.
        return _unreadable(tier, origin, f"cannot be parsed{_place(error)}")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return _unreadable(
            tier, origin, "cannot be parsed" + (f" (line {mark.line + 1})" if mark is not None else "")
        )
    return document_source(tier, origin, document)


def _unreadable(tier: Tier, origin: str, why: str) -> Source:
    return Source(tier, origin, Decoded(unreadable=Refusal("unreadable", why, field=origin)))


def _place(error: Exception) -> str:
    return f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice: which of the two would be meant?"""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        if any(keys.count(key) > 1 for key in keys):
            raise yaml.constructor.ConstructorError(None, None, "a key is given twice", node.start_mark)
        found: Mapping[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return dict(found)
