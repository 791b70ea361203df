"""PEM for OpenSSL, which takes files alone where Python has bytes."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """Give a file that holds ``content``, which may be a private key: on Linux it never leaves memory."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("pem")
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if sys.platform != "linux":
            Path(path).unlink()
