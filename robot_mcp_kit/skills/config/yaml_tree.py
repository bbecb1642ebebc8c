"""YAML that remembers where each value stood, so that a complaint can name the line.

Plain data only (no tags that build objects). Duplicate keys are refused: YAML would keep the last one
silently, and the first may be the limit somebody relied on.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import yaml

from robot_mcp_kit.errors import ConfigError

KeyPath = tuple[str | int, ...]
_MERGE_TAG = "tag:yaml.org,2002:merge"


def dotted(path: KeyPath) -> str:
    """``places.kitchen.x_m``, ``zones.hall.polygon_m[2]``; ``(top level)`` for the empty path."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(top level)"


@dataclass(slots=True)
class Document:
    """Parsed YAML with the line (1-based) of each key path."""

    source: str
    data: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Line of that node, or of the nearest one above it that exists in the file."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def complaint(self, path: KeyPath, message: str) -> str:
        """``skills.yaml, line 12, places.kitchen.x_m: ...``"""
        return f"{self.source}, line {self.line(path)}, {dotted(path)}: {message}"


class _Reader:
    def __init__(self, source: str) -> None:
        self._scalars = yaml.SafeLoader("")
        self._document = Document(source, None)
        self._open: set[int] = set()

    def read(self, root: yaml.Node) -> Document:
        self._document.data = self._value(root, (), root.start_mark.line + 1)
        return self._document

    def _fail(self, node: yaml.Node, path: KeyPath, message: str) -> ConfigError:
        self._document.lines[path] = node.start_mark.line + 1
        return ConfigError(self._document.complaint(path, message))

    def _value(self, node: yaml.Node, path: KeyPath, line: int) -> Any:
        self._document.lines[path] = line
        if id(node) in self._open:
            # The node stands where its anchor is; the fault is where the alias is, on ``line``.
            message = "an alias that contains itself; write the values out"
            raise ConfigError(self._document.complaint(path, message))
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [
                    self._value(item, (*path, index), item.start_mark.line + 1)
                    for index, item in enumerate(node.value)
                ]
            return self._scalar(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        first_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE_TAG:
                raise self._fail(key_node, path, "merge keys (<<) are not supported; write the values out")
            key = self._scalar(key_node, path)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                written = getattr(key_node, "value", key)
                raise self._fail(
                    key_node,
                    path,
                    f"the key {written} is read by YAML as {type(key).__name__} ({key!r}); "
                    f'put it in quotes: "{written}"',
                )
            if key in values:
                raise self._fail(
                    key_node,
                    (*path, key),
                    f"the key is already on line {first_line[key]}; remove one of them",
                )
            first_line[key] = line
            values[key] = self._value(value_node, (*path, key), line)
        return values

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        try:
            value: Hashable = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise self._fail(node, path, f"cannot read this value: {_problem(error)}") from error
        return value


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).replace("\n", " ")


def read_yaml(text: str, source: str) -> Document:
    """Parse one YAML document.

    Raises:
        ConfigError: not YAML, more than one document, duplicate or non-string keys; names ``source`` and
        line.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise ConfigError(f"{source}, line {line}: not valid YAML: {_problem(error)}") from error
    if root is None:
        return Document(source, {})
    return _Reader(source).read(root)
