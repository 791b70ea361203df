"""Values that validation has found nothing wrong with, and need not look at again.

Manifests repeat themselves: the Pods of a workload have the containers of its template, and most containers the same
probes, ports and resources as others. To write such a value as JSON and to look up its digest takes some 3
microseconds, to validate it some 50.
"""

from __future__ import annotations

import hashlib

import msgspec

from pratique.apimachinery.json_values import JSON

_MOST = 16_384
"""Digests to remember, which take some 2 MiB. When there are more, all are forgotten."""
_DIGEST_BYTES = 16
_encoder = msgspec.json.Encoder()


class ValidValues:
    """Remembers values by their digests, because an object may hold secrets, and its values are not kept.

    The key of a value has to have everything that its validation depends on.
    """

    def __init__(self) -> None:
        """Know no value."""
        self._digests: set[bytes] = set()

    def key(self, *values: JSON) -> bytes:
        """The key of what is validated together. Values that JSON tells apart have different keys."""
        return hashlib.blake2b(_encoder.encode(values), digest_size=_DIGEST_BYTES).digest()

    def __contains__(self, key: bytes) -> bool:
        """Tell whether a value was valid before."""
        return key in self._digests

    def add(self, key: bytes) -> None:
        """Remember that a value is valid."""
        if len(self._digests) >= _MOST:
            self._digests.clear()
        self._digests.add(key)
