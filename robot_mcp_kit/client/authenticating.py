"""Credentials that a host provides while connected, for one server each (A31)."""

from __future__ import annotations

import abc
from collections.abc import Mapping


class Authenticator(abc.ABC):
    """Gives the headers that authenticate a request to one server. Asked for every request.

    They override headers of the same name from the definition and are never shown, kept or sent elsewhere.
    """

    @abc.abstractmethod
    async def headers(self, *, refused: bool) -> Mapping[str, str] | None:
        """The headers now.

        Args:
            refused: the server has just refused the last ones; give fresh ones, or ``None`` when there are
            none: the
                request then fails. It is never sent without.

        What is raised is hidden: the request fails as not authenticated.
        """
