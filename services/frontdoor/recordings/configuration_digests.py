"""Configuration digests: which set of configurations and policies was in force."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.documents import list_files
from pratique.errors import InputError
from pratique.watching import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pratique.watching import Fingerprint

_BETWEEN_LOOKS_SECONDS = 1.0


class ConfigurationDigest:
    """The digest of files and folders, made again when they have changed."""

    def __init__(self, paths: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with the files as they are now."""
        self._paths = tuple(paths)
        self._clock = clock
        self._seen: Fingerprint | None = None
        self._due = float("-inf")
        self._current = ""

    @property
    def current(self) -> str:
        """``sha256:`` and the digest of the contents, as they were a second ago at most; empty without files."""
        now = self._clock()
        if self._paths and now >= self._due:
            self._due = now + _BETWEEN_LOOKS_SECONDS
            seen = fingerprint(self._paths)
            if seen != self._seen:
                self._seen, self._current = seen, digest_of(self._paths)
        return self._current


def digest_of(paths: Sequence[Path]) -> str:
    """Digest the contents of files, and of those of folders by name; what cannot be read is empty."""
    digest = hashlib.sha256()
    for path in paths:
        for content in _contents(path):
            digest.update(hashlib.sha256(content).digest())
    return f"sha256:{digest.hexdigest()}"


def _contents(path: Path) -> list[bytes]:
    try:
        return [Path(file).read_bytes() for file in list_files(path)]
    except (InputError, OSError):
        return []
