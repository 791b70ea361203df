"""Addresses: IP addresses and the networks that CIDR notation names.

Source: ``k8s.io/apiserver/pkg/cel/library/ip.go`` and ``cidr.go``, and the texts of Go's ``net/netip``.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.address_texts import AddressError, parse_address
from pratique.cel.libraries.strings import require
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.cel.frames import Frame
    from pratique.cel.values import Value

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_LINK_LOCAL_MULTICAST = ipaddress.IPv4Network("224.0.0.0/24")


@dataclasses.dataclass(frozen=True, slots=True)
class AddressValue:
    """An IP address as CEL value."""

    cel_type: ClassVar[str] = "net.IP"
    address: _Address

    @property
    def cel_size(self) -> int:
        """Its bytes."""
        return len(self.address.packed)

    @property
    def cel_string(self) -> str:
        """Its canonical text."""
        return str(self.address)


@dataclasses.dataclass(frozen=True, slots=True)
class NetworkValue:
    """An address with the length of a prefix, as CEL value; the bits behind the prefix may be set."""

    cel_type: ClassVar[str] = "net.CIDR"
    address: _Address
    bits: int

    @property
    def cel_size(self) -> int:
        """The bytes that the prefix reaches into."""
        return -(-self.bits // 8)

    @property
    def cel_string(self) -> str:
        """Its text."""
        return f"{self.address}/{self.bits}"

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """All addresses that begin with the prefix."""
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


def _ip(_: Frame, value: Value) -> AddressValue:
    if type(value) is NetworkValue:
        return AddressValue(value.address)
    require((str,), value)
    return _parse_ip(value)


def _cidr(_: Frame, text: Value) -> NetworkValue:
    require((str,), text)
    return _parse_cidr(text)


def _is(parse: Callable[[str], object]) -> Callable[[Frame, Value], bool]:
    def run(_: Frame, text: Value) -> bool:
        require((str,), text)
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return run


def _is_canonical(_: Frame, text: Value) -> bool:
    require((str,), text)
    return bool(_parse_ip(text).cel_string == text)


def _of_address(read: Callable[[_Address], Value]) -> Callable[[Frame, Value], Value]:
    def run(_: Frame, value: Value) -> Value:
        if type(value) is not AddressValue:
            raise NoSuchOverloadError
        return read(value.address)

    return run


def _of_network(read: Callable[[NetworkValue], Value]) -> Callable[[Frame, Value], Value]:
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
    other = _parse_ip(address) if type(address) is str else address
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
        "cidr": _cidr,
        "isIP": _is(_parse_ip),
        "isCIDR": _is(_parse_cidr),
        "ip.isCanonical": _is_canonical,
        "family": _of_address(lambda address: address.version),
        "isUnspecified": _of_address(lambda address: address.is_unspecified),
        "isLoopback": _of_address(lambda address: address.is_loopback),
        "isLinkLocalMulticast": _of_address(_is_link_local_multicast),
        "isLinkLocalUnicast": _of_address(lambda address: address.is_link_local),
        "isGlobalUnicast": _of_address(_is_global_unicast),
        "containsIP": _contains_ip,
        "containsCIDR": _contains_cidr,
        "prefixLength": _of_network(lambda network: network.bits),
        "masked": _of_network(lambda network: NetworkValue(network.network.network_address, network.bits)),
    },
)
