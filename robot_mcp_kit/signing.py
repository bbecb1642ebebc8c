"""Signatures of event bodies, shared by the sender and the receiver.

``HMAC-SHA256(secret, "<unix seconds>." + body)`` over the exact bytes that are sent. A signature is made anew
for each attempt, so that the receiver's window (300 s) is about the attempt and not about the event (K119).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import re
import time

SIGNATURE_PREFIX = "sha256="
DEFAULT_MAX_SKEW_S = 300

_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_HEX_64 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MAX_TIMESTAMP = 10**12
_WHSEC = "whsec_"


def _key(secret: str) -> bytes:
    if not secret:
        raise ValueError("secret: must not be empty")
    # An environment variable that is not UTF-8 reaches Python with surrogate escapes; this gives its bytes
    # back.
    return secret.encode("utf-8", "surrogateescape")


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Sign ``body`` as sent at ``timestamp``.

    Args:
        secret: the shared secret as text; its UTF-8 bytes are the key.
        timestamp: Unix seconds of the attempt.
        body: the exact bytes of the request body.

    Returns:
        64 lowercase hexadecimal digits, without a prefix (K146).

    Raises:
        ValueError: the secret is empty (K148) or is not encodable text.
    """
    return hmac.new(_key(secret), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def verify(
    secret: str,
    timestamp: int,
    body: bytes,
    signature_header: str,
    *,
    max_skew_s: int = DEFAULT_MAX_SKEW_S,
    now_s: float | None = None,
) -> bool:
    """Whether ``signature_header`` is ours for ``body`` and the request is fresh.

    Never raises on what a stranger can send (K152, K158). The window is symmetric and inclusive; "now" is
    floored to whole seconds first (K154, K155). Upper-case digits are accepted (K151), the ``sha256=`` prefix
    is required (K150). Replays inside the window are the caller's business: dedupe by ``event_id``.

    Args:
        secret: the shared secret; an empty one verifies nothing.
        timestamp: the timestamp header as an integer, see :func:`parse_timestamp`.
        body: the exact bytes received.
        signature_header: ``sha256=<64 hex digits>``.
        max_skew_s: allowed distance in seconds between the timestamp and now, in both directions.
        now_s: Unix seconds to compare with; the system's time by default.
    """
    if (
        not secret
        or not isinstance(signature_header, str)
        or not signature_header.startswith(SIGNATURE_PREFIX)
    ):
        return False
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not 0 < timestamp < _MAX_TIMESTAMP:
        return False
    if abs(math.floor(time.time() if now_s is None else now_s) - timestamp) > max_skew_s:
        return False
    given = signature_header[len(SIGNATURE_PREFIX) :].lower()
    if _HEX_64.fullmatch(given) is None:
        return False
    try:
        expected = sign(secret, timestamp, body)
    except ValueError:
        return False
    return hmac.compare_digest(expected.encode("ascii"), given.encode("ascii"))


def parse_timestamp(header: str) -> int | None:
    """Read a timestamp header: 1 to 12 ASCII digits, nothing else, or ``None``.

    ``int()`` would also take signs, spaces, underscores and digits of other scripts.
    """
    return int(header) if _TIMESTAMP.fullmatch(header) else None


def standard_webhooks_key(secret: str) -> bytes:
    """The key for Standard Webhooks signatures.

    One rule: a secret that starts with ``whsec_`` is base64 after the prefix and is decoded; any other secret
    is used as its UTF-8 bytes. (The ``X-RVC-Signature`` always uses the text's own bytes.)

    Raises:
        ValueError: empty, not base64 after ``whsec_``, or with a pasted ``v1,`` in front.
    """
    if secret.startswith("v1,"):
        raise ValueError("secret: starts with 'v1,', which is how signatures look, not secrets")
    if not secret.startswith(_WHSEC):
        return _key(secret)
    try:
        key = base64.b64decode(secret[len(_WHSEC) :], validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ValueError("secret: starts with 'whsec_' but the rest is not padded base64") from exc
    if not key:
        raise ValueError("secret: nothing after 'whsec_'")
    return key


def sign_standard_webhooks(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The ``webhook-signature`` value of the Standard Webhooks specification: ``v1,<base64>``."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode("ascii")
