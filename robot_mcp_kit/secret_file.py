"""A secret that is made at the first start and kept in a file that only its owner can read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from robot_mcp_kit.errors import ConfigError


def kept_secret(path: Path, make: Callable[[], str], what: str) -> str:
    """The file's text without spaces around it; the file is made if there is none, its folder as well.

    Args:
        path: the file, mode 600.
        make: the text of a new one.
        what: what the secret is, for errors.

    Raises:
        ConfigError: the file cannot be read or written, is no text, or others may read it. A file that could
            not be written to its end is gone again.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if path.stat().st_mode & 0o077:
                raise ConfigError(f"{path}: others may read {what}; chmod 600 {path}") from None
            return path.read_text(encoding="utf-8").strip()
        text = make()
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
                file.flush()
                os.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)  # an empty one would be refused at every later start
            raise
        return text
    except OSError as error:
        raise ConfigError(f"{path}: {what} cannot be kept there: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no text, so not {what}") from error
