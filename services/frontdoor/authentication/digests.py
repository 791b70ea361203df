"""Digests: what is kept of secrets, and how a presented one is compared with them."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, slots=True)
class Digests:
    """The SHA-256 digests of the secrets of one file. The secrets themselves are not kept.

    How long a comparison takes tells nothing of how much of a guess is right: digests that differ at all differ
    everywhere, all have the same length, and each one is looked at to its end.
    """

    held: tuple[bytes, ...] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, secrets: Iterable[bytes]) -> Digests:
        """Digest secrets."""
        return cls(tuple(_digest(secret) for secret in secrets))

    def match(self, presented: bytes) -> bool:
        """Tell whether what somebody has presented is one of the secrets."""
        digest = _digest(presented)
        found = False
        for held in self.held:
            found |= hmac.compare_digest(held, digest)
        return found


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
