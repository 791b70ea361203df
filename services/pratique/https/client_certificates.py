"""Clients: who calls, by the certificate that it has shown.

As ``k8s.io/apiserver/pkg/authentication/request/x509`` does, the certificate is judged with every request and not with
the handshake alone, so that an authority that is trusted no more lets nobody in, on open connections neither.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cryptography.x509 import Certificate

    from pratique.https.tls import CertificateAuthorities, ReloadedCertificate

_MOST_LINKS = 8
"""Certificates between a client's and an authority that are looked at; real chains have one or two."""


@dataclasses.dataclass(frozen=True, slots=True)
class TlsClient:
    """Who a certificate says that its holder is."""

    names: tuple[str, ...]
    """Common name, DNS names and URIs, in that order."""
    is_allowed: bool
    """One of its names is one that may call."""

    @property
    def name(self) -> str:
        """What to call it; empty where the certificate has no name."""
        return self.names[0] if self.names else ""


class ClientCertificateAuthenticator:
    """Knows clients by certificates of the authorities, as they are now."""

    def __init__(self, authorities: ReloadedCertificate[CertificateAuthorities], allowed_names: Iterable[str]) -> None:
        """Allow those with one of the names; with no names, everybody whom an authority has signed."""
        self.authorities = authorities
        self._allowed = frozenset(allowed_names)
        # By certificate: front doors and API servers show the same one on all connections.
        self._read = functools.lru_cache(maxsize=256)(self._judge)

    def client(self, chain: tuple[bytes, ...]) -> TlsClient | None:
        """Say who has shown ``chain``, own certificate first, each in DER or PEM; None where that is not believed."""
        client, begins_at, ends_at = self._read(self.authorities.value, chain)
        return client if begins_at <= time.time() <= ends_at else None

    def _judge(
        self, authorities: CertificateAuthorities, chain: tuple[bytes, ...]
    ) -> tuple[TlsClient | None, float, float]:
        certificates = [one for der_or_pem in chain for one in _certificates(der_or_pem)]
        if not certificates or not chains_to_authority(certificates, authorities.certificates):
            return None, 0.0, 0.0
        own = certificates[0]
        names = certificate_names(own)
        client = TlsClient(names, not self._allowed or not self._allowed.isdisjoint(names))
        return client, own.not_valid_before_utc.timestamp(), own.not_valid_after_utc.timestamp()


def certificate_names(certificate: Certificate) -> tuple[str, ...]:
    """Give the common name, the DNS names and the URIs of a certificate, each once."""
    from cryptography import x509  # noqa: PLC0415  # a tenth of a second, for nothing where there is no TLS

    common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    names = [str(attribute.value) for attribute in common]
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return tuple(names)
    names += extension.get_values_for_type(x509.DNSName)
    names += extension.get_values_for_type(x509.UniformResourceIdentifier)
    return tuple(dict.fromkeys(names))


def chains_to_authority(chain: Sequence[Certificate], authorities: Sequence[Certificate]) -> bool:
    """Tell whether the first of ``chain``, by way of the others, was signed by an authority.

    All else that there is to check has been, by the handshake; what can have changed since are the authorities.
    """
    current, others = chain[0], chain[1:]
    for _ in range(_MOST_LINKS):
        if current in authorities or any(_signed(current, authority) for authority in authorities):
            return True
        issuer = next((one for one in others if one != current and _signed(current, one)), None)
        if issuer is None:
            return False
        current = issuer
    return False


def _signed(certificate: Certificate, issuer: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # as above

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _certificates(der_or_pem: bytes) -> list[Certificate]:
    from cryptography import x509  # noqa: PLC0415  # as above

    if der_or_pem.startswith(b"-----BEGIN"):
        return x509.load_pem_x509_certificates(der_or_pem)
    return [x509.load_der_x509_certificate(der_or_pem)]
