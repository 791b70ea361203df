"""IP addresses and CIDR networks, parsed as Go's ``net/netip`` does and with its error messages.

Source: ``k8s.io/apiserver/pkg/cel/library/ip.go`` and ``cidr.go``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted
from pratique.cel.activation import Frame
from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.strings import require_types
from pratique.cel.values import Value

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_DIGITS = frozenset("0123456789")
_HEXADECIMAL = _DIGITS | frozenset("abcdefABCDEF")
_GROUPS = 8
"""The number of 16-bit groups in an IPv6 address."""


class AddressError(InputError):
    """A text is not an IP address, or not a network."""


class _AddressParseError(Exception):
    """The reason, and the rest of the text from where it applies."""

    def __init__(self, why: str, rest: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.rest = rest


def parse_address(text: str) -> tuple[Address, str]:
    """Parse an address and its zone, which may be empty. Raises AddressError with Go's message."""
    try:
        return _parse(text)
    except _AddressParseError as refusal:
        rest = f" (at {go_quoted(refusal.rest)})" if refusal.rest else ""
        raise AddressError(f"ParseAddr({go_quoted(text)}): {refusal.why}{rest}") from None


def _parse(text: str) -> tuple[Address, str]:
    """Choose the address family by the first separator in the text."""
    mark = next((character for character in text if character in ".:%"), "")
    if mark == ".":
        return ipaddress.IPv4Address(_octets(text)), ""
    if mark == ":":
        return _parse_ipv6(text)
    raise _AddressParseError("missing IPv6 address" if mark else "unable to parse IP")


def _octets(text: str) -> bytes:
    fields = text.split(".")
    octets = []
    for place, field in enumerate(fields):
        if not field:
            raise _AddressParseError(
                "IPv4 field must have at least one digit", _rest_from_field(text, fields, place)
            )
        if not _DIGITS.issuperset(field):
            raise _AddressParseError("unexpected character", _rest_from_character(text, fields, place))
        if len(field) > 1 and field[0] == "0":
            raise _AddressParseError("IPv4 field has octet with leading zero")
        if int(field[:4]) > 255:
            raise _AddressParseError("IPv4 field has value >255")
        if place == 4:
            raise _AddressParseError("IPv4 address too long")
        octets.append(int(field))
    if len(octets) < 4:
        raise _AddressParseError("IPv4 address too short")
    return bytes(octets)


def _rest_from_field(text: str, fields: list[str], place: int) -> str:
    start = sum(len(field) + 1 for field in fields[:place])
    return text[max(start - 1, 0) if start >= len(text) else start :]


def _rest_from_character(text: str, fields: list[str], place: int) -> str:
    start = sum(len(field) + 1 for field in fields[:place])
    return next(text[at:] for at in range(start, len(text)) if text[at] not in _DIGITS)


def _parse_ipv6(text: str) -> tuple[Address, str]:
    body, percent, zone = text.partition("%")
    if percent and not zone:
        raise _AddressParseError("zone must be a non-empty string")
    groups, ellipsis = _groups(body)
    if len(groups) < _GROUPS:
        if ellipsis is None:
            raise _AddressParseError("address string too short")
        groups[ellipsis:ellipsis] = [0] * (_GROUPS - len(groups))
    elif ellipsis is not None:
        raise _AddressParseError("the :: must expand to at least one field of zeros")
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
        rest = _after_colon(rest)
        if rest.startswith(":"):
            if ellipsis is not None:
                raise _AddressParseError("multiple :: in address", rest)
            ellipsis, rest = len(groups), rest[1:]
    if rest:
        raise _AddressParseError("trailing garbage after address", rest)
    return groups, ellipsis


def _check_group(rest: str, digits: int) -> None:
    if digits == 0:
        raise _AddressParseError("each colon-separated field must have at least one digit", rest)
    if digits > 4 and rest[digits : digits + 1] != ".":
        raise _AddressParseError("each group must have 4 or less digits", rest)


