"""``@read_tool``, ``@do_tool`` and ``@can_do_tool``: proMCP for any MCP server in Python.

The function does the work and returns plain values; the decorator makes the response of it, checks it, and
keeps a do from acting twice. Async functions are awaited; plain ones run on a worker thread.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import re
import string
import typing
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from robot_mcp_kit.jsonsafe import dumps, to_jsonable
from robot_mcp_kit.promcp.contracts import (
    Blocked,
    Candidate,
    CapabilityReport,
    DoResponse,
    DoStatus,
    Intent,
    Quality,
    ReadResponse,
    ReportContext,
    ReportMetadata,
    Unroutable,
    malformed,
)
from robot_mcp_kit.promcp.memory import MAX_KEY_CHARS, KeyConflictError, KeyMemory
from robot_mcp_kit.promcp.registry import DEFAULT, Registry, ToolEntry

logger = logging.getLogger(__name__)

DEFAULT_WINDOW_S = 600.0
_SNAKE = re.compile(r"[a-z][a-z0-9_]*")

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a read function may return instead of the bare value."""

    value: Any
    unit: str | None = None
    timestamp: datetime | None = None
    """When it was measured; left out: now."""
    quality: Quality | None = None
    """``degraded`` or ``error``; ``good`` and ``stale`` follow from the age."""
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a do function may return instead of the bare applied value."""

    applied_value: Any = None
    previous_value: Any = None
    status: DoStatus = "success"
    side_effects: Sequence[str] = ()
    """Those that happened, of those declared."""
    detail: str | None = None
    timestamp: datetime | None = None


class PartialEffectError(Exception):
    """Raise from a do function that failed after something had changed.

    Any other exception means: nothing was committed.
    """

    def __init__(
        self,
        message: str,
        *,
        applied_value: Any = None,
        previous_value: Any = None,
        side_effects: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.effect = Effect(applied_value, previous_value, "partial", side_effects, message)


def read_tool(
    description: str,
    *,
    unit: str | None = None,
    name: str | None = None,
    freshness_s: float | None = None,
    value: Any = None,
    registry: Registry = DEFAULT,
) -> Callable[[Function], Function]:
    """Make a read tool of a function. What it raises becomes quality ``error`` with the reason.

    Args:
        description: for the planner.
        unit: of the value.
        name: instead of the function's; begins with ``read_``.
        freshness_s: an older reading is ``stale``.
        value: type of the value, for functions that return a :class:`Reading`; else taken from what the
            function says it returns.
        registry: where the tool is listed.

    Raises:
        ValueError: the name is not a read's.
    """

    def decorate(function: Function) -> Function:
        tool = _tool_name(name or function.__name__, "read_")
        kind = _returned(function, Reading) if value is None else TypeAdapter(value)
        response: Any = ReadResponse[Any] if value is None else ReadResponse[value]
        window = "" if freshness_s is None else f" A value older than {freshness_s:g} s is reported as stale."

        async def call(*args: Any, **kwargs: Any) -> ReadResponse[Any]:
            now = registry.now()
            try:
                got = await _run(function, args, kwargs)
                reading = got if isinstance(got, Reading) else Reading(got)
                measured_value = to_jsonable(
                    reading.value
                    if kind is None or reading.value is None
                    else kind.validate_python(reading.value)
                )
            except Exception as error:
                logger.warning("%s: %r", tool, error)
                reading, measured_value = Reading(None, quality="error", detail=_words(error)), None
            if reading.quality == "error":
                measured_value = None
            measured = _aware(reading.timestamp) or now
            quality, detail = _quality(reading, (now - measured).total_seconds(), freshness_s)
            answer: ReadResponse[Any] = response(
                value=measured_value,
                unit=reading.unit or unit,
                timestamp=measured,
                quality=quality,
                freshness_window_s=freshness_s,
                detail=detail,
            )
            return answer

        return _finish(registry, function, call, tool, "read", description.rstrip() + window, response)

    return decorate


def do_tool(
    description: str,
    *,
    compensable: bool,
    side_effects: Sequence[str] = (),
    compensation_hint: str | None = None,
    name: str | None = None,
    key_window_s: float = DEFAULT_WINDOW_S,
    registry: Registry = DEFAULT,
) -> Callable[[Function], Function]:
    """Make a do tool of a function with an ``idempotency_key`` argument.

    The function runs once per key; the same key with the same arguments answers with what that run did, also
    while it still runs and after it failed, and with other arguments it is refused. A caller that goes away
    does not end the run.

    Args:
        description: for the planner.
        compensable: whether ``compensation_hint`` undoes it.
        side_effects: everything that may happen besides.
        compensation_hint: ``do_set_fan speed_percent={previous_value}``; fields are ``previous_value``,
            ``applied_value`` and the function's arguments, written as JSON.
        name: instead of the function's; begins with ``do_``.
        key_window_s: how long a key is remembered after the end; then it counts as new.
        registry: where the tool is listed.

    Raises:
        ValueError: no such name, no ``idempotency_key`` argument, or a hint that is missing or cannot be
            filled in.
    """

    def decorate(function: Function) -> Function:
        tool = _tool_name(name or function.__name__, "do_")
        signature = inspect.signature(function)
        if "idempotency_key" not in signature.parameters:
            raise ValueError(f"{tool}: needs an idempotency_key argument")
        _check_hint(tool, compensable, compensation_hint, signature)
        kind = _returned(function, Effect)
        memory: KeyMemory[DoResponse] = KeyMemory(key_window_s, clock=registry.clock)
        declared = list(side_effects)

        def response(key: str, effect: Effect, arguments: dict[str, Any]) -> DoResponse:
            foreign = [word for word in effect.side_effects if word not in declared]
            if foreign:
                logger.error("%s: side effects that were not declared: %s", tool, foreign)
            undo = compensable and effect.status != "failed" and compensation_hint is not None
            values = {
                **arguments,
                "previous_value": effect.previous_value,
                "applied_value": effect.applied_value,
            }
            hint = compensation_hint.format_map(_AsJson(values)) if undo and compensation_hint else None
            return DoResponse(
                status=effect.status,
                idempotency_key=key,
                applied_value=to_jsonable(effect.applied_value),
                previous_value=to_jsonable(effect.previous_value),
                side_effects=list(effect.side_effects),
                compensable=undo,
                compensation_hint=hint,
                timestamp=_aware(effect.timestamp) or registry.now(),
                detail=effect.detail,
            )

        def refused(key: str, why: str) -> DoResponse:
            return response(key, Effect(status="failed", detail=f"Refused, nothing was done: {why}."), {})

        async def call(*args: Any, **kwargs: Any) -> DoResponse:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            arguments = dict(bound.arguments)
            key = arguments.pop("idempotency_key")
            if not isinstance(key, str) or not key.strip() or len(key) > MAX_KEY_CHARS:
                return refused(
                    str(key)[:MAX_KEY_CHARS], f"idempotency_key must be 1 to {MAX_KEY_CHARS} characters"
                )

            async def act() -> DoResponse:
                try:
                    got = await _run(function, args, kwargs)
                    effect = got if isinstance(got, Effect) else Effect(got)
                    if kind is not None:
                        kind.validate_python(effect.applied_value)
                except PartialEffectError as error:
                    effect = error.effect
                except ValidationError as error:
                    # It has acted, and what it says of it cannot be believed.
                    logger.exception("%s: its answer does not fit its declaration", tool)
                    effect = Effect(status="partial", side_effects=declared, detail=_words(error))
                except Exception as error:
                    logger.warning("%s failed", tool, exc_info=error)
                    effect = Effect(status="failed", detail=_words(error))
                return response(key, effect, arguments)

            try:
                answer, replayed = await memory.once(key, arguments, act)
            except KeyConflictError as error:
                return refused(key, str(error))
            return answer.model_copy(update={"replayed": replayed})

        kept = f"A key is remembered for {key_window_s:g} s after the end; then it counts as new."
        told = f"{description.rstrip()} {kept}"
        return _finish(registry, function, call, tool, "do", told, DoResponse, tuple(declared))

    return decorate


Answer = CapabilityReport | Candidate | Blocked | Unroutable


def can_do_tool(description: str, *, registry: Registry = DEFAULT) -> Callable[[Function], Function]:
    """Make ``can_do`` of a function that takes an :class:`Intent` and returns what it found.

    It returns one or a list of :class:`Candidate`, :class:`Blocked` and :class:`Unroutable`, or a whole
    report. The order, ``feasible`` and ``query_id`` are not its business; neither are intents without tags.

    Raises:
        ValueError: no ``intent`` argument, or the registry has a ``can_do``.
    """

    def decorate(function: Function) -> Function:
        if "intent" not in inspect.signature(function).parameters:
            raise ValueError("can_do: needs an intent argument")

        async def call(intent: Intent | dict[str, Any]) -> CapabilityReport:
            started_s, now = registry.clock.now(), registry.now()
            try:
                wish = intent if isinstance(intent, Intent) else Intent.model_validate(intent)
            except ValidationError as error:
                return malformed(_words(error), now=now)
            if not wish.words:
                return malformed("intent.semantic_tags needs at least one word.", now=now)
            try:
                found = await _run(function, (wish,), {})
            except Exception as error:
                logger.exception("can_do failed")
                found = Unroutable(
                    outcome=" ".join(wish.words), reason="requirements_unmet", detail=_words(error)
                )
            if isinstance(found, CapabilityReport):
                return found
            answers = cast("list[Answer]", list(found) if isinstance(found, Sequence) else [found])
            candidates = [a for a in answers if isinstance(a, Candidate)]
            blocked = [a for a in answers if isinstance(a, Blocked)]
            unroutable = [a for a in answers if isinstance(a, Unroutable)]
            if not answers:
                unroutable = [
                    Unroutable(
                        outcome=" ".join(wish.words),
                        reason="no_producer",
                        detail="No tool of this server does that.",
                    )
                ]
            if any(a.permission == "allowed" for a in candidates):
                unroutable = []
            return CapabilityReport(
                candidates=candidates,
                blocked=blocked,
                unroutable=unroutable,
                context=ReportContext(related_reads=registry.names("read")),
                metadata=ReportMetadata(
                    timestamp=now, total_latency_ms=round(1000 * (registry.clock.now() - started_s))
                ),
            )

        return _finish(registry, function, call, "can_do", "can_do", description, CapabilityReport)

    return decorate


# -- shared ---------------------------------------------------------------------------------------


class _AsJson(dict[str, Any]):
    """Values of a hint, written as JSON."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__({name: dumps(value) for name, value in values.items()})


