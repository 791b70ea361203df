"""Certificate requests: whom a certificate is asked for.

Of a PKCS #10 request (RFC 2986) in PEM only the subject is read; whether its signature is right is asked by whoever
signs it. Source: ``pkg/apis/certificates/helpers.go`` ``ParseCSR`` and Go's ``crypto/x509/pkix``.
"""

from __future__ import annotations

import binascii
import dataclasses
import re
from typing import TYPE_CHECKING

from pratique.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n(.*?)-----END \1-----", re.DOTALL)
_TYPE = b"CERTIFICATE REQUEST"

_SEQUENCE, _SET, _OBJECT_IDENTIFIER = 0x30, 0x31, 0x06
_COMMON_NAME = b"\x55\x04\x03"  # 2.5.4.3
_ORGANIZATION = b"\x55\x04\x0a"  # 2.5.4.10
_ENCODINGS = {0x0C: "utf-8", 0x12: "ascii", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1E: "utf-16-be"}
"""Of the types of text that a name may have: UTF8, Numeric, Printable, T61, IA5 and BMP."""

_LONG_FORM = 0x80
_LENGTH_BYTES = 4
"""Longer lengths are of more than 4 GiB."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """Whom a certificate is for."""

    common_name: str = ""
    """The user; the last one counts where there are several."""
    organizations: tuple[str, ...] = ()
    """The user's groups."""


def read_subject(pem: bytes) -> Subject:
    """Read whom a certificate request in PEM is for.

    Raises:
        InputError: it is none. The text says why, and quotes nothing of it.
    """
    block = _PEM.search(pem)
    if block is None or block[1] != _TYPE:
        raise InputError(f"PEM block type must be {_TYPE.decode()}")
    try:
        der = binascii.a2b_base64(block[2])
        names = list(_names(der))
    except (ValueError, IndexError):
        raise InputError("malformed certificate request") from None
    common_names = [value for identifier, value in names if identifier == _COMMON_NAME]
    organizations = tuple(value for identifier, value in names if identifier == _ORGANIZATION)
    return Subject(common_names[-1] if common_names else "", organizations)


def _names(der: bytes) -> Iterator[tuple[bytes, str]]:
    """The attributes of the subject: their identifiers and texts."""
    ((tag, request),) = _items(der)
    _expect(tag, _SEQUENCE)
    (tag, information), *_ = _items(request)
    _expect(tag, _SEQUENCE)
    _, (tag, subject), *_ = _items(information)
    _expect(tag, _SEQUENCE)
    for set_tag, relative_name in _items(subject):
        _expect(set_tag, _SET)
        for sequence_tag, attribute in _items(relative_name):
            _expect(sequence_tag, _SEQUENCE)
            (identifier_tag, identifier), (value_tag, value) = _items(attribute)
            _expect(identifier_tag, _OBJECT_IDENTIFIER)
            yield identifier, value.decode(_ENCODINGS[value_tag]) if value_tag in _ENCODINGS else ""


def _items(der: bytes) -> Iterator[tuple[int, bytes]]:
    """The values that stand one after another: their tags and contents."""
    position = 0
    while position < len(der):
        tag, (start, end) = der[position], _content(der, position + 1)
        if end > len(der):
            raise ValueError("a value is longer than what holds it")
        yield tag, der[start:end]
        position = end


def _content(der: bytes, position: int) -> tuple[int, int]:
    """Where a value begins and ends whose length stands at ``position``."""
    length, start = der[position], position + 1
    if length >= _LONG_FORM:
        count = length - _LONG_FORM
        if not 0 < count <= _LENGTH_BYTES or start + count > len(der):
            raise ValueError("a length is malformed")
        length, start = int.from_bytes(der[start : start + count]), start + count
    return start, start + length


def _expect(tag: int, expected: int) -> None:
    if tag != expected:
        raise ValueError("a value of another type stands there")
