"""The keys that a bridge makes at its first start."""

from __future__ import annotations

import resource
import stat
from pathlib import Path

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.secret_file import kept_secret


def _kept(file: Path, text: str = "open sesame") -> str:
    return kept_secret(file, lambda: text, "the key")


def test_a_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "state" / "a.key"
    assert _kept(file) == "open sesame"
    assert _kept(file, "another one") == "open sesame"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_that_others_may_read_is_refused_with_the_way_out(tmp_path: Path) -> None:
    file = tmp_path / "a.key"
    _kept(file)
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="others may read the key; chmod 600"):
        _kept(file)


def test_a_full_disk_leaves_no_empty_file_behind(tmp_path: Path) -> None:
    file = tmp_path / "a.key"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(ConfigError, match="cannot be kept there"):
            _kept(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert _kept(file) == "open sesame"


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.key"
    file.write_bytes(b"\xff\xfe")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="is no text, so not the key"):
        _kept(file)
