"""What the tests of the Robot Context Protocol share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from . import oracle
from .probe import Rig, rig_of


@pytest.fixture(scope="session")
def sdk() -> ModuleType:
    """The protocol's own SDK."""
    try:
        return oracle.load()
    except oracle.OracleUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
async def rigs(tmp_path: Path) -> AsyncIterator[Callable[..., Rig]]:
    """Makes rigs and closes them."""
    made: list[Rig] = []

    def make(**more: Any) -> Rig:
        made.append(rig_of(tmp_path / f"state{len(made)}", **more))
        return made[-1]

    yield make
    for rig in made:
        await rig.close()


@pytest.fixture
def rig(rigs: Callable[..., Rig]) -> Rig:
    """One guarded probe."""
    return rigs()
