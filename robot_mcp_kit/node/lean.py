"""A start that a goal of before can wait for: less to import, and fewer looks for garbage meanwhile.

httpx imports its command line where click and rich are installed, structlog its coloured tracebacks where
rich is: together an eighth of what the node would import. Both do without, by an ImportError that they
expect.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator
from typing import cast

UNUSED = ("rich", "httpx._main")
LIBRARIES = ("httpx", "structlog")
COLLECT_AFTER = 10_000
"""New objects between two looks for garbage. With Python's 700 (2,000 from 3.12 on) imports take 6 to 8 %
longer: what they make stays."""


def collect_less_often() -> None:
    """Raise the threshold of the youngest generation to :data:`COLLECT_AFTER`; one that is 0 (off) stays."""
    youngest, *older = gc.get_threshold()
    if 0 < youngest < COLLECT_AFTER:
        gc.set_threshold(COLLECT_AFTER, *older)


def import_libraries() -> None:
    """Import :data:`LIBRARIES` without :data:`UNUSED`; later imports of those are not kept from anybody."""
    with without(*UNUSED):
        for name in LIBRARIES:
            importlib.import_module(name)


@contextlib.contextmanager
def without(*names: str) -> Iterator[None]:
    """While this holds, importing these modules raises ImportError, unless they are imported already."""
    modules = cast("dict[str, object]", sys.modules)
    hidden = [name for name in names if name not in modules]
    modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]
