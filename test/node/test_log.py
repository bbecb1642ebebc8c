"""What the node's log says of an error, and what it keeps to itself."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

SECRET = "the-operators-approval-secret"


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    chatty = {name: logging.getLogger(name).level for name in ("httpx", "httpcore", "mcp", "uvicorn")}
    chatty["sse_starlette"] = logging.getLogger("sse_starlette").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in chatty.items():
        logging.getLogger(name).setLevel(before)


def _fail(depth: int) -> None:
    token = SECRET
    settings = {"token": token, "host": "127.0.0.1"}
    if depth:
        _fail(depth - 1)
    try:
        int(settings["host"])
    except ValueError as error:
        raise RuntimeError("the port is not usable") from error


@pytest.mark.parametrize("form", ["pretty", "json"])
def test_a_logged_error_tells_where_it_was_and_no_variables(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """B41: variables of the frames hold the token and the approval secret."""
    from robot_mcp_kit.node.log import configure_logging

    configure_logging(form, "info")
    try:
        _fail(2)
    except RuntimeError:
        logging.getLogger("robot_mcp_kit.test").exception("an error while trying to configure")
    said = capsys.readouterr().err
    assert SECRET not in said
    for words in ("an error while trying to configure", "the port is not usable", "invalid literal", "_fail"):
        assert words in said
    if form == "json":
        line = json.loads(said)
        assert [stack["exc_type"] for stack in line["exception"]] == ["RuntimeError", "ValueError"]
        assert not any(frame.get("locals") for stack in line["exception"] for frame in stack["frames"])
