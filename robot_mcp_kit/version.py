"""The installed version of this package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

NOT_INSTALLED = "0+not.installed"


def package_version() -> str:
    """The version that was installed, or :data:`NOT_INSTALLED` when run from a source tree."""
    try:
        return version("robot-mcp-kit")
    except PackageNotFoundError:
        return NOT_INSTALLED
