"""Peers: what the other side of a TLS connection has shown of itself."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

_DER = 2
"""``_ssl.ENCODING_DER``."""


class Peer:
    """The other side of one connection. It is looked at when somebody asks, and only once."""

    def __init__(self, connection: ssl.SSLObject) -> None:
        """The handshake is over."""
        self._connection = connection

    @functools.cached_property
    def chain(self) -> tuple[bytes, ...]:
        """Its certificate and those that lead from it to an authority, in DER; empty where it has shown none."""
        own = self._connection.getpeercert(binary_form=True)
        if own is None:
            return ()
        return (own, *(one for one in _shown(self._connection) if one != own))


def _shown(connection: Any) -> list[bytes]:
    """All that was shown. Python's own method for it comes with 3.13; before, there is what lies beneath it."""
    if hasattr(connection, "get_unverified_chain"):
        return list(connection.get_unverified_chain())
    chain: list[Any] = getattr(getattr(connection, "_sslobj", None), "get_unverified_chain", list)()
    return [one.public_bytes(_DER) for one in chain or ()]
