"""Artifacts: the files of the input, named as CI systems find them in a repository."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from pratique.source_documents import STDIN


def relative_path(file: str) -> str | None:
    """The path of a file from the folder that the program runs in; absolute where it is elsewhere.

    None where there is no file, but standard input.
    """
    if file in {"", STDIN}:
        return None
    here, path = Path.cwd(), Path(os.path.abspath(file))  # noqa: PTH100 - links keep their names in a repository
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def relative_uri(path: str) -> str:
    """Write what :func:`relative_path` gives as a URI, with ``file://`` where it is absolute."""
    uri = quote(os.fsencode(path), safe="/")
    return f"file://{uri}" if path.startswith("/") else uri
