"""IP addresses, CIDR values, and numbers and names of ports.

Sources: ``k8s.io/apimachinery/pkg/util/validation/{ip,validation}.go`` and ``ValidateEndpointIP`` of
``pkg/apis/core/validation/validation.go``. Stricter rules do not hold for what a stored object has already.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LEADING_ZEROS = pattern(r"(?<![\d.])0+(?=\d+(?:\.\d+){3})|(?<=\.)0+(?=\d)")


def _without_leading_zeros(text: str) -> str:
    return _LEADING_ZEROS.sub("", text) if "." in text else text


@functools.lru_cache(256)
def parse_ip(text: str) -> Address | None:
    """Read an address as ``ParseIPSloppy`` does: zeros may lead in the numbers of IPv4; None if it is none."""
    if "%" in text or "/" in text:
        return None
    try:
        return ipaddress.ip_address(_without_leading_zeros(text))
    except ValueError:
        return None


def is_ipv6(text: str) -> bool:
    """Tell whether a text is an IPv6 address: ``IsIPv6String``. One that stands for IPv4 is not."""
    address = parse_ip(text)
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None


@functools.lru_cache(256)
def parse_cidr(text: str) -> tuple[Address, Network] | None:
    """Read an address with the length of its prefix: ``ParseCIDRSloppy``; None if it is none."""
    address_text, slash, length = text.partition("/")
    address = parse_ip(address_text)
    if address is None or not slash or not (length.isascii() and length.isdigit()):
        return None
    try:
        return address, ipaddress.ip_network((address, int(length)), strict=False)
    except ValueError:
        return None


def canonical_ip(address: Address) -> str:
    """An address as Go writes a ``net.IP``: one that stands for IPv4 as IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def validate_legacy_ip(
    value: str, path: FieldPath, accepted: AbstractSet[str] = frozenset()
) -> list[FieldError]:
    """Validate an address in a field that once took more: ``IsValidIPForLegacyField``."""
    if value in accepted:
        return []
    address = parse_ip(value)
    if address is None:
        return [invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    if _without_leading_zeros(value) != value:
        return [invalid(path, value, "must not have leading 0s")]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return [invalid(path, value, "must not be an IPv4-mapped IPv6 address")]
    return []


def validate_ip(value: str, path: FieldPath) -> list[FieldError]:
    """Validate an address in its canonical form: ``IsValidIP``."""
    errors = validate_legacy_ip(value, path)
    address = parse_ip(value)
    if errors or address is None or canonical_ip(address) == value:
        return errors
    return [invalid(path, value, f"must be in canonical form ({go_quoted(canonical_ip(address))})")]


def validate_legacy_cidr(
    value: str, path: FieldPath, accepted: AbstractSet[str] = frozenset()
) -> list[FieldError]:
    """Validate a CIDR value in a field that once took more: ``IsValidCIDRForLegacyField``."""
    if value in accepted:
        return []
    parsed = parse_cidr(value)
    if parsed is None:
        return [invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
    address, network = parsed
    length = value.partition("/")[2]
    if _without_leading_zeros(value) != value or (length[0] == "0" and length != "0"):
        return [invalid(path, value, "must not have leading 0s in IP or prefix length")]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return [invalid(path, value, "must not have an IPv4-mapped IPv6 address")]
    if network.network_address != address:
        return [invalid(path, value, "must not have bits set beyond the prefix length")]
    return []


def validate_cidr(value: str, path: FieldPath) -> list[FieldError]:
    """Validate a CIDR value in its canonical form: ``IsValidCIDR``."""
    errors, parsed = validate_legacy_cidr(value, path), parse_cidr(value)
    if errors or parsed is None or str(parsed[1]) == value:
        return errors
    return [invalid(path, value, f"must be in canonical form ({go_quoted(str(parsed[1]))})")]


_BITS_OF_IPV4, _BITS_BEFORE_IPV4 = 32, 96
"""Of an IPv6 address that stands for one of IPv4."""


def validate_interface_address(value: str, path: FieldPath) -> list[FieldError]:
    """Validate an address with the prefix of its network: ``IsValidInterfaceAddress``."""
    parsed = parse_cidr(value)
    if parsed is None:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [invalid(path, value, detail)]
    address, network = parsed
    shown, length = canonical_ip(address), network.prefixlen
    if "." in shown and length > _BITS_OF_IPV4:  # ::ffff:192.0.2.1/120
        length -= _BITS_BEFORE_IPV4
    canonical = f"{shown}/{length}"
    return [] if value == canonical else [invalid(path, value, f'must be in canonical form ("{canonical}")')]


def ip_warnings(value: str, path: FieldPath) -> list[str]:
    """What is odd in an address: ``GetWarningsForIP``."""
    address = parse_ip(value)
    if address is None:
        return []
    canonical = go_quoted(canonical_ip(address))
    if _without_leading_zeros(value) != value or go_quoted(str(address)) != canonical:
        return [f"{path}: non-standard IP address {go_quoted(value)} is invalid: use {canonical}"]
    if address.version == 6 and str(address) != value:
        form = f"should be in RFC 5952 canonical format ({canonical})"
        return [f"{path}: IPv6 address {go_quoted(value)} {form}"]
    return []


def cidr_warnings(value: str, path: FieldPath) -> list[str]:
    """What is odd in a CIDR value: ``GetWarningsForCIDR``."""
    parsed = parse_cidr(value)
    if parsed is None:
        return []
    address, network = parsed
    warnings = []
    if address != network.network_address:
        single = f"{canonical_ip(address)}/{address.max_prefixlen}"
        which = f"(should be {go_quoted(str(network))} or {go_quoted(single)}?)"
        warnings.append(f"{path}: CIDR value {go_quoted(value)} is ambiguous in this context {which}")
    if _without_leading_zeros(value) != value:
        use = go_quoted(str(network))
        warnings.append(f"{path}: non-standard CIDR value {go_quoted(value)} is invalid: use {use}")
    canonical = f"{address}/{network.prefixlen}"
    if not warnings and address.version == 6 and canonical != value:
        form = f"should be in RFC 5952 canonical format ({go_quoted(canonical)})"
        warnings.append(f"{path}: IPv6 CIDR value {go_quoted(value)} {form}")
    return warnings


def validate_endpoint_ip(value: str, path: FieldPath) -> list[FieldError]:
    """Validate an address that traffic may be sent to: ``ValidateEndpointIP``."""
    address = parse_ip(value)
    if address is None:
        return [invalid(path, value, "must be a valid IP address")]
    forbidden_ranges = (
        (address.is_unspecified, f"may not be unspecified ({value})"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            _is_local_multicast(address),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    )
    return [invalid(path, value, message) for is_in, message in forbidden_ranges if is_in]


def _is_local_multicast(address: Address) -> bool:
    packed = address.packed
    return packed[:3] == b"\xe0\x00\x00" if len(packed) == 4 else packed[0] == 0xFF and packed[1] & 0xF == 2


_MAX_PORT, _MAX_PORT_NAME = 65535, 15


_PORT_NAME, _LETTER = pattern("[-a-z0-9]+"), pattern("[a-z]")


def check_port_name(name: str) -> list[str]:
    """What is wrong with the name of a port: ``IsValidPortName``."""
    if name.isascii() and name.isalpha() and name.islower() and len(name) <= _MAX_PORT_NAME:
        return []  # http, as most are
    messages = []
    if len(name.encode()) > _MAX_PORT_NAME:
        messages.append(f"must be no more than {_MAX_PORT_NAME} characters")
    if not _PORT_NAME.fullmatch(name):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(name):
        messages.append("must contain at least one letter (a-z)")
    if "--" in name:
        messages.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        messages.append("must not begin or end with a hyphen")
    return messages


def validate_port(number: JSON, path: FieldPath) -> list[FieldError]:
    """Validate the number of a port: ``IsValidPortNum``. No number is 0."""
    value = number or 0
    if 1 <= value <= _MAX_PORT:
        return []
    return [invalid(path, value, message) for message in names.check_port_number(value)]


def validate_port_or_name(port: JSON, path: FieldPath) -> list[FieldError]:
    """Validate the number or the name of a port: ``ValidatePortNumOrName``."""
    if isinstance(port, str):
        return [invalid(path, port, message) for message in check_port_name(port)]
    return validate_port(port, path)
