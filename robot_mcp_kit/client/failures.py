"""What a failed connection or call means, and when to try again."""

from __future__ import annotations

from dataclasses import dataclass

from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT, UNSUPPORTED_PROTOCOL_VERSION

from robot_mcp_kit.client.admitting import Link
from robot_mcp_kit.client.http_transport import PROBLEM_CODE, problem_of
from robot_mcp_kit.client.refusals import FailureClass, Refusal, RefusedError


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often and when a transient failure to connect is tried again.

    Args:
        first_s: pause after the first attempt, seconds; each following one is doubled.
        longest_s: longest pause.
        attempts: attempts in one round; then only a retry by hand connects again.
        again_after_s: or a call that comes so long after the round was given up; ``None``: only by hand.
    """

    first_s: float = 0.5
    longest_s: float = 30.0
    attempts: int = 5
    again_after_s: float | None = None

    def pause_s(self, attempt: int) -> float:
        """The pause after that many attempts."""
        return float(min(self.longest_s, self.first_s * 2 ** (attempt - 1)))


def leaf(error: BaseException) -> BaseException:
    """What is inside of the SDK's exception groups: a refusal if there is one, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [leaf(one) for one in error.exceptions]
    for kind in (RefusedError, MCPError):
        for one in leaves:
            if isinstance(one, kind):
                return one
    return leaves[0]


def connect_refusal(error: BaseException, link: Link) -> Refusal:
    """Why a connection could not be made, without the words of others (they may quote secrets)."""
    server = link.server.name
    error = leaf(error)
    if isinstance(error, RefusedError):
        return error.refusal
    if isinstance(error, MCPError) and error.code == UNSUPPORTED_PROTOCOL_VERSION:
        return Refusal("protocol_version", "speaks no version of the protocol that is spoken here", server)
    if isinstance(error, RuntimeError) and "protocol version" in str(error):
        return Refusal("protocol_version", "answered with an unknown version of the protocol", server)
    if link.last_problem is not None:
        return link.last_problem
    status = link.last_status
    if status in (404, 410):
        return Refusal(
            "endpoint_not_found",
            f"there is no MCP endpoint at this URL (HTTP {status})",
            server,
            "url",
            FailureClass.NOT_FOUND,
        )
    if status is not None and 400 <= status < 500 and status not in (408, 425, 429):
        return Refusal("http_status", f"the server refuses us (HTTP {status})", server)
    if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT):
        return Refusal("timeout", "did not answer in time", server, failure_class=FailureClass.TRANSIENT)
    return Refusal(
        "connection_failed",
        f"the connection could not be made ({type(error).__name__})",
        server,
        failure_class=FailureClass.TRANSIENT,
    )


_CLOSED = "Connection closed"


@dataclass(frozen=True, slots=True)
class CallProblem:
    """Why a request got no answer."""

    reason: str
    message: str
    sent: bool
    lost: bool = False
    """The connection is of no more use."""


def request_problem(error: BaseException, link: Link) -> CallProblem:
    """Why a request on a connection failed."""
    error = leaf(error)
    if isinstance(error, MCPError):
        if error.code == PROBLEM_CODE and (ours := problem_of(error.data)) is not None:
            code, _, sent = ours
            return CallProblem(code, error.message, sent)
        if link.problem is not None:
            return CallProblem(link.problem.code, link.problem.message, True, lost=True)
        if error.code == REQUEST_TIMEOUT:
            return CallProblem("timeout", "no answer in time", True)
        if error.code == CONNECTION_CLOSED and error.message == _CLOSED:
            # Servers use the same number for errors of their own.
            return CallProblem("connection_lost", "the connection was lost", True, lost=True)
        if link.last_problem is not None and link.last_problem.code == "response_too_large":
            return CallProblem("response_too_large", link.last_problem.message, True)
        if link.last_status == 404:
            # The server has forgotten the session: it was restarted, and has not looked at the call.
            return CallProblem("session_lost", "the server does not know this session", False, lost=True)
        return CallProblem("server_error", f"the server answered with error {error.code}", True)
    if isinstance(error, TimeoutError):
        return CallProblem("timeout", "no answer in time", True)
    if isinstance(error, RefusedError):
        return CallProblem(error.refusal.code, error.refusal.message, False)
    return CallProblem("unreadable_answer", f"the answer is not usable ({type(error).__name__})", True)
