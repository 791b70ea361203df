"""Digests that prove to a service that its caller has checked a document, so that it need not check it again.

A check of 500 KB takes longer than parsing it, and every service that a review passes would repeat it. A digest covers
the rules of the check and the bytes: neither another text nor other rules have the same one. See ADR 0027.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from pathlib import Path
from typing import Self

from pratique.apimachinery.json_reading import (
    ENVELOPE_LEVELS,
    MAX_LEVELS,
    MAX_VALUES,
    is_within_structure_limits,
)
from pratique.configuration.key_files import read_key
from pratique.processes.large_texts import SEPARATE_PROCESS_BYTES

CHECK_REVISION = 1
"""Raise it with every change of what :func:`pratique.apimachinery.json_reading.parse_checked` accepts. Services of two
revisions, as there are during an update, then check for themselves."""

RULES = f"pratique JSON {CHECK_REVISION}: {MAX_LEVELS} levels, {MAX_VALUES} values".encode()
"""What a document was checked for."""

OBJECT_LEVELS = MAX_LEVELS - ENVELOPE_LEVELS
"""The levels that an object of an AdmissionReview may have."""
OBJECT_RULES = f"pratique JSON {CHECK_REVISION}: {OBJECT_LEVELS} levels, {MAX_VALUES} values"
"""What a front door wants the objects of an AdmissionReview to be checked for that it has not checked itself."""

_NUL = b"\\u0000"

KEY_FLAG = "--checks-key-file"


@dataclasses.dataclass(frozen=True, slots=True)
class CheckDigests:
    """Makes and verifies the digests of one process.

    With a key, only who has it can make one. Without, anybody can, so that connections must be authenticated.
    """

    key: bytes | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def of(cls, key_file: Path | None, *, authenticated: bool) -> Self | None:
        """Return the digests for a service's or front door's settings; None if its hops prove nothing.

        Args:
            key_file: A file with a key that only the front doors and their services have.
            authenticated: Whether clients of the connection show certificates of an authority.

        Raises:
            ConfigurationError: the key cannot be used.
        """
        if key_file is not None:
            return cls(read_key(key_file, KEY_FLAG))
        return cls() if authenticated else None

    def digest(self, raw: bytes) -> bytes:
        """Return the digest of a text that passed the checks."""
        # Hashing long texts releases the interpreter lock.
        found = hashlib.sha256(RULES) if self.key is None else hmac.new(self.key, RULES, hashlib.sha256)
        found.update(raw)
        return found.digest()

    def of_checked(self, raw: bytes) -> bytes:
        """Return the digest of a text that passed the checks."""
        return self.digest(raw)

    def of_encoded(self, raw: bytes, *, shallow: bool = False) -> bytes:
        """Return the digest of a text that was encoded in this process; empty if it might not pass the checks.

        An encoder writes valid JSON in UTF-8, no member twice, and no number beyond float64. What is left are the
        limits on its structure, which a patch may exceed unless the text is ``shallow``, and names with a NUL. A very
        long text has no digest: looking at it here would delay other reviews, and the service has a process for it. All
        others are too short for too many values.
        """
        fits = len(raw) <= SEPARATE_PROCESS_BYTES and (
            _NUL not in raw if shallow else is_within_structure_limits(raw)
        )
        return self.digest(raw) if fits else b""

    def proves(self, digest: bytes, raw: bytes) -> bool:
        """Tell whether a digest proves that a text was checked by the same rules."""
        return bool(digest) and hmac.compare_digest(digest, self.digest(raw))