def _after_colon(rest: str) -> str:
    if rest[0] != ":":
        raise _AddressParseError("unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _AddressParseError("colon must be followed by more characters", rest)
    return rest[1:]


def _embedded(rest: str, found: int, ellipsis: int | None) -> list[int]:
    """Parse the IPv4 address at the end of an IPv6 address."""
    if ellipsis is None and found != _GROUPS - 2:
        raise _AddressParseError("embedded IPv4 address must replace the final 2 fields of the address", rest)
    if found > _GROUPS - 2:
        raise _AddressParseError(
            "too many hex fields to fit an embedded IPv4 at the end of the address", rest
        )
    octets = _octets(rest)
    return [octets[0] << 8 | octets[1], octets[2] << 8 | octets[3]]


_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_BITS = pattern(r"0|[1-9][0-9]{0,2}", re.ASCII)
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_LINK_LOCAL_MULTICAST = ipaddress.IPv4Network("224.0.0.0/24")


class AddressValue(msgspec.Struct, frozen=True):
    """An IP address as a CEL value."""

    cel_type: ClassVar[str] = "net.IP"
    address: _Address

    @property
    def cel_size(self) -> int:
        """The number of its bytes."""
        return len(self.address.packed)

    @property
    def cel_string(self) -> str:
        """The canonical notation."""
        return str(self.address)


class NetworkValue(msgspec.Struct, frozen=True):
    """An address with a prefix length, as a CEL value; bits after the prefix may be set."""

    cel_type: ClassVar[str] = "net.CIDR"
    address: _Address
    bits: int

    @property
    def cel_size(self) -> int:
        """The number of bytes that the prefix covers, at least in part."""
        return -(-self.bits // 8)

    @property
    def cel_string(self) -> str:
        """CIDR notation."""
        return f"{self.address}/{self.bits}"

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """The network of all addresses with the prefix."""
        return ipaddress.ip_network((self.address, self.bits), strict=False)


def _parse_ip(text: str) -> AddressValue:
    try:
        address, zone = parse_address(text)
    except AddressError as error:
        problem = f"IP Address {go_quoted(text)} parse error during conversion from string: {error}"
        raise EvaluationError(problem) from None
    if zone:
        raise EvaluationError(f"IP address {go_quoted(text)} with zone value is not allowed")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise EvaluationError(f"IPv4-mapped IPv6 address {go_quoted(text)} is not allowed")
    return AddressValue(address)


def _parse_cidr(text: str) -> NetworkValue:
    try:
        return _parse_prefix(text)
    except AddressError as error:
        problem = "network address parse error during conversion from string"
        raise EvaluationError(f"{problem}: {problem}: {error}") from None


def _parse_prefix(text: str) -> NetworkValue:
    def refuse(why: str) -> AddressError:
        return AddressError(f"netip.ParsePrefix({go_quoted(text)}): {why}")

    before, slash, bits = text.rpartition("/")
    if not slash:
        raise refuse("no '/'")
    try:
        address, zone = parse_address(before)
    except AddressError as error:
        raise refuse(str(error)) from None
    if zone:
        raise refuse("IPv6 zones cannot be present in a prefix")
    if not _BITS.fullmatch(bits):
        raise refuse(f"bad bits after slash: {go_quoted(bits)}")
    if int(bits) > address.max_prefixlen:
        raise refuse("prefix length out of range")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        mapped = f"IPv4-mapped IPv6 address {go_quoted(text)} is not allowed"
        raise EvaluationError(f"network address parse error during conversion from string: {mapped}")
    return NetworkValue(address, int(bits))


def _ip(_: Frame, text: Value) -> AddressValue:
    require_types((str,), text)
    return _parse_ip(text)


def _cidr(_: Frame, text: Value) -> NetworkValue:
    require_types((str,), text)
    return _parse_cidr(text)


def _parses(parse: Callable[[str], object]) -> Callable[[Frame, Value], bool]:
    def run(_: Frame, text: Value) -> bool:
        require_types((str,), text)
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return run


def _is_canonical(_: Frame, text: Value) -> bool:
    require_types((str,), text)
    return bool(_parse_ip(text).cel_string == text)


def _address_property(read: Callable[[_Address], Value]) -> Callable[[Frame, Value], Value]:
    def run(_: Frame, value: Value) -> Value:
        if type(value) is not AddressValue:
            raise NoSuchOverloadError
        return read(value.address)

    return run


def _network_property(read: Callable[[NetworkValue], Value]) -> Callable[[Frame, Value], Value]:
    def run(_: Frame, value: Value) -> Value:
        if type(value) is not NetworkValue:
            raise NoSuchOverloadError
        return read(value)

    return run


def _is_link_local_multicast(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address in _LINK_LOCAL_MULTICAST
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(address: _Address) -> bool:
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def _contains_ip(_: Frame, network: Value, address: Value) -> bool:
    if type(network) is not NetworkValue:
        raise NoSuchOverloadError
    other = address
    if type(address) is str:
        try:
            other = _parse_ip(address)
        except EvaluationError:
            raise NoSuchOverloadError("") from None  # so does Kubernetes, for want of an address
    if type(other) is not AddressValue:
        raise NoSuchOverloadError
    return other.address in network.network


def _contains_cidr(_: Frame, network: Value, other: Value) -> bool:
    if type(network) is not NetworkValue:
        raise NoSuchOverloadError
    inner = _parse_cidr(other) if type(other) is str else other
    if type(inner) is not NetworkValue:
        raise NoSuchOverloadError
    return network.bits <= inner.bits and inner.address in network.network


LIBRARY = Library(
    overloads=(
        Overload("string_to_ip", "ip(string)", "net.IP"),
        Overload("cidr_ip", "net.CIDR.ip()", "net.IP"),
        Overload("is_ip", "isIP(string)", "bool"),
        Overload("ip_is_canonical", "ip.isCanonical(string)", "bool"),
        Overload("ip_family", "net.IP.family()", "int"),
        Overload("ip_is_unspecified", "net.IP.isUnspecified()", "bool"),
        Overload("ip_is_loopback", "net.IP.isLoopback()", "bool"),
        Overload("ip_is_link_local_multicast", "net.IP.isLinkLocalMulticast()", "bool"),
        Overload("ip_is_link_local_unicast", "net.IP.isLinkLocalUnicast()", "bool"),
        Overload("ip_is_global_unicast", "net.IP.isGlobalUnicast()", "bool"),
        Overload("string_to_cidr", "cidr(string)", "net.CIDR"),
        Overload("is_cidr", "isCIDR(string)", "bool"),
        Overload("cidr_contains_ip_string", "net.CIDR.containsIP(string)", "bool"),
        Overload("cidr_contains_ip_ip", "net.CIDR.containsIP(net.IP)", "bool"),
        Overload("cidr_contains_cidr_string", "net.CIDR.containsCIDR(string)", "bool"),
        Overload("cidr_contains_cidr", "net.CIDR.containsCIDR(net.CIDR)", "bool"),
        Overload("cidr_prefix_length", "net.CIDR.prefixLength()", "int"),
        Overload("cidr_masked", "net.CIDR.masked()", "net.CIDR"),
    ),
    functions={
        "ip": _ip,
        "cidr_ip": _network_property(lambda network: AddressValue(network.address)),
        "cidr": _cidr,
        "isIP": _parses(_parse_ip),
        "isCIDR": _parses(_parse_cidr),
        "ip.isCanonical": _is_canonical,
        "family": _address_property(lambda address: address.version),
        "isUnspecified": _address_property(lambda address: address.is_unspecified),
        "isLoopback": _address_property(lambda address: address.is_loopback),
        "isLinkLocalMulticast": _address_property(_is_link_local_multicast),
        "isLinkLocalUnicast": _address_property(lambda address: address.is_link_local),
        "isGlobalUnicast": _address_property(_is_global_unicast),
        "containsIP": _contains_ip,
        "containsCIDR": _contains_cidr,
        "prefixLength": _network_property(lambda network: network.bits),
        "masked": _network_property(
            lambda network: NetworkValue(network.network.network_address, network.bits)
        ),
    },
)
