"""Targets: addresses as people write them, as gRPC wants them."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from pratique.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEFAULT_PORT = "443"
"""gRPC's own, of names without one."""
_SCHEME = re.compile("[a-z][a-z0-9+.-]*")
"""RFC 3986, in lower case as gRPC's are: ``ipv4`` and ``unix-abstract`` among them."""


def grpc_target(addresses: Sequence[str]) -> str:
    """Make one gRPC target of addresses.

    One may be a name (``validator:9002``), which stands for every address that it resolves to, or a target in gRPC's
    own syntax (``dns:///…``, ``unix:…``, ``xds:///…``). Several are IP addresses with ports.

    Raises:
        ConfigurationError: there are several, and one of them is no IP address with a port.
    """
    if len(addresses) == 1:
        address = addresses[0]
        return address if _has_scheme(address) else f"dns:///{address}"
    plain = [address.replace("localhost:", "127.0.0.1:") for address in addresses]
    versions = {_ip_version(address) for address in plain}
    if versions in ({4}, {6}):
        return f"ipv{versions.pop()}:{','.join(plain)}"
    raise ConfigurationError(
        f"{', '.join(addresses)}: several addresses are IP addresses with ports, all IPv4 or all IPv6; "
        "or give one name that resolves to all of them"
    )


def replica_target(name_target: str, address: str) -> str:
    """The target of one of the addresses that the name in a target like ``dns:///validator:9002`` has."""
    _, colon, port = name_target.rpartition("/")[2].rpartition(":")
    port = port if colon and port.isdigit() else _DEFAULT_PORT
    return f"ipv6:[{address}]:{port}" if ":" in address else f"ipv4:{address}:{port}"


def fixed_targets(target: str) -> tuple[str, ...]:
    """A target for each address that a target holds itself; none where only gRPC knows what it stands for."""
    scheme, _, rest = target.partition(":")
    if scheme in ("ipv4", "ipv6"):
        return tuple(f"{scheme}:{address}" for address in rest.split(","))
    return (target,) if scheme in ("dns", "unix") else ()


def _has_scheme(address: str) -> bool:
    scheme, colon, rest = address.partition(":")
    return bool(colon) and _SCHEME.fullmatch(scheme) is not None and not rest.isdigit()


def _ip_version(address: str) -> int | None:
    host, _, port = address.rpartition(":")
    try:
        parsed = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    return parsed.version if port.isdigit() else None
