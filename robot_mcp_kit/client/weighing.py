"""How much a database holds, so that nobody who may send can fill the disk."""

from __future__ import annotations

import sqlite3

MAX_BYTES = 1024 * 1024 * 1024
_WEIGH_EVERY_BYTES = 4 * 1024 * 1024
_WEIGH_EVERY = 256


class Weight:
    """Weighs a database now and then, by what was written since.

    Args:
        most: bytes that its pages in use may take.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes, self._writes = _WEIGH_EVERY_BYTES, 0
        self.over = False
        """As last weighed."""

    def note(self, size: int) -> None:
        """So many bytes were written."""
        self._bytes += size
        self._writes += 1

    def is_due(self) -> bool:
        """Whether to weigh again: enough was written, or it was too heavy and may be lighter now."""
        return self.over or self._bytes >= _WEIGH_EVERY_BYTES or self._writes >= _WEIGH_EVERY

    def weigh(self, db: sqlite3.Connection) -> bool:
        """Whether it is too heavy now."""
        self._bytes = self._writes = 0
        pages, free, size = (
            int(db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        self.over = (pages - free) * size > self._most
        return self.over
