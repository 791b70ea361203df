"""Certificate chains: what PEM holds, and whether a chain of it is one that Go's TLS would trust.

Source: Go's ``crypto/x509``: ``CertPool.AppendCertsFromPEM``, ``verify.go`` ``isValid`` and ``VerifyHostname``.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cryptography.x509 import Certificate

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """The certificates of a text, in their order; those that cannot be read are left out, as Go leaves them out."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - most configurations have none

    found: list[Certificate] = []
    for block in _PEM.findall(pem):
        try:
            found.append(load_pem_x509_certificate(block))
        except ValueError:
            continue
    return tuple(found)


def is_authority(certificate: Certificate) -> bool:
    """Whether a certificate may vouch for others. Those of version 1 do not say, and may."""
    from cryptography.x509 import BasicConstraints, ExtensionNotFound, Version  # noqa: PLC0415

    try:
        return certificate.extensions.get_extension_for_class(BasicConstraints).value.ca
    except ExtensionNotFound:
        return certificate.version is Version.v1
    except ValueError:
        return False


def bears_name(certificate: Certificate, name: str) -> bool:
    """Whether a certificate is for a DNS name. The common name, which Go does not look at, does not count."""
    from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName  # noqa: PLC0415

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except (ExtensionNotFound, ValueError):
        return False
    first, _, rest = name.lower().partition(".")
    borne = {each.lower().rstrip(".") for each in names.get_values_for_type(DNSName)}
    return f"{first}.{rest}" in borne or f"*.{rest}" in borne


def is_signed_by(chain: Sequence[Certificate], roots: Iterable[Certificate]) -> bool:
    """Whether the first certificate of a chain leads to one of the roots, by way of the others or at once."""
    roots, reached = tuple(roots), list(chain[:1])
    others = set(chain[1:])
    while reached:
        one = reached.pop()
        if one in roots or any(is_authority(root) and _is_issued_by(one, root) for root in roots):
            return True
        issuers = [other for other in others if is_authority(other) and _is_issued_by(one, other)]
        others.difference_update(issuers)
        reached += issuers
    return False


def _is_issued_by(one: Certificate, issuer: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415

    try:
        one.verify_directly_issued_by(issuer)
    except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
        return False
    return True


def in_words(moment: dt.datetime) -> str:
    """A moment as Kubernetes writes it: ``2027-01-15T08:00:00Z``."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
