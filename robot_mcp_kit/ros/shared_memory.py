"""What a killed process can leave in shared memory that no later one gets past.

Fast DDS makes a file for each port of a domain. A process that is killed between making the file and filling
it leaves an empty one, and every process that opens it waits for ever where it makes its first node (seen on
Kilted).
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from pathlib import Path

logger = logging.getLogger(__name__)

FOLDER = Path("/dev/shm")  # noqa: S108 - where Fast DDS keeps them
OLD_S = 5.0
"""A living process fills the file within a millisecond."""
_PORT = re.compile(r"(?:fastdds|fastrtps)_port\d+")


def remove_unfinished_ports(folder: Path = FOLDER) -> list[str]:
    """Remove the empty port files of processes that are gone, and return their names.

    Files of other users stay: ``fastdds shm clean`` as the user who owns them.
    """
    removed = []
    with contextlib.suppress(OSError):  # no such folder: no shared memory
        for file in folder.iterdir():
            if not _PORT.fullmatch(file.name):
                continue
            with contextlib.suppress(OSError):  # somebody else's, or gone
                about = file.stat()
                if about.st_size == 0 and time.time() - about.st_mtime > OLD_S:
                    file.unlink()
                    removed.append(file.name)
    if removed:
        logger.warning("removed what a killed process left unfinished in %s: %s", folder, ", ".join(removed))
    return sorted(removed)
