"""IP addresses and CIDR networks, with the errors of Go's ``net/netip``."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.addresses import AddressError, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unable to parse IP"),
        ("localhost", "unable to parse IP"),
        ("1", "unable to parse IP"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2..4", 'IPv4 field must have at least one digit (at ".4")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        ("1.2.3.x", 'unexpected character (at "x")'),
        ("01.2.3.4", "IPv4 field has octet with leading zero"),
        ("::1%", "zone must be a non-empty string"),
        ("%eth0", "missing IPv6 address"),
        ("1:2:3", "address string too short"),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("::g", 'each colon-separated field must have at least one digit (at "g")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        ("::1.2.3", "IPv4 address too short"),
        (
            "1:2:3:4:5:1.2.3.4",
            'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
        ),
        ("::1-2", 'unexpected character, want colon (at "-2")'),
    ],
)
def test_a_malformed_address_is_refused_in_gos_words(text: str, reason: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert str(caught.value) == f'ParseAddr("{text}"): {reason}'


@given(st.ip_addresses())
def test_every_address_is_parsed_in_its_canonical_and_exploded_form(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert parse_address(str(address)) == (address, "")
    assert parse_address(address.exploded) == (address, "")


@given(st.text("0123456789abcdefg.:%/ ", max_size=40))
def test_an_accepted_text_is_an_address_to_python_as_well(text: str) -> None:
    try:
        address, zone = parse_address(text)
    except AddressError:
        return
    assert ipaddress.ip_address(text.partition("%")[0]) == address
    assert bool(zone) == ("%" in text)


@pytest.mark.parametrize(
    "expression",
    [
        "ip('10.0.0.1').family() == 4 && ip('::1').family() == 6",
        "ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified() && !ip('::1').isUnspecified()",
        "ip('127.0.0.1').isLoopback() && ip('127.9.9.9').isLoopback() && ip('::1').isLoopback()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
        "!ip('224.0.1.1').isLinkLocalMulticast() && !ip('ff05::1').isLinkLocalMulticast()",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()",
        "ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1') && !ip.isCanonical('2001:db8:0::1')",
        "isIP('10.0.0.1') && !isIP('10.0.0') && isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0')",
        "ip('2001:DB8::1') == ip('2001:db8::1') && string(ip('2001:DB8::1')) == '2001:db8::1'",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/8')) && !cidr('10.0.0.0/8').containsIP('::1')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8') != cidr('10.0.0.0/8')",
        "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('10.1.2.3/8').prefixLength() == 8",
        "string(cidr('2001:db8::/32')) == '2001:db8::/32' && type(cidr('::/0')) == net.CIDR",
    ],
)
def test_an_address_function_gives_kubernetes_result(expression: str, evaluate: Callable[..., Any]) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.0.0.0", "no '/'"),
        ("10.0.0/8", 'ParseAddr("10.0.0"): IPv4 address too short'),
        ("fe80::%eth0/64", "IPv6 zones cannot be present in a prefix"),
        ("10.0.0.0/08", 'bad bits after slash: "08"'),
        ("10.0.0.0/", 'bad bits after slash: ""'),
        ("10.0.0.0/33", "prefix length out of range"),
        ("::/129", "prefix length out of range"),
    ],
)
def test_a_malformed_network_is_refused_in_gos_words(
    text: str, reason: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate("cidr(object)", object=text)
    assert str(caught.value).endswith(f'netip.ParsePrefix("{text}"): {reason}')


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("ip('::ffff:10.0.0.1')", 'IPv4-mapped IPv6 address "::ffff:10.0.0.1" is not allowed'),
        ("cidr('::ffff:10.0.0.0/104')", 'IPv4-mapped IPv6 address "::ffff:10.0.0.0/104" is not allowed'),
        ("ip('fe80::1%eth0')", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("cidr('10.0.0.0/8').containsIP('x')", "no such overload"),
        ("cidr('10.0.0.0/8').containsCIDR('x')", "netip.ParsePrefix(\"x\"): no '/'"),
        ("dyn(1).family()", "no such overload: family(int)"),
        ("dyn('10.0.0.0/8').masked()", "no such overload: masked(string)"),
    ],
)
def test_an_address_that_kubernetes_does_not_allow_is_an_error(
    expression: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression)
    assert error in str(caught.value)
