"""TLS contexts for clients: they trust the certificates that Go trusts, and fail with its messages.

Source: ``crypto/x509/verify.go`` and ``crypto/tls`` of Go.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import re
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pratique.apimachinery.errors import CallError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.pem import temporary_pem_file

if TYPE_CHECKING:
    from pratique.https.credentials import ClientCertificate


_MAX_LISTED_NAMES = 100
"""The number of names from which Go counts them instead of listing them."""

_INVALID_PURPOSE = 26
"""OpenSSL's ``X509_V_ERR_INVALID_PURPOSE``."""


def refusal_text(peer: Mapping[str, Any], host: str, verify_code: int, now: dt.datetime) -> str:
    """Word the refusal of a server's certificate as Go does.

    ``peer`` is the certificate as in ``SSLSocket.getpeercert``, empty if unknown; ``verify_code`` is OpenSSL's.
    """
    reason = (_validity_error(peer, now) or _host_name_error(peer, host)) if peer else ""
    if reason:
        return f"x509: {reason}"
    if verify_code == _INVALID_PURPOSE:
        return "x509: certificate specifies an incompatible key usage"
    return "x509: certificate signed by unknown authority"


def _validity_error(peer: Mapping[str, Any], now: dt.datetime) -> str:
    not_before, not_after = (_parse_time(peer[field]) for field in ("notBefore", "notAfter"))
    if now < not_before:
        relation = f"before {_rfc3339(not_before)}"
    elif now > not_after:
        relation = f"after {_rfc3339(not_after)}"
    else:
        return ""
    return f"certificate has expired or is not yet valid: current time {_rfc3339(now)} is {relation}"


def _parse_time(text: str) -> dt.datetime:
    return dt.datetime.fromtimestamp(ssl.cert_time_to_seconds(text), dt.UTC)


def _rfc3339(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _host_name_error(peer: Mapping[str, Any], host: str) -> str:
    """Why a certificate is not valid for ``host``; empty if it is: ``HostnameError.Error``."""
    alternatives = peer.get("subjectAltName", ())
    if not alternatives and _matches(_common_name(peer), host):
        return "certificate relies on legacy Common Name field, use SANs instead"
    address = _address(host)
    if address is not None:
        addresses = [_address(text) for kind, text in alternatives if kind == "IP Address"]
        return (
            "" if address in addresses else _address_mismatch([str(address) for address in addresses], host)
        )
    names = [name for kind, name in alternatives if kind == "DNS"]
    return "" if any(_matches(name, host) for name in names) else _name_mismatch(names, host)


def _address_mismatch(addresses: list[str], host: str) -> str:
    if not addresses:
        return f"cannot validate certificate for {host} because it doesn't contain any IP SANs"
    if len(addresses) >= _MAX_LISTED_NAMES:
        return f"certificate is valid for {len(addresses)} IP SANs, but none matched {host}"
    return f"certificate is valid for {', '.join(addresses)}, not {host}"


def _name_mismatch(names: list[str], host: str) -> str:
    if not names:
        return f"certificate is not valid for any names, but wanted to match {host}"
    if len(names) >= _MAX_LISTED_NAMES:
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
    """Compare label by label; a leading ``*`` matches one label."""
    wanted, given = host.lower().rstrip(".").split("."), name.lower().split(".")
    return len(wanted) == len(given) and given[0] in {"*", wanted[0]} and given[1:] == wanted[1:]


_CERTIFICATE = pattern(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)
_RECORD_HEADER = 5
"""The bytes of a TLS record's header."""

_KEY_PAIR_ERRORS = {"KEY_VALUES_MISMATCH": "tls: private key does not match public key"}


class CertificateRefusedError(ssl.SSLCertVerificationError):
    """The peer's certificate is refused. The message is Go's."""

    def __str__(self) -> str:
        return f"tls: failed to verify certificate: {self.args[-1]}"


class NotTlsError(ssl.SSLError):
    """The peer does not speak TLS. The message is Go's."""

    def __str__(self) -> str:
        return str(self.args[-1])


def open_client_context(
    ca_bundle: bytes, certificate: ClientCertificate | None, *, verified: bool = True
) -> ssl.SSLContext:
    """Make a context for a CA bundle (PEM; empty means the system's) and a client certificate.

    Every certificate of the bundle is trusted directly, even an intermediate's or the server's own. With ``verified``
    false, any server certificate is accepted.

    Raises:
        CallError: the bundle, the certificate or its key is invalid.
    """
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.sslobject_class = _Connection
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if ca_bundle:
        _trust(context, ca_bundle)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if certificate is not None:
        load_client_certificate(context, certificate)
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Present a client certificate on new connections.

    Raises:
        CallError: the certificate or its key cannot be read or is invalid.
    """
    try:
        with (
            temporary_pem_file(certificate.certificate.read()) as certificate_file,
            temporary_pem_file(certificate.key.read()) as key_file,
        ):
            # The empty password keeps OpenSSL from prompting for one on the terminal.
            context.load_cert_chain(certificate_file, key_file, password="")
    except ssl.SSLError as error:
        reason = _KEY_PAIR_ERRORS.get(error.reason, "tls: failed to find any PEM data in certificate input")
        raise CallError(f"could not get REST client: {reason}", code=500) from None


def _trust(context: ssl.SSLContext, ca_bundle: bytes) -> None:
    certificates = _CERTIFICATE.findall(ca_bundle.decode("ascii", "replace"))
    # Like Go, skip malformed certificates.
    if not sum(_trust_certificate(context, certificate) for certificate in certificates):
        reason = "failed to parse certificate" if certificates else "unable to parse bytes as PEM block"
        raise CallError(f"could not get REST client: unable to load root certificates: {reason}", code=500)


def _trust_certificate(context: ssl.SSLContext, certificate: str) -> bool:
    try:
        context.load_verify_locations(cadata=certificate)
    except ssl.SSLError:
        return False
    return True


class _Context(ssl.SSLContext):
    """Lets its connections inspect the first bytes from the peer."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002  # the base's signature
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        connection = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if isinstance(connection, _Connection):
            connection.incoming = incoming
        return connection


class _Connection(ssl.SSLObject):
    """A TLS connection whose handshake errors have Go's messages."""

    incoming: ssl.MemoryBIO
    first_bytes = b""

    def do_handshake(self) -> None:
        if not self.first_bytes:
            received = self.incoming.read()
            self.incoming.write(received)
            self.first_bytes = received[:_RECORD_HEADER]
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            now = dt.datetime.now(dt.UTC)
            text = refusal_text(self._peer_certificate(), str(self.server_hostname), error.verify_code, now)
            raise CertificateRefusedError(error.errno, text) from None
        except ssl.SSLError as error:
            if error.reason != "WRONG_VERSION_NUMBER":
                raise
            raise NotTlsError(error.errno, _not_tls_text(self.first_bytes)) from None

    def unwrap(self) -> None:
        """Close without waiting for the peer's close notification, as Go does: a hanging peer would block it."""
        with contextlib.suppress(ssl.SSLWantReadError):
            super().unwrap()

    def _peer_certificate(self) -> Mapping[str, Any]:
        """The peer's unverified certificate, decoded; empty if Python does not provide it.

        Python's own method exists since 3.13 and gives bytes; the underlying object decodes the certificate.
        """
        chain: list[Any] = getattr(getattr(self, "_sslobj", None), "get_unverified_chain", list)()
        return chain[0].get_info() if chain else {}


def _not_tls_text(first_bytes: bytes) -> str:
    if first_bytes == b"HTTP/":
        return "http: server gave HTTP response to HTTPS client"
    return "tls: first record does not look like a TLS handshake"
