"""The node's libraries without what only a person at a terminal needs.

httpx imports its command line where click and rich are installed, structlog its coloured tracebacks where
rich is: together an eighth of the node's imports, which a goal that has to be found again after a restart
would wait for. Both do without, by an ImportError that they expect.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import cast

UNUSED = ("rich", "httpx._main")
LIBRARIES = ("httpx", "structlog")


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
