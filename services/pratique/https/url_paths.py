"""Paths of URLs, as Go writes them: ``path.Join``, and ``net/url`` ``URL.EscapedPath``."""

from __future__ import annotations

import posixpath
from urllib.parse import quote

_PATH_CHARACTERS = "/$&+,:;=@~"
"""What Go leaves as it is in a path, beside letters, digits and ``_.-``."""


def clean_path(path: str) -> str:
    """Clean and escape a path: ``.`` and ``..`` resolved, slashes single, one at the start and none at the end."""
    # Two slashes at the start mean something to POSIX, and nothing to Go.
    return quote(posixpath.normpath("/" + path.lstrip("/")), safe=_PATH_CHARACTERS)
