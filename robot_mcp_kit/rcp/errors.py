"""What can go wrong between a client and a robot, with the protocol's error codes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class RCPErrorCode(IntEnum):
    """On the wire: JSON-RPC 2.0's own, 1000 transport, 2000 protocol, 3000 safety, 4000 adapter."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603

    TOO_MANY_REQUESTS = -32000
    """Ours, in the range that JSON-RPC 2.0 leaves to servers."""

    CONNECTION_FAILED = 1000
    CONNECTION_TIMEOUT = 1001
    CONNECTION_LOST = 1002

    RESOURCE_NOT_FOUND = 2000
    ACTION_NOT_SUPPORTED = 2001
    INVALID_RESOURCE_URI = 2002
    SUBSCRIPTION_FAILED = 2003

    APPROVAL_REQUIRED = 3000
    APPROVAL_EXPIRED = 3001
    APPROVAL_REJECTED = 3002
    INTERLOCKS_FAILED = 3003
    ACTION_PROHIBITED = 3004
    SAFETY_VIOLATION = 3005

    ADAPTER_ERROR = 4000
    ADAPTER_DISCONNECTED = 4001
    ADAPTER_BUSY = 4002
    HARDWARE_ERROR = 4003


class RCPError(Exception):
    """Something was refused or failed; nothing was executed unless ``data`` says so.

    Args:
        message: what and what to do about it, in a sentence.
        code: the wire's number; a subclass has its own default.
        data: the same for programs.
    """

    default_code = RCPErrorCode.ADAPTER_ERROR

    def __init__(
        self, message: str, *, code: RCPErrorCode | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.data: dict[str, Any] = dict(data or {})


class AdapterError(RCPError):
    """The adapter or the controller failed."""


class AdapterDisconnectedError(AdapterError):
    """There is no connection to the controller (R11)."""

    default_code = RCPErrorCode.ADAPTER_DISCONNECTED


class AdapterBusyError(AdapterError):
    """The controller does something else now."""

    default_code = RCPErrorCode.ADAPTER_BUSY


class HardwareError(AdapterError):
    """The robot itself reports a fault."""

    default_code = RCPErrorCode.HARDWARE_ERROR


class NotSupportedError(RCPError, NotImplementedError):
    """This adapter has no such function, or does not declare the capability it needs (R10, R12)."""

    default_code = RCPErrorCode.ACTION_NOT_SUPPORTED


class ParameterError(RCPError, ValueError):
    """A parameter is missing, of the wrong type, not finite or out of range; nothing was asked or moved.

    Args:
        name: the parameter, ``x``.
        message: what is wrong with it and what would be right.
    """

    default_code = RCPErrorCode.INVALID_PARAMS

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}", data={"parameter": name})
        self.parameter = name
