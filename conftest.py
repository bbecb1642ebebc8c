"""Under ``colcon test`` only the quick tests run; ``--pytest-args -m slow`` asks for the others."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    by_colcon = "--junit-prefix=robot_mcp_kit" in os.environ.get("PYTEST_ADDOPTS", "")
    if by_colcon and not any(option == "-m" for option in config.invocation_params.args):
        config.option.markexpr = config.option.markexpr or "not slow"
