"""Address texts: reading IP addresses as Go does, refusing them in its words.

Source: Go's ``net/netip/netip.go`` ``ParseAddr``.
"""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

from pratique.errors import InputError
from pratique.statuses import go_quoted

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_DIGITS = frozenset("0123456789")
_HEXADECIMAL = _DIGITS | frozenset("abcdefABCDEF")
_GROUPS = 8
"""Sixteen-bit groups of an IPv6 address."""


class AddressError(InputError):
    """A text is no IP address."""


class _Refusal(Exception):  # noqa: N818 - it is turned into an AddressError where the whole text is known
    """Why, and from where in the text on."""

    def __init__(self, why: str, rest: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.rest = rest


def parse_address(text: str) -> tuple[Address, str]:
    """Read an address and its zone, empty where it has none. Raises AddressError in Go's words."""
    try:
        return _parse(text)
    except _Refusal as refusal:
        rest = f" (at {go_quoted(refusal.rest)})" if refusal.rest else ""
        raise AddressError(f"ParseAddr({go_quoted(text)}): {refusal.why}{rest}") from None


def _parse(text: str) -> tuple[Address, str]:
    """Tell the two families apart by the first character that only one of them has."""
    mark = next((character for character in text if character in ".:%"), "")
    if mark == ".":
        return ipaddress.IPv4Address(_octets(text)), ""
    if mark == ":":
        return _parse_ipv6(text)
    raise _Refusal("missing IPv6 address" if mark else "unable to parse IP")


def _octets(text: str) -> bytes:
    fields = text.split(".")
    octets = []
    for place, field in enumerate(fields):
        if not field:
            raise _Refusal("IPv4 field must have at least one digit", _from(text, fields, place))
        if not _DIGITS.issuperset(field):
            raise _Refusal("unexpected character", _from_character(text, fields, place))
        if len(field) > 1 and field[0] == "0":
            raise _Refusal("IPv4 field has octet with leading zero")
        if int(field[:4]) > 255:
            raise _Refusal("IPv4 field has value >255")
        if place == 4:
            raise _Refusal("IPv4 address too long")
        octets.append(int(field))
    if len(octets) < 4:
        raise _Refusal("IPv4 address too short")
    return bytes(octets)


def _from(text: str, fields: list[str], place: int) -> str:
    start = sum(len(field) + 1 for field in fields[:place])
    return text[max(start - 1, 0) if start >= len(text) else start :]


def _from_character(text: str, fields: list[str], place: int) -> str:
    start = sum(len(field) + 1 for field in fields[:place])
    return next(text[at:] for at in range(start, len(text)) if text[at] not in _DIGITS)


def _parse_ipv6(text: str) -> tuple[Address, str]:
    body, percent, zone = text.partition("%")
    if percent and not zone:
        raise _Refusal("zone must be a non-empty string")
    groups, ellipsis = _groups(body)
    if len(groups) < _GROUPS:
        if ellipsis is None:
            raise _Refusal("address string too short")
        groups[ellipsis:ellipsis] = [0] * (_GROUPS - len(groups))
    elif ellipsis is not None:
        raise _Refusal("the :: must expand to at least one field of zeros")
    return ipaddress.IPv6Address(b"".join(group.to_bytes(2, "big") for group in groups)), zone


def _groups(text: str) -> tuple[list[int], int | None]:
    groups: list[int] = []
    ellipsis = None
    rest = text
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
    while rest and len(groups) < _GROUPS:
        digits = len(rest) - len(rest.lstrip("0123456789abcdefABCDEF"))
        _check_group(rest, digits)
        if rest[digits : digits + 1] == ".":
            return [*groups, *_embedded(rest, len(groups), ellipsis)], ellipsis
        groups.append(int(rest[:digits], 16))
        rest = rest[digits:]
        if not rest:
            break
        rest = _behind_colon(rest)
        if rest.startswith(":"):
            if ellipsis is not None:
                raise _Refusal("multiple :: in address", rest)
            ellipsis, rest = len(groups), rest[1:]
    if rest:
        raise _Refusal("trailing garbage after address", rest)
    return groups, ellipsis


def _check_group(rest: str, digits: int) -> None:
    if digits == 0:
        raise _Refusal("each colon-separated field must have at least one digit", rest)
    if digits > 4 and rest[digits : digits + 1] != ".":
        raise _Refusal("each group must have 4 or less digits", rest)


def _behind_colon(rest: str) -> str:
    if rest[0] != ":":
        raise _Refusal("unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _Refusal("colon must be followed by more characters", rest)
    return rest[1:]


def _embedded(rest: str, found: int, ellipsis: int | None) -> list[int]:
    """Read the IPv4 address that an IPv6 address may end with."""
    if ellipsis is None and found != _GROUPS - 2:
        raise _Refusal("embedded IPv4 address must replace the final 2 fields of the address", rest)
    if found > _GROUPS - 2:
        raise _Refusal("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    octets = _octets(rest)
    return [octets[0] << 8 | octets[1], octets[2] << 8 | octets[3]]
