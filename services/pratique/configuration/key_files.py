"""Secret keys in files."""

from __future__ import annotations

from pathlib import Path

from pratique.apimachinery.errors import ConfigurationError

_MIN_KEY_BYTES, _MAX_KEY_BYTES = 32, 4096
"""Bytes of a key: 32 are as many as a hash has, and 4096 more than any key generator writes."""


def read_key(path: Path, flag: str) -> bytes:
    """Read a key; whitespace around it is not part of it.

    Raises:
        ConfigurationError: it cannot be read, or is too short or too long.
    """
    try:
        with path.open("rb") as file:
            key = file.read(_MAX_KEY_BYTES + 1).strip()
    except OSError as error:
        raise ConfigurationError(f"{flag} {path}: cannot be read: {error.strerror}") from None
    if not _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        text = f"has {len(key)} bytes; a key has {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES}, as openssl rand -hex 32 makes it"
        raise ConfigurationError(f"{flag} {path}: {text}")
    return key
