"""Signatures: what is accepted, what is refused, and that nothing a stranger sends raises."""

from __future__ import annotations

import hmac
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_mcp_kit import sign, verify
from robot_mcp_kit.signing import parse_timestamp, sign_standard_webhooks, standard_webhooks_key

NOW = 1_765_532_000
GOLDEN = "00b1d78fc39f7fa862f0d6b94b4dc89008ed181fefd515819dfb92b3172ccfa8"
BODY = b'{"schema_version":1}'


def ok(
    *, timestamp: int = NOW, body: bytes = BODY, header: str | None = None, now_s: float = NOW, **options: int
) -> bool:
    header = "sha256=" + GOLDEN if header is None else header
    return verify("s3cret", timestamp, body, header, now_s=now_s, **options)


def test_the_signature_is_the_golden_one() -> None:
    """K110, K146."""
    assert sign("s3cret", NOW, BODY) == GOLDEN
    assert sign("s3cret", NOW, BODY) == sign("s3cret", NOW, BODY)


def test_the_golden_signature_verifies() -> None:
    """K149."""
    assert ok()


@pytest.mark.parametrize(("secret", "body"), [("s3cret", b""), ("пароль-🔑", b"x"), ("k", "é".encode())])
def test_empty_bodies_and_secrets_in_any_script_work(secret: str, body: bytes) -> None:
    """K147."""
    signature = sign(secret, NOW, body)
    assert len(signature) == 64
    assert verify(secret, NOW, body, "sha256=" + signature, now_s=NOW)
    assert signature == hmac.new(secret.encode(), b"%d." % NOW + body, "sha256").hexdigest()


def test_an_empty_secret_signs_nothing_and_verifies_nothing() -> None:
    """K148."""
    with pytest.raises(ValueError, match="secret"):
        sign("", NOW, BODY)
    forged = hmac.new(b"", b"%d." % NOW + BODY, "sha256").hexdigest()
    assert not verify("", NOW, BODY, "sha256=" + forged, now_s=NOW)


@pytest.mark.parametrize(
    "header", [GOLDEN, "sha1=" + GOLDEN, "sha512=" + GOLDEN, "SHA256=" + GOLDEN, "v1," + GOLDEN]
)
def test_only_the_documented_prefix_is_accepted(header: str) -> None:
    """K150."""
    assert not ok(header=header)


def test_upper_case_digits_are_accepted() -> None:
    """K151: clients in other languages print them so."""
    assert ok(header="sha256=" + GOLDEN.upper())


@pytest.mark.parametrize(
    "header",
    [
        "",
        "sha256=",
        "sha256=" + GOLDEN[:-1],
        "sha256=" + GOLDEN + "0",
        "sha256=" + GOLDEN + "\n",
        "sha256=" + "g" * 64,
        "sha256=" + "é" * 64,
        "sha256=" + "０" * 64,
        "garbage",
        "v1,é",
        "\x00",
        "sha256=" + GOLDEN + ", sha256=" + GOLDEN,
    ],
)
def test_rubbish_headers_are_refused_without_raising(header: str) -> None:
    """K152, and duplicate headers as HTTP joins them."""
    assert ok(header=header) is False


def test_headers_that_are_no_text_are_refused_without_raising() -> None:
    """K152."""
    assert verify("s3cret", NOW, BODY, None, now_s=NOW) is False  # type: ignore[arg-type]
    assert verify("s3cret", NOW, BODY, b"sha256=" + GOLDEN.encode(), now_s=NOW) is False  # type: ignore[arg-type]


