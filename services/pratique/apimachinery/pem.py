"""PEM as Go reads it: ``encoding/pem``; and files of it for what reads nothing else, as OpenSSL."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pratique.apimachinery.patterns import pattern

_BLOCK = pattern(
    rb"(?:^|\n)-----BEGIN (?P<type>[^\n]*?)-----[ \t\r]*\n"
    rb"(?P<headers>(?:[^\n:]*:[^\n]*\n)*)"
    rb"(?P<body>(?:(?!-----)[^\n]*\n)*?)"
    rb"-----END (?P=type)-----[ \t\r]*(?=\n|\Z)"
)


class PemBlock(msgspec.Struct, frozen=True):
    """One block of a PEM file."""

    type: str
    """What it says it is, such as ``CERTIFICATE``."""
    has_headers: bool
    der: bytes
    """What it holds."""


def pem_blocks(text: bytes) -> Iterator[PemBlock]:
    """The blocks of a PEM file; what is malformed is passed over: ``pem.Decode``."""
    at = 0
    while found := _BLOCK.search(text, at):
        at = found.end()
        try:
            der = base64.b64decode(re.sub(rb"[ \t\r\n]", b"", found["body"]), validate=True)
        except binascii.Error:
            at = found.start() + 1
            continue
        yield PemBlock(found["type"].decode(errors="replace"), bool(found["headers"]), der)


@contextlib.contextmanager
def temporary_pem_file(content: bytes) -> Iterator[str]:
    """Give the path of a file with ``content``, which may be a private key: on Linux it stays in memory."""
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
