"""Certificate requests: the subject of what a CertificateSigningRequest asks a signer to sign.

They are read as Go reads them, with its leniency and its strictness: a subject that a signer reads and a controller
does not would be a way around the controller. Sources: ``pkg/apis/certificates/helpers.go`` ``ParseCSR``;
``encoding/pem``, ``encoding/asn1`` and ``crypto/x509`` of Go.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.go_formats import decode_base64

_PEM_TYPE = b"CERTIFICATE REQUEST"
_BEGIN, _END, _DASHES = b"-----BEGIN ", b"\n-----END ", b"-----"


class CertificateSubject(msgspec.Struct, frozen=True):
    """The subject of a certificate request."""

    common_name: str = ""
    """The user name; the last of several."""
    organizations: tuple[str, ...] = ()
    """The user's groups."""


def read_subject(pem: bytes) -> CertificateSubject:
    """Read the subject of a PEM-encoded certificate request.

    Raises:
        InputError: it is not a certificate request. The message quotes nothing of it.
    """
    block = _first_pem_block(pem)
    if block is None or block.type != _PEM_TYPE:
        raise InputError(f"PEM block type must be {_PEM_TYPE.decode()}")
    try:
        names = list(_subject_attributes(block.content))
    except (ValueError, IndexError):
        raise InputError("malformed certificate request") from None
    common_names = [value for identifier, value in names if identifier == _COMMON_NAME]
    organizations = tuple(value for identifier, value in names if identifier == _ORGANIZATION)
    return CertificateSubject(common_names[-1] if common_names else "", organizations)


class _PemBlock(msgspec.Struct, frozen=True):
    type: bytes
    content: bytes


def _first_pem_block(text: bytes) -> _PemBlock | None:
    """The first well-formed block, as ``pem.Decode`` finds it: malformed ones are skipped."""
    position = 0
    while (end := text.find(_END, position)) >= 0:
        trailer = end + len(_END)
        # Repeated beginnings are skipped: the last one before the end counts, at the start of a line.
        begin = text.rfind(_BEGIN, position, end)
        if begin >= 0 and (begin == position or text[begin - 1 : begin] == b"\n"):
            kind, body = _read_line(text, begin + len(_BEGIN))
            if kind.endswith(_DASHES):
                body = _skip_headers(text, body)
                if body == len(text) or trailer < body:
                    return None  # where Go gives up, too
                block = _read_block(text, kind, body, end)
                if block is not None:
                    return block
        position = trailer
    return None


def _read_line(text: bytes, position: int) -> tuple[bytes, int]:
    """A line without the white space at its end, and where the next one starts."""
    end = text.find(b"\n", position)
    line = text[position:] if end < 0 else text[position:end].removesuffix(b"\r")
    return line.rstrip(b" \t"), len(text) if end < 0 else end + 1


def _skip_headers(text: bytes, position: int) -> int:
    """Where the headers, which are lines with a colon, end."""
    while position < len(text):
        line, following = _read_line(text, position)
        if b":" not in line:
            break
        position = following
    return position


def _read_block(text: bytes, kind: bytes, body: int, end: int) -> _PemBlock | None:
    """The block between two positions; None if its last line or its Base64 is malformed."""
    last_line, _ = _read_line(text, end + len(_END))
    if last_line != kind:
        return None
    encoded = text[body : max(body, end)].translate(None, b" \t")
    try:
        return _PemBlock(kind.removesuffix(_DASHES), decode_base64(encoded.decode("latin-1")))
    except ValueError:
        return None


_INTEGER, _BIT_STRING, _OBJECT_IDENTIFIER = 0x02, 0x03, 0x06
_SEQUENCE, _SET, _ATTRIBUTES = 0x30, 0x31, 0xA0
_COMMON_NAME = b"\x55\x04\x03"  # 2.5.4.3
_ORGANIZATION = b"\x55\x04\x0a"  # 2.5.4.10