@given(st.binary(min_size=1, max_size=200), st.data())
def test_one_flipped_bit_breaks_the_signature(body: bytes, data: st.DataObject) -> None:
    """K153."""
    bit = data.draw(st.integers(0, len(body) * 8 - 1))
    changed = bytearray(body)
    changed[bit // 8] ^= 1 << bit % 8
    header = "sha256=" + sign("s3cret", NOW, body)
    assert verify("s3cret", NOW, body, header, now_s=NOW)
    assert not verify("s3cret", NOW, bytes(changed), header, now_s=NOW)
    assert not verify("s3cret", NOW + 1, body, header, now_s=NOW)
    assert not verify("S3cret", NOW, body, header, now_s=NOW)


@pytest.mark.parametrize(
    ("age_s", "accepted"), [(-301, 0), (-300, 1), (-299, 1), (0, 1), (299, 1), (300, 1), (301, 0)]
)
def test_the_window_is_symmetric_and_inclusive(age_s: int, accepted: int) -> None:
    """K154."""
    assert ok(now_s=NOW + age_s) is bool(accepted)


def test_the_window_can_be_set_down_to_nothing() -> None:
    """K154."""
    assert ok(max_skew_s=0)
    assert not ok(max_skew_s=0, now_s=NOW + 1)
    assert ok(max_skew_s=5, now_s=NOW + 5)
    assert not ok(max_skew_s=5, now_s=NOW + 6)


def test_now_is_floored_to_seconds() -> None:
    """K155."""
    assert ok(now_s=NOW + 300.9)
    assert not ok(now_s=NOW - 300.1)


def test_a_stale_request_with_a_right_signature_is_refused() -> None:
    """K156; "now" is the system's time unless told otherwise."""
    fresh = int(time.time())
    assert not ok(now_s=fresh)
    assert verify("s3cret", fresh, BODY, "sha256=" + sign("s3cret", fresh, BODY))
    old = fresh - 1000
    assert not verify("s3cret", old, BODY, "sha256=" + sign("s3cret", old, BODY))


def test_the_comparison_takes_the_same_time_for_every_wrong_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K157."""
    calls: list[tuple[bytes, bytes]] = []

    def spy(a: bytes, b: bytes) -> bool:
        calls.append((a, b))
        return a == b

    monkeypatch.setattr(hmac, "compare_digest", spy)
    assert ok()
    assert not ok(header="sha256=" + "0" * 64)
    assert [len(b) for _, b in calls] == [64, 64]


@pytest.mark.parametrize("timestamp", [0, -1, -NOW, 10**12, 10**400, 2**63])
def test_impossible_timestamps_are_refused_without_raising(timestamp: int) -> None:
    """K158, also with a window that would let them through."""
    assert verify("s3cret", timestamp, BODY, "sha256=" + GOLDEN, max_skew_s=10**500) is False


def test_a_signature_for_timestamp_zero_is_refused_too() -> None:
    """K158."""
    assert not verify("s3cret", 0, BODY, "sha256=" + sign("s3cret", 0, BODY), now_s=0)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu"])
def test_the_time_zone_does_not_matter(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        now = int(time.time())
        assert verify("s3cret", now, BODY, "sha256=" + sign("s3cret", now, BODY))
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", " 1", "1 ", "1_0", "١٢٣", "１２", "1e9", "nan", "inf", "1.0", "1" * 13]
)
def test_timestamp_headers_are_ascii_digits_only(text: str) -> None:
    assert parse_timestamp(text) is None


def test_a_sound_timestamp_header_is_read() -> None:
    assert parse_timestamp("1765532000") == NOW


@given(st.text(max_size=100), st.integers(), st.binary(max_size=50), st.text(max_size=100))
def test_verify_never_raises(secret: str, timestamp: int, body: bytes, header: str) -> None:
    """K152, K158: whatever comes."""
    assert verify(secret, timestamp, body, header) is False


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 10**11), st.binary())
def test_what_sign_makes_verify_takes(secret: str, timestamp: int, body: bytes) -> None:
    """K149."""
    assert verify(secret, timestamp, body, "sha256=" + sign(secret, timestamp, body), now_s=timestamp)


def test_a_secret_that_came_from_undecodable_bytes_is_those_bytes() -> None:
    """An environment variable of any bytes is a secret of those bytes."""
    assert sign(b"\xff\xfe".decode("utf-8", "surrogateescape"), 1, b"x") == (
        hmac.new(b"\xff\xfe", b"1.x", "sha256").hexdigest()
    )


def test_standard_webhooks_secrets_follow_one_rule() -> None:
    """With the prefix base64, without it as it is; anything between is refused at once."""
    assert standard_webhooks_key("whsec_AAEC") == b"\x00\x01\x02"
    assert standard_webhooks_key("AAEC") == b"AAEC"
    for bad in ["whsec_AAE", "whsec_", "whsec_é", "v1,whsec_AAEC", ""]:
        with pytest.raises(ValueError, match="secret"):
            standard_webhooks_key(bad)
    assert sign_standard_webhooks(b"k", "id", 1, b"x").startswith("v1,")
