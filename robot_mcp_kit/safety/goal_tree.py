"""A goal's fields by path: ``pose.pose.position.x``, ``poses[].header.frame_id``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard


class Missing:
    """Nothing is there; ROS would send the field's own default, mostly 0."""

    def __repr__(self) -> str:
        return "missing"


MISSING: Final = Missing()


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def values_at(fields: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every value at ``path`` with its own path; :data:`MISSING` where the way to it ends.

    An empty list has no elements, so it yields nothing.
    """
    yield from _at(fields, path.split("."), "")


def _at(value: Any, parts: list[str], at: str) -> Iterator[tuple[str, Any]]:
    if not parts:
        yield at, value
        return
    name, each = parts[0].removesuffix("[]"), parts[0].endswith("[]")
    here = f"{at}.{name}" if at else name
    inner = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
    if inner is MISSING:
        yield ".".join([here, *parts[1:]]), MISSING
    elif not each:
        yield from _at(inner, parts[1:], here)
    elif is_list(inner):
        for index, item in enumerate(inner):
            yield from _at(item, parts[1:], f"{here}[{index}]")
    else:
        yield here, MISSING


def value_at(fields: Any, path: str) -> Any:
    """The one value at a path without ``[]``, or :data:`MISSING`."""
    return next((value for _, value in values_at(fields, path)), MISSING)


def walk(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every node of the tree, the root first."""
    yield at, value
    kind = type(value)
    if kind in (float, str, int, bool):
        return
    if kind is dict or isinstance(value, Mapping):
        for name, inner in value.items():
            yield from walk(inner, f"{at}.{name}" if at else str(name))
    elif is_list(value):
        for index, inner in enumerate(value):
            yield from walk(inner, f"{at}[{index}]")


def duration_s(value: Any) -> float | None:
    """Seconds of a ``builtin_interfaces/msg/Duration`` as fields, or of a plain number; ``None``: neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, Mapping):
        sec, nanosec = value.get("sec", 0), value.get("nanosec", 0)
        if all(isinstance(part, int | float) and not isinstance(part, bool) for part in (sec, nanosec)):
            return float(sec) + float(nanosec) * 1e-9
    return None


def real(value: Any) -> float | None:
    """A number that is no boolean and no text, or ``None``."""
    if isinstance(value, bool | str | bytes) or value is MISSING or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