_UTF8, _NUMERIC, _PRINTABLE, _T61, _IA5, _BMP = 0x0C, 0x12, 0x13, 0x14, 0x16, 0x1E
_ENCODINGS = {
    _UTF8: "utf-8", _NUMERIC: "ascii", _PRINTABLE: "ascii", _T61: "latin-1", _IA5: "ascii", _BMP: "utf-16-be",
}  # fmt: skip
"""The encodings of the string types in names. Go ignores names of other types."""

_DIGITS = frozenset(b"0123456789 ")
_PRINTABLE_BYTES = _DIGITS | frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'()+,-./:=?*&")
_NONCHARACTERS = frozenset(map(chr, (0xFFFE, 0xFFFF, *range(0xFDD0, 0xFDF0))))

_LONG_FORM = 0x80
_LENGTH_BYTES = 4
"""More length bytes would mean more than 4 GiB."""
_LONG_TAG = 0x1F
"""A tag of several bytes, which no certificate request has."""


def _subject_attributes(der: bytes) -> Iterator[tuple[bytes, str]]:
    """The attributes of the subject that are strings: object identifiers and values."""
    (request,) = _der_values(der)
    information, algorithm, signature = _members(request, 3)
    _check_algorithm(algorithm)
    _content(signature, _BIT_STRING)
    version, subject, key, attributes = _members(information, 4)
    _content(version, _INTEGER)
    _content(attributes, _ATTRIBUTES)
    key_algorithm, key_bits = _members(key, 2)
    _check_algorithm(key_algorithm)
    _content(key_bits, _BIT_STRING)
    for relative_name in _der_values(_content(subject, _SEQUENCE)):
        for attribute in _der_values(_content(relative_name, _SET)):
            identifier, (tag, value) = _members(attribute, 2)
            name = _content(identifier, _OBJECT_IDENTIFIER)
            if tag in _ENCODINGS:
                yield name, _decode_string(tag, value)


def _check_algorithm(value: tuple[int, bytes]) -> None:
    (identifier,) = _members(value, 1)
    _content(identifier, _OBJECT_IDENTIFIER)


def _members(value: tuple[int, bytes], count: int) -> Iterator[tuple[int, bytes]]:
    """The first values of a sequence. What follows them may be anything, as in Go."""
    return itertools.islice(_der_values(_content(value, _SEQUENCE)), count)


def _decode_string(tag: int, value: bytes) -> str:
    if tag == _BMP:
        # Go takes a terminating NUL off, so "system:masters\0" is system:masters.
        value = value.removesuffix(b"\0\0") if len(value) % 2 == 0 else value
    text = value.decode(_ENCODINGS[tag])
    if (
        (tag == _NUMERIC and not _DIGITS.issuperset(value))
        or (tag == _PRINTABLE and not _PRINTABLE_BYTES.issuperset(value))
        or (tag == _BMP and (len(text) * 2 != len(value) or not _NONCHARACTERS.isdisjoint(text)))
    ):
        raise ValueError("a name has characters that its type does not")
    return text


def _der_values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """A sequence of DER values: their tags and contents."""
    position = 0
    while position < len(der):
        tag, (start, end) = der[position], _der_content(der, position + 1)
        if end > len(der) or tag & _LONG_TAG == _LONG_TAG:
            raise ValueError("a value is longer than what holds it, or has a tag of several bytes")
        yield tag, der[start:end]
        position = end


def _der_content(der: bytes, position: int) -> tuple[int, int]:
    """The start and end of the value whose length is at ``position``."""
    length, start = der[position], position + 1
    if length >= _LONG_FORM:
        count = length - _LONG_FORM
        if not 0 < count <= _LENGTH_BYTES or start + count > len(der):
            raise ValueError("a length is malformed")
        length, start = int.from_bytes(der[start : start + count]), start + count
        if length < _LONG_FORM or length < 1 << (8 * (count - 1)):
            raise ValueError("a length is longer than it must be")
    return start, start + length


def _content(value: tuple[int, bytes], expected: int) -> bytes:
    """The content of a value of an expected tag."""
    tag, content = value
    if tag != expected:
        raise ValueError("a value of another type stands there")
    return content
