"""JSON Pointers (RFC 6901): how a place in a document is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def escape(token: str) -> str:
    """Write one member's name as a part of a pointer."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def unescape(token: str) -> str:
    """Read one part of a pointer; a ``~`` that escapes nothing stands for itself."""
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token


def pointer(path: Iterable[str | int]) -> str:
    """Write a path, for example ``("metadata", "labels", "a/b")`` as ``/metadata/labels/a~1b``."""
    return "".join(f"/{escape(step) if isinstance(step, str) else step}" for step in path)
