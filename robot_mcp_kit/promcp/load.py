"""Tool descriptions from a file, for the lint."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import Any

from robot_mcp_kit.promcp.registry import DEFAULT, Registry


class LoadError(ValueError):
    """The file holds no tools that can be read; says why."""


def load_tools(path: str | Path) -> list[dict[str, Any]]:
    """The tools that a file describes.

    ``.json``, ``.yaml``: a list of tools, or an object with ``tools`` (an answer of tools/list does).
    ``.py``: the file is run, and a ``Registry`` in it, the tools of the default registry, a list ``TOOLS``,
    or a function ``list_tools``, ``get_tools`` or ``tools`` (async ones are awaited) says them.

    Raises:
        LoadError: no such file, not readable, or nothing found.
    """
    file = Path(path)
    if not file.is_file():
        raise LoadError(f"{file}: there is no such file")
    if file.suffix == ".py":
        found = _from_module(file)
    elif file.suffix in (".json", ".yaml", ".yml"):
        found = _from_data(file)
    else:
        raise LoadError(f"{file}: give a .json, .yaml or .py file, or the URL of an MCP endpoint")
    if not found:
        raise LoadError(f"{file}: no tools in it")
    wrong = next((tool for tool in found if not isinstance(tool, dict)), None)
    if wrong is not None:
        raise LoadError(f"{file}: a tool is an object with name, description and schemas, got {wrong!r:.60}")
    return found


def _from_data(file: Path) -> list[Any]:
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".json":
            data = json.loads(text)
        else:
            import yaml

            data = yaml.safe_load(text)
    except ImportError as error:
        raise LoadError(f"{file}: reading YAML needs pyyaml") from error
    except (OSError, ValueError) as error:
        raise LoadError(f"{file}: cannot be read: {error}") from error
    except Exception as error:  # yaml's own errors, without importing it above
        raise LoadError(f"{file}: cannot be read: {error}") from error
    if isinstance(data, dict):
        data = data.get("tools")
    if not isinstance(data, list):
        raise LoadError(f'{file}: expected a list of tools, or an object with "tools"')
    return data


def _from_module(file: Path) -> list[Any]:
    spec = importlib.util.spec_from_file_location(f"linted_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise LoadError(f"{file}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    known = set(DEFAULT.names())
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise LoadError(f"{file}: running it failed: {error!r}") from error
    for value in vars(module).values():
        if isinstance(value, Registry) and value is not DEFAULT and value.names():
            return list(value.to_list())
    listed = [entry.to_dict() for entry in DEFAULT if entry.name not in known]
    if listed:
        return list(listed)
    if isinstance(getattr(module, "TOOLS", None), list):
        return list(module.TOOLS)
    for name in ("list_tools", "get_tools", "tools"):
        function = getattr(module, name, None)
        if callable(function):
            found = function()
            if inspect.iscoroutine(found):
                found = asyncio.run(found)
            if isinstance(found, list):
                return found
    return []
