"""IP addresses, CIDR values and names of ports, as Kubernetes' own tables have them."""

from __future__ import annotations

import pytest

from pratique.apimachinery.field_errors import ROOT
from pratique.registry.validation.addresses import (
    check_port_name,
    cidr_warnings,
    ip_warnings,
    validate_endpoint_ip,
    validate_ip,
    validate_legacy_cidr,
    validate_legacy_ip,
)

PATH = ROOT / "ip"
ADDRESSES = {
    "1.2.3.4": "",
    "2001:db8::1": "",
    "2001:0db8::0001": "",
    "1.2.3": "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    "10.0.0.1 ": "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    "fe80::1%eth0": "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    "010.2.3.4": "must not have leading 0s",
    "1.2.3.00": "must not have leading 0s",
    "::ffff:1.2.3.4": "must not be an IPv4-mapped IPv6 address",
}
RANGES = {
    "10.0.0.0/8": "",
    "2001:db8::/64": "",
    "0.0.0.0/0": "",
    "": "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    "10.0.0.0": "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    "10.0.0.0/33": "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    "10.0.0.0/08": "must not have leading 0s in IP or prefix length",
    "010.0.0.0/8": "must not have leading 0s in IP or prefix length",
    "10.0.0.1/8": "must not have bits set beyond the prefix length",
}


@pytest.mark.parametrize(("address", "fault"), ADDRESSES.items())
def test_an_address_is_validated_strictly(address: str, fault: str) -> None:
    assert [error.detail for error in validate_legacy_ip(address, PATH)] == ([fault] if fault else [])


@pytest.mark.parametrize(("text", "fault"), RANGES.items())
def test_a_range_is_validated_strictly(text: str, fault: str) -> None:
    assert [error.detail for error in validate_legacy_cidr(text, PATH)] == ([fault] if fault else [])


def test_what_a_stored_object_has_is_accepted() -> None:
    assert validate_legacy_ip("010.2.3.4", PATH, {"010.2.3.4"}) == []
    assert validate_legacy_cidr("10.0.0.1/8", PATH, {"10.0.0.1/8"}) == []


def test_a_new_field_takes_the_canonical_form_alone() -> None:
    (error,) = validate_ip("2001:0DB8::1", PATH)
    assert error.detail == 'must be in canonical form ("2001:db8::1")'


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("10.1.2.3", ""),
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("169.254.169.254", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("224.0.0.1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ],
)
def test_special_addresses_are_no_endpoints(address: str, fault: str) -> None:
    assert [error.detail for error in validate_endpoint_ip(address, PATH)] == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("address", "warnings"),
    [
        ("1.2.3.4", []),
        ("01.2.3.4", ['ip: non-standard IP address "01.2.3.4" is invalid: use "1.2.3.4"']),
        (
            "2001:db8:0::1",
            ['ip: IPv6 address "2001:db8:0::1" should be in RFC 5952 canonical format ("2001:db8::1")'],
        ),
    ],
)
def test_odd_addresses_are_warned_of(address: str, warnings: list[str]) -> None:
    assert ip_warnings(address, PATH) == warnings


def test_a_range_with_bits_beyond_its_prefix_is_ambiguous() -> None:
    (warning,) = cidr_warnings("10.1.2.3/8", PATH)
    expected = 'ip: CIDR value "10.1.2.3/8" is ambiguous in this context'
    assert warning == f'{expected} (should be "10.0.0.0/8" or "10.1.2.3/32"?)'


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("http", 0),
        ("a-b-1", 0),
        ("1234", 1),
        ("HTTP", 2),
        ("a--b", 1),
        ("-a", 1),
        ("abcdefghijklmnop", 1),
    ],
)
def test_names_of_ports_are_short_and_have_a_letter(name: str, faults: int) -> None:
    assert len(check_port_name(name)) == faults
