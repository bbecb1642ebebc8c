"""What is secret, by what it is: what a credential-shaped variable produced, or what stands under such a key.

The shape of a literal is only a guess and serves display alone, never a fingerprint: two different tokens
mask alike.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit, urlunsplit

_SEGMENTS = frozenset(
    {
        *("token", "tokens", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "pass"),
        *("key", "keys", "apikey", "auth", "authorization", "cookie", "cookies", "credential", "credentials"),
        *("cred", "creds", "dsn", "jwt", "bearer", "pat", "pin", "signature"),
    }
)
_ENDINGS = ("token", "secret", "password", "passwd", "apikey", "accesskey", "privatekey", "credentials")
_MASK = "•••"

_LITERALS = re.compile(
    r"""
    \b(?:sk|pk|rk)-[A-Za-z0-9_-]{8,}
    | \bgh[pousr]_[A-Za-z0-9]{8,}
    | \bgithub_pat_\w{8,}
    | \bxox[a-z]-[\w-]{8,}
    | \bAKIA[0-9A-Z]{12,}
    | \beyJ[\w-]{8,}(?:\.[\w-]+){0,2}
    | \bwhsec_[A-Za-z0-9+/=]{8,}
    | \b[0-9a-fA-F]{32,}\b
    | (?<![\w/+.-])(?=[\w+=-]*[0-9])(?=[\w+=-]*[A-Za-z])[A-Za-z0-9_+=-]{40,}
    """,
    re.VERBOSE,
)
_NAMED = re.compile(r"(?P<name>[A-Za-z][\w.-]*)\s*[=:]\s*")
_VALUE = re.compile(r"[^\s&;,]+")
_SCHEMED = re.compile(r"(?i)\b(bearer|basic)\s+\S+")


def is_credential_name(name: str) -> bool:
    """Whether a variable, header, option or query parameter of that name holds a credential.

    Decided by whole segments of the name (``MY_API_KEY``, ``X-Auth-Token``, ``apiKey``), so that ``MONKEY``
    and
    ``AUTHOR`` are none, and by some endings (``GHTOKEN``).
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)
    lowered = name.lower()
    return any(part.lower() in _SEGMENTS for part in parts) or re.sub(r"[^a-z0-9]", "", lowered).endswith(
        _ENDINGS
    )


def masked_literals(text: str) -> str:
    """``text`` with whatever has a credential's shape replaced. For display only."""
    text = _SCHEMED.sub(lambda found: f"{found[1]} {_MASK}", text)
    return _LITERALS.sub(_MASK, _masked_values(text))


def _masked_values(text: str) -> str:
    """``password=...`` and the like, wherever they stand."""
    shown, at = "", 0
    while found := _NAMED.search(text, at):
        shown += text[at : found.end()]
        at = found.end()
        if is_credential_name(found["name"]) and (value := _VALUE.match(text, at)):
            shown += _MASK
            at = value.end()
    return shown + text[at:]


def masked_url(text: str) -> str:
    """A URL without its password, its credential-shaped parameters, and whatever looks like a token."""
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return masked_literals(text)
    netloc = f"{_MASK}@{host}" if "@" in parts.netloc else host
    return masked_literals(
        urlunsplit(SplitResult(parts.scheme, netloc, parts.path, parts.query, parts.fragment))
    )


def masked_argv(argv: list[str]) -> list[str]:
    """A command line without its credentials: ``--token=...``, and the word after ``--token``."""
    shown: list[str] = []
    for index, word in enumerate(argv):
        before = argv[index - 1] if index else ""
        option = before.startswith("-") and "=" not in before and is_credential_name(before.lstrip("-"))
        if option and not word.startswith("-"):
            shown.append(_MASK)
        else:
            shown.append(masked_url(word) if "://" in word else masked_literals(word))
    return shown


def mask(variable: str = "") -> str:
    """What stands for a secret; names the variable that it came from."""
    return f"•••{variable}•••" if variable else _MASK


def origin_of(url: str) -> str:
    """``https://host:port``, all of a URL that errors may name."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return "(not a URL)"
