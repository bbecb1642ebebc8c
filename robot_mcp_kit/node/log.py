"""The node's log: structlog renders what the library and the SDKs log through the standard library."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging(format: str, level: str) -> None:
    """Log to stderr as ``pretty`` or ``json`` lines, with whatever is bound to the context (``task_id``).

    Tracebacks come without the frames' variables: those hold tokens and secrets.

    Call it before the MCP SDK is built, which otherwise configures the root logger itself.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if format == "json":
        final: list[structlog.typing.Processor] = [
            structlog.processors.ExceptionRenderer(
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            ),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    else:
        # The default shows local variables wherever rich is installed.
        final = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("httpx", "httpcore", "mcp", "uvicorn", "sse_starlette"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
