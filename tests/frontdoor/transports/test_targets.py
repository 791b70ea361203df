"""Addresses as people write them, as gRPC wants them."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique_frontdoor.transports.channels import grpc_target


@pytest.mark.parametrize(
    ("addresses", "target"),
    [
        (["validator:9002"], "dns:///validator:9002"),
        (["127.0.0.1:9002"], "dns:///127.0.0.1:9002"),
        (["validator"], "dns:///validator"),
        (["dns:9002"], "dns:///dns:9002"),
        (["[::1]:9002"], "dns:///[::1]:9002"),
        (["dns:///validator:9002"], "dns:///validator:9002"),
        (["unix:/run/pratique.sock"], "unix:/run/pratique.sock"),
        (["unix-abstract:pratique"], "unix-abstract:pratique"),
        (["xds:///validators"], "xds:///validators"),
        (["ipv4:127.0.0.1:1,127.0.0.1:2"], "ipv4:127.0.0.1:1,127.0.0.1:2"),
        (["ipv6:[::1]:1,[::1]:2"], "ipv6:[::1]:1,[::1]:2"),
        (["127.0.0.1:1", "127.0.0.1:2"], "ipv4:127.0.0.1:1,127.0.0.1:2"),
        (["localhost:1", "127.0.0.1:2"], "ipv4:127.0.0.1:1,127.0.0.1:2"),
        (["[::1]:1", "[::1]:2"], "ipv6:[::1]:1,[::1]:2"),
    ],
)
def test_addresses_become_one_target(addresses: list[str], target: str) -> None:
    assert grpc_target(addresses) == target


@pytest.mark.parametrize(
    "addresses",
    [["a:1", "b:1"], ["127.0.0.1:1", "[::1]:1"], ["127.0.0.1", "127.0.0.2"], ["127.0.0.1:x", "127.0.0.1:1"]],
)
def test_several_names_are_refused_as_one_target(addresses: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="several addresses are IP addresses with ports"):
        grpc_target(addresses)


@pytest.mark.parametrize(
    "address", ["http://validator:9002", "validator:grpc", "validator:", "::1", "fe80::1:9002", "a:1 b:2", ""]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="not the address of a service: give HOST:PORT, or a target"):
        grpc_target([address])
