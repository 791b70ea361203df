"""Why a server's certificate is refused, in the words of Go's ``crypto/x509`` (``verify.go``).

OpenSSL decides; what the certificate says serves only to word it. Go looks at time, then name, then issuer.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_NAMES = 100
"""Names that Go lists before it only counts them."""

_INVALID_PURPOSE = 26
"""OpenSSL's ``X509_V_ERR_INVALID_PURPOSE``."""


def refusal(peer: Mapping[str, Any], host: str, verify_code: int, now: dt.datetime) -> str:
    """Word the refusal of ``peer``, a certificate as ``SSLSocket.getpeercert`` shows it; empty where unknown.

    ``verify_code`` is OpenSSL's.
    """
    reason = (_untimely(peer, now) or _misnamed(peer, host)) if peer else ""
    if reason:
        return f"x509: {reason}"
    if verify_code == _INVALID_PURPOSE:
        return "x509: certificate specifies an incompatible key usage"
    return "x509: certificate signed by unknown authority"


def _untimely(peer: Mapping[str, Any], now: dt.datetime) -> str:
    not_before, not_after = (_moment(peer[field]) for field in ("notBefore", "notAfter"))
    if now < not_before:
        relation = f"before {_rfc3339(not_before)}"
    elif now > not_after:
        relation = f"after {_rfc3339(not_after)}"
    else:
        return ""
    return f"certificate has expired or is not yet valid: current time {_rfc3339(now)} is {relation}"


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromtimestamp(ssl.cert_time_to_seconds(text), dt.UTC)


def _rfc3339(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _misnamed(peer: Mapping[str, Any], host: str) -> str:
    """Say that a certificate is not valid for ``host``, empty where it is: ``HostnameError.Error``."""
    alternatives = peer.get("subjectAltName", ())
    if not alternatives and _matches(_common_name(peer), host):
        return "certificate relies on legacy Common Name field, use SANs instead"
    address = _address(host)
    if address is not None:
        addresses = [_address(text) for kind, text in alternatives if kind == "IP Address"]
        return "" if address in addresses else _not_for_address([str(each) for each in addresses], host)
    names = [name for kind, name in alternatives if kind == "DNS"]
    return "" if any(_matches(name, host) for name in names) else _not_for_name(names, host)


def _not_for_address(addresses: list[str], host: str) -> str:
    if not addresses:
        return f"cannot validate certificate for {host} because it doesn't contain any IP SANs"
    if len(addresses) >= _MOST_NAMES:
        return f"certificate is valid for {len(addresses)} IP SANs, but none matched {host}"
    return f"certificate is valid for {', '.join(addresses)}, not {host}"


def _not_for_name(names: list[str], host: str) -> str:
    if not names:
        return f"certificate is not valid for any names, but wanted to match {host}"
    if len(names) >= _MOST_NAMES:
        return f"certificate is valid for {len(names)} names, but none matched {host}"
    return f"certificate is valid for {', '.join(names)}, not {host}"


def _common_name(peer: Mapping[str, Any]) -> str:
    pairs = [pair for part in peer.get("subject", ()) for pair in part]
    return next((value for key, value in pairs if key == "commonName"), "")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None


def _matches(name: str, host: str) -> bool:
    """Compare label by label; a leading ``*`` stands for one label."""
    wanted, given = host.lower().rstrip(".").split("."), name.lower().split(".")
    return len(wanted) == len(given) and given[0] in {"*", wanted[0]} and given[1:] == wanted[1:]