async def _run(function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    got = await asyncio.to_thread(functools.partial(function, *args, **kwargs))
    return await got if inspect.isawaitable(got) else got


def _finish(
    registry: Registry,
    function: Function,
    call: Callable[..., Awaitable[Any]],
    tool: str,
    kind: typing.Literal["read", "do", "can_do"],
    description: str,
    response: type[Any],
    side_effects: tuple[str, ...] = (),
) -> Function:
    # An MCP framework reads the arguments from the signature and the output schema from what is returned.
    hints = typing.get_type_hints(function)
    parameters = [
        parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        for parameter in inspect.signature(function).parameters.values()
    ]
    if kind == "can_do":
        parameters = [parameter.replace(annotation=Intent) for parameter in parameters[:1]]
    functools.update_wrapper(call, function)
    call.__name__ = tool
    call.__signature__ = inspect.Signature(parameters, return_annotation=response)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": response}
    registry.add(ToolEntry(tool, kind, description, call, response, side_effects))
    return call


def _tool_name(name: str, prefix: str) -> str:
    if not _SNAKE.fullmatch(name) or not name.startswith(prefix) or name == prefix:
        raise ValueError(f"{name}: must be snake case and begin with {prefix}, with a capability behind it")
    return name


def _check_hint(tool: str, compensable: bool, hint: str | None, signature: inspect.Signature) -> None:
    if compensable is not (hint is not None):
        raise ValueError(f"{tool}: compensable and compensation_hint go together")
    if hint is None:
        return
    known = {"previous_value", "applied_value", *signature.parameters} - {"idempotency_key"}
    fields = {field for _, field, _, _ in string.Formatter().parse(hint) if field is not None}
    if not fields <= known:
        raise ValueError(
            f"{tool}: the hint names {', '.join(sorted(fields - known))}; known are {sorted(known)}"
        )


def _returned(function: Function, wrapper: type[Any]) -> TypeAdapter[Any] | None:
    """What the function says it returns, if that can be checked."""
    hint = typing.get_type_hints(function).get("return", Any)
    if hint is Any or hint is wrapper:
        return None
    return TypeAdapter(hint)


def _quality(reading: Reading, age_s: float, window_s: float | None) -> tuple[Quality, str | None]:
    if reading.quality == "error" or reading.value is None:
        return "error", reading.detail or "There is no value."
    if window_s is not None and age_s > window_s:
        return "stale", reading.detail or f"It was measured {age_s:.1f} s ago."
    if reading.quality == "degraded":
        return "degraded", reading.detail or "The source says that this is doubtful."
    return "good", reading.detail


def _aware(moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        raise ValueError("timestamp: needs a time zone")
    return None if moment is None else moment.astimezone(UTC)


def _words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
