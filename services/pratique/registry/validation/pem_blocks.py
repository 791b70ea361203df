"""PEM as Go reads it, and what it holds: certificate requests and certificates.

Sources: ``encoding/pem``, ``crypto/x509`` of Go and ``k8s.io/kubernetes/pkg/apis/certificates/helpers.go``.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
from collections.abc import Callable, Iterator

from pratique.apimachinery.statuses import go_quoted

_BLOCK = re.compile(
    rb"(?:^|\n)-----BEGIN (?P<type>[^\n]*?)-----[ \t\r]*\n"
    rb"(?P<headers>(?:[^\n:]*:[^\n]*\n)*)"
    rb"(?P<body>(?:(?!-----)[^\n]*\n)*?)"
    rb"-----END (?P=type)-----[ \t\r]*(?=\n|\Z)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class PemBlock:
    """One block of a PEM file."""

    type: str
    """What it says it is, such as ``CERTIFICATE``."""
    has_headers: bool
    der: bytes
    """What it holds."""


def pem_blocks(text: bytes) -> Iterator[PemBlock]:
    """The blocks of a PEM file; what is malformed is passed over: ``pem.Decode``."""
    at = 0
    while found := _BLOCK.search(text, at):
        at = found.end()
        try:
            der = base64.b64decode(re.sub(rb"[ \t\r\n]", b"", found["body"]), validate=True)
        except binascii.Error:
            at = found.start() + 1
            continue
        yield PemBlock(found["type"].decode(errors="replace"), bool(found["headers"]), der)


_SEQUENCE = 0x30
_NO_REQUEST = "PEM block type must be CERTIFICATE REQUEST"


def certificate_request_problem(text: bytes) -> str:
    """Why a PEM file is no signed certificate request; empty if it is one: ``ParseCSR``, ``CheckSignature``.

    A request that is no valid DER is refused in other words than Go's.
    """
    block = next(pem_blocks(text), None)
    if block is None or block.type != "CERTIFICATE REQUEST":
        return _NO_REQUEST
    # Here and below, because most chains see no certificates: 20 ms of the start.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415

    try:
        request = x509.load_der_x509_csr(block.der)
    except ValueError:
        return _undecodable(block.der)
    try:
        return "" if request.is_signature_valid else _signature_problem(request)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return "x509: cannot verify signature: algorithm unimplemented"


def _undecodable(der: bytes) -> str:
    if not der or len(der) < 2:
        return (
            "asn1: syntax error: sequence truncated"
            if not der
            else "asn1: syntax error: truncated tag or length"
        )
    return (
        "asn1: structure error: tags don't match"
        if der[0] != _SEQUENCE
        else "asn1: syntax error: data truncated"
    )


def _signature_problem(request: object) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519  # noqa: PLC0415

    key = request.public_key()  # type: ignore[attr-defined]
    if isinstance(key, ec.EllipticCurvePublicKey):
        return "x509: ECDSA verification failure"
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "x509: Ed25519 verification failure"
    return "crypto/rsa: verification error"


def certificates_problem(text: bytes) -> str:
    """Why a PEM file holds no certificates, or anything else; empty if it is right or empty: ``validateCertificate``.

    A certificate that is no valid DER may be refused in other words than Go's.
    """
    number = 0
    for block in pem_blocks(text):
        if block.type != "CERTIFICATE":
            return f"only CERTIFICATE PEM blocks are allowed, found {go_quoted(block.type)}"
        if block.has_headers:
            return "no PEM block headers are permitted"
        number += 1
        if not block.der:
            return "found CERTIFICATE PEM block containing 0 certificates"
        rest = block.der
        while rest:
            if problem := _certificate_problem(rest):
                return problem
            rest = rest[_sequence_length(rest) :]
    return "" if number or not text else "must contain at least one CERTIFICATE PEM block"


def _certificate_problem(der: bytes) -> str:
    """Why bytes do not begin with a certificate; empty if they do: ``ParseCertificates``."""
    from cryptography import x509  # noqa: PLC0415

    length = _sequence_length(der)
    if not length:
        return "x509: malformed certificate"
    try:
        x509.load_der_x509_certificate(der[:length])
    except ValueError:
        header = _header_length(der)
        malformed = not _sequence_length(der[header:length])
        return "x509: malformed tbs certificate" if malformed else "x509: malformed certificate"
    return ""


def _header_length(der: bytes) -> int:
    """The bytes of the tag and of the length of an element."""
    return 2 + (der[1] & 0x7F if der[1] & 0x80 else 0)


def _sequence_length(der: bytes) -> int:
    """How long the sequence is that bytes begin with; 0 if they begin with none."""
    if len(der) < 2 or der[0] != _SEQUENCE:
        return 0
    header = _header_length(der)
    content = int.from_bytes(der[2:header]) if header > 2 else der[1]
    length = header + content
    return length if length <= len(der) else 0


def authority_problem(der: bytes) -> str:
    """Why a certificate is no authority's; empty if it is one. The text goes on after ``entry <index> ``."""
    from cryptography import x509  # noqa: PLC0415

    try:
        certificate = x509.load_der_x509_certificate(der)
    except ValueError:
        return "does not parse as X.509"
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, ValueError):
        return "does not have the CA bit set"
    return "" if constraints.ca else "does not have the CA bit set"


def key_pair_problem(certificate: bytes, key: bytes) -> str:
    """Why two PEM files are no pair of a certificate and its key; empty if they are one: ``tls.X509KeyPair``.

    What is in a block that is no valid DER is not looked at.
    """
    certificates, skipped = _blocks_and_others(certificate, lambda kind: kind == "CERTIFICATE")
    if not certificates:
        return _no_certificate(skipped)
    keys, skipped = _blocks_and_others(
        key, lambda kind: kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY")
    )
    return _mismatch(certificates[0].der, keys[0].der) if keys else _no_key(skipped)


def _blocks_and_others(text: bytes, is_wanted: Callable[[str], bool]) -> tuple[list[PemBlock], list[str]]:
    """The wanted blocks, and the types of those before the first of them."""
    wanted, skipped = [], []
    for block in pem_blocks(text):
        if is_wanted(block.type):
            wanted.append(block)
        elif not wanted:
            skipped.append(block.type)
    return wanted, skipped


def _no_certificate(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in certificate input"
    if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may"
            " have been switched"
        )
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following'
        f" types: [{' '.join(skipped)}]"
    )


def _no_key(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in key input"
    if skipped == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the'
        f" following types: [{' '.join(skipped)}]"
    )


def _mismatch(certificate: bytes, key: bytes) -> str:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_der_private_key  # noqa: PLC0415

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
        private = load_der_private_key(key, None)
    except (TypeError, UnsupportedAlgorithm, ValueError):
        return ""
    own = private.public_key()
    if type(own) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if own == public else "tls: private key does not match public key"
