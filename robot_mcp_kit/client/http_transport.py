"""Streamable HTTP that goes only where it was admitted to, and takes only so much back.

Every request is judged anew and sent to an address that was just judged (A8); redirects are refused (A7);
what a server sends is cut off at a bound before it is parsed (A34). A problem with one request becomes the
answer to that request and does not take the session with it.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from robot_mcp_kit.client.authenticating import Authenticator
from robot_mcp_kit.client.egress import Admitted, EgressPolicy
from robot_mcp_kit.client.refusals import FailureClass, Refusal, RefusedError
from robot_mcp_kit.client.secrecy import origin_of

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
LISTEN_METHOD = "subscriptions/listen"
PROBLEM_CODE = -32050
"""The JSON-RPC error code of a problem that this side found; ``data`` says which."""
_OUR_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept", "content-type"}
    | {"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id", "accept-encoding"}
)


class _CutOff(httpx2.StreamError):
    """The SDK answers the one request with an error when reading its body raises this."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to one admitted origin.

    Args:
        server: the server's name, for messages.
        url: the endpoint.
        policy: judges it, at every request.
        headers: static headers of the definition.
        authenticator: gives headers for each request.
        max_response_bytes: most that is taken of one response.
        inner: speaks HTTP; given by tests.
    """

    def __init__(
        self,
        server: str,
        url: str,
        policy: EgressPolicy,
        *,
        headers: Mapping[str, str] | None = None,
        authenticator: Authenticator | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        inner: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._server = server
        self._url = httpx2.URL(url)
        self.public_url = f"{origin_of(url)}/"
        """What the SDK and its HTTP client are told, because they log it; the path and more may hold a
        secret.
        """
        self._headers = dict(headers or {})
        self._policy = policy
        self._authenticator = authenticator
        self._max = max_response_bytes
        self._inner = inner if inner is not None else httpx2.AsyncHTTPTransport(trust_env=False)
        self.last_problem: Refusal | None = None
        """What this side found wrong last; the SDK does not carry it everywhere."""
        self.last_status: int | None = None
        """The last HTTP status that the server itself gave."""

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._guarded(request)
        except RefusedError as error:
            return self._problem(error.refusal, sent=error.refusal.code in _AFTER_SENDING)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            return self._problem(self._transient("unreachable", "nobody answers there"), sent=False)
        except httpx2.TransportError as error:
            words = f"the connection failed ({type(error).__name__})"
            return self._problem(self._transient("connection_lost", words), sent=True)

    async def _guarded(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"  # a compressed answer could unpack without bound
        response = await self._authorized(request, refused=False)
        if response.status_code == 401 and self._authenticator is not None:
            await response.aclose()
            response = await self._authorized(request, refused=True)
        self.last_status = response.status_code
        if response.status_code in (401, 403):
            await response.aclose()
            raise RefusedError(
                Refusal(
                    "not_authenticated",
                    f"the server refused the credentials (HTTP {response.status_code})",
                    self._server,
                    failure_class=FailureClass.AUTH,
                )
            )
        if 300 <= response.status_code < 400:
            await response.aclose()
            raise RefusedError(
                Refusal(
                    "redirect", "the server redirects elsewhere, which is not followed", self._server, "url"
                )
            )
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise RefusedError(
                Refusal("compressed", "the server compresses though it was asked not to", self._server)
            )
        return self._bounded(request, response)

    async def _authorized(self, request: httpx2.Request, *, refused: bool) -> httpx2.Response:
        """Admit, then ask for credentials, then send: nothing leaves for a place that was not admitted."""
        if str(request.url) != self.public_url:
            raise RefusedError(Refusal("other_origin", "a request for another place", self._server, "url"))
        admitted = await self._policy.admit(str(self._url), server=self._server)
        headers = request.headers.copy()
        for name, value in self._headers.items():
            headers.setdefault(name, value)
        if self._url.userinfo:
            pair = f"{self._url.username}:{self._url.password}".encode()
            headers.setdefault("authorization", f"Basic {base64.b64encode(pair).decode()}")
        if self._authenticator is not None:
            for name, value in (await self._credentials(self._authenticator, refused)).items():
                headers[name] = value
        return await self._send(request, headers, admitted)

    async def _credentials(self, authenticator: Authenticator, refused: bool) -> Mapping[str, str]:
        failed = Refusal(
            "not_authenticated",
            "no credentials could be had",
            self._server,
            failure_class=FailureClass.AUTH,
        )
        try:
            given = await authenticator.headers(refused=refused)
        except Exception:
            raise RefusedError(
                replace(failed, code="authenticator_failed")
            ) from None  # its words may hold one
        if not given or any(name.lower() in _OUR_HEADERS for name in given):
            raise RefusedError(replace(failed, code="authenticator_failed"))
        return given

    async def _send(
        self, request: httpx2.Request, headers: httpx2.Headers, admitted: Admitted
    ) -> httpx2.Response:
        """To an address that was just judged; the name is only told to the server."""
        for last, address in zip(
            [False] * (len(admitted.addresses) - 1) + [True], admitted.addresses, strict=True
        ):
            pinned = httpx2.Request(
                request.method,
                self._url.copy_with(host=address, userinfo=b""),
                headers=headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": admitted.host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if last:
                    raise
        raise AssertionError("a name without addresses is not admitted")

    def _bounded(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        length = response.headers.get("content-length", "")
        # Who listens for news does so for as long as there are any; everything else is one answer and has one
        # bound, however many events it comes in.
        listens = request.method == "GET" or request.headers.get("mcp-method") == LISTEN_METHOD
        streams = listens and response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if length.isdigit() and int(length) > self._max:
            self.last_problem = self._too_large()
            body: httpx2.AsyncByteStream = _Bounded(self, response, 0)
        else:
            body = _Bounded(self, response, None if streams else self._max)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=body,
            request=request,
            extensions=response.extensions,
        )

    def _too_large(self) -> Refusal:
        return Refusal("response_too_large", f"an answer of more than {self._max} bytes", self._server)

    def _transient(self, code: str, message: str) -> Refusal:
        return Refusal(code, message, self._server, failure_class=FailureClass.TRANSIENT)

    def _problem(self, problem: Refusal, *, sent: bool) -> httpx2.Response:
        self.last_problem = problem
        content = {
            "jsonrpc": "2.0",
            "id": None,
            "error": {
                "code": PROBLEM_CODE,
                "message": problem.message,
                "data": {"code": problem.code, "class": problem.failure_class, "sent": sent},
            },
        }
        return httpx2.Response(502, json=content)


_AFTER_SENDING = frozenset({"redirect", "compressed", "not_authenticated"})


class _Bounded(httpx2.AsyncByteStream):
    """A response's body, up to a bound; ``None``: a stream of news, which the SDK bounds event by event."""

    def __init__(self, transport: GuardedTransport, response: httpx2.Response, most: int | None) -> None:
        self._transport = transport
        self._response = response
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        if self._most == 0:
            raise _CutOff("the answer is too large")
        try:
            async for part in self._response.stream:  # type: ignore[union-attr]
                size += len(part)
                if self._most is not None and size > self._most:
                    self._transport.last_problem = self._transport._too_large()
                    raise _CutOff("the answer is too large")
                yield part
        except httpx2.TransportError as error:
            self._transport.last_problem = self._transport._transient(
                "connection_lost", f"the connection failed ({type(error).__name__})"
            )
            raise _CutOff("the connection failed") from None

    async def aclose(self) -> None:
        await self._response.aclose()


@contextlib.asynccontextmanager
async def guarded_http(transport: GuardedTransport, *, max_event_bytes: int) -> AsyncIterator[Any]:
    """The SDK's streams over a guarded transport.

    Args:
        transport: the guard.
        max_event_bytes: most of one event of an event stream.
    """
    async with (
        httpx2.AsyncClient(
            transport=transport,
            # Each call brings its own bound; an event stream may be silent for as long as nothing happens.
            timeout=httpx2.Timeout(10.0, read=None),
            trust_env=False,
            follow_redirects=False,
        ) as client,
        streamable_http_client(
            transport.public_url, http_client=client, max_sse_event_size=max_event_bytes
        ) as streams,
    ):
        yield streams


def problem_of(data: object) -> tuple[str, FailureClass, bool] | None:
    """``(code, class, sent)`` from the ``data`` of a JSON-RPC error that this side made, or ``None``."""
    if not isinstance(data, Mapping) or not {"code", "class", "sent"} <= set(data):
        return None
    return str(data["code"]), FailureClass(data["class"]), bool(data["sent"])
