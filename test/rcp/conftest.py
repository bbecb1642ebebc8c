"""What the tests of the Robot Context Protocol share."""

from __future__ import annotations

from types import ModuleType

import pytest

from . import oracle


@pytest.fixture(scope="session")
def sdk() -> ModuleType:
    """The protocol's own SDK."""
    try:
        return oracle.load()
    except oracle.OracleUnavailableError as error:
        pytest.skip(str(error))
