"""What is wrong with certificate requests, with authorities, and with pairs of a certificate and its key.

Sources: ``crypto/x509`` and ``crypto/tls`` of Go, ``k8s.io/kubernetes/pkg/apis/certificates/helpers.go``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from pratique.apimachinery.pem import PemBlock, pem_blocks, temporary_pem_file
from pratique.apimachinery.statuses import go_quoted

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
    import ssl  # noqa: PLC0415 - most chains see no certificates

    length = _sequence_length(der)
    if not length:
        return "x509: malformed certificate"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der[:length])
    except ssl.SSLError:
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


def authorities_problem(text: bytes) -> str:
    """Why nothing of a CA bundle can be used; empty if something can, or if there is none: ``TLSConfigFor``.

    A certificate that is no valid DER may be refused in other words than Go's.
    """
    blocks = list(pem_blocks(text))
    certificates = [block.der for block in blocks if block.type == "CERTIFICATE" and not block.has_headers]
    problems = [_certificate_problem(der) for der in certificates]
    if not text or "" in problems:
        return ""
    if problems:
        reason = f"failed to parse certificate: {problems[0]}"
    else:
        reason = (
            "no valid certificate authority data seen" if blocks else "unable to parse bytes as PEM block"
        )
    return f"unable to load root certificates: {reason}"


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


_KEY_TYPES = ("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY")
"""What a key may be. Go tries all of them whatever its block says, and OpenSSL believes the block."""
_MISMATCHES = {
    "NO_CERTIFICATE_ASSIGNED": "tls: private key type does not match public key type",
    "KEY_TYPE_MISMATCH": "tls: private key type does not match public key type",
    "KEY_VALUES_MISMATCH": "tls: private key does not match public key",
}
"""By OpenSSL's reason. It keeps a certificate for each type of key, and finds none if the key is of another."""


def _mismatch(certificate: bytes, key: bytes) -> str:
    return next(filter(None, (_mismatch_of_type(certificate, key, name) for name in _KEY_TYPES)), "")


def _mismatch_of_type(certificate: bytes, key: bytes, key_type: str) -> str:
    """Compare the two as Python's own OpenSSL does, because the extra ``certificates`` need not be installed."""
    import ssl  # noqa: PLC0415 - most chains see no certificates

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")  # weak keys are compared, too
    written = (_encode(certificate, "CERTIFICATE"), _encode(key, key_type))
    try:
        with temporary_pem_file(written[0]) as certificate_file, temporary_pem_file(written[1]) as key_file:
            context.load_cert_chain(certificate_file, key_file, password=lambda: b"")
    except ssl.SSLError as error:
        return _MISMATCHES.get(error.reason or "", "")
    except ValueError:  # what is no certificate or no key is not looked at
        return ""
    return ""


def _encode(der: bytes, block_type: str) -> bytes:
    name = block_type.encode()
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (name, base64.encodebytes(der), name)
