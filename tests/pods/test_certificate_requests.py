"""The subjects of certificate requests."""

from __future__ import annotations

import base64
import functools

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import InputError
from pratique.pods.certificate_requests import CertificateSubject, read_subject

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=16)
"""Names have at most 64 bytes, and a character up to four."""


@functools.cache
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def request_for(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    unsigned = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return unsigned.sign(key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_a_request_yields_its_common_name_and_organizations(name: str, groups: list[str]) -> None:
    organizations = [(NameOID.ORGANIZATION_NAME, group) for group in groups]
    pem = request_for(*organizations, (NameOID.COMMON_NAME, name), (NameOID.LOCALITY_NAME, "elsewhere"))
    assert read_subject(pem) == CertificateSubject(name, tuple(groups))


def test_a_subject_with_a_long_form_length_is_read() -> None:
    groups = [(NameOID.ORGANIZATION_NAME, "g" * 60)] * 1200
    assert len(read_subject(request_for(*groups)).organizations) == 1200


def test_the_last_of_two_common_names_wins() -> None:
    pem = request_for((NameOID.COMMON_NAME, "one"), (NameOID.COMMON_NAME, "other"))
    assert read_subject(pem).common_name == "other"


def test_a_request_with_an_empty_subject_names_nobody() -> None:
    assert read_subject(request_for()) == CertificateSubject()


@pytest.mark.parametrize("encoding", ["ascii", "utf-16-be", "latin-1"])
def test_every_asn1_string_type_is_decoded(encoding: str) -> None:
    tag = {"ascii": b"\x13", "utf-16-be": b"\x1e", "latin-1": b"\x14"}[encoding]
    text = "node".encode(encoding)
    pem = der_request(b"\x06\x03\x55\x04\x03" + tag + bytes([len(text)]) + text)
    assert read_subject(pem).common_name == "node"


def sequence(content: bytes, tag: int = 0x30) -> bytes:
    return bytes([tag, len(content)]) + content


KEY = sequence(sequence(b"\x06\x01\x2a") + b"\x03\x02\x00\x01")
SIGNATURE = sequence(b"\x06\x01\x2a") + b"\x03\x02\x00\x01"


def der_request(attribute: bytes) -> bytes:
    subject = sequence(sequence(sequence(attribute), 0x31))
    return pem_of(sequence(sequence(b"\x02\x01\x00" + subject + KEY + b"\xa0\x00") + SIGNATURE))


def pem_of(der: bytes, kind: str = "CERTIFICATE REQUEST") -> bytes:
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN {kind}-----\n{body}-----END {kind}-----\n".encode()


@pytest.mark.parametrize(
    "pem", [b"", b"hello", pem_of(b"", "CERTIFICATE"), b"-----BEGIN CERTIFICATE REQUEST-----\n"]
)
def test_another_pem_type_is_refused_in_kubernetes_words(pem: bytes) -> None:
    with pytest.raises(InputError, match=r"^PEM block type must be CERTIFICATE REQUEST$"):
        read_subject(pem)


@given(st.binary(max_size=60))
def test_a_malformed_request_is_refused(der: bytes) -> None:
    try:
        assert isinstance(read_subject(pem_of(der)), CertificateSubject)
    except InputError as error:
        assert str(error) == "malformed certificate request"  # noqa: PT017 - it may also be well-formed


@functools.cache
def der() -> bytes:
    return base64.b64decode(b"".join(request_for((NameOID.COMMON_NAME, "n")).splitlines()[1:-1]))


@given(st.data())
def test_a_truncated_request_is_refused(data: st.DataObject) -> None:
    whole = der()
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    with pytest.raises(InputError, match=r"^malformed certificate request$"):
        read_subject(pem_of(cut))


COMMON_NAME = b"\x06\x03\x55\x04\x03"


def named(name: str) -> bytes:
    return request_for((NameOID.COMMON_NAME, name))


def without_padding(pem: bytes) -> bytes:
    first, *rest = pem.splitlines(keepends=True)
    return first + b"!" + b"".join(rest)


@pytest.mark.parametrize(
    "pem",
    [
        b"Some words before it\n" + named("ann"),
        b"\n" + named("ann") + b"and after it",
        named("ann").replace(b"\n", b"\r\n"),
        named("ann").replace(b"\n", b" \t\n"),
        named("ann").replace(b"-----\nMI", b"-----\nProc-Type: 4\nX: y\n\nMI", 1),
        b"-----BEGIN CERTIFICATE REQUEST-----\n" + named("ann"),
        b"-----BEGIN CERTIFICATE-----\nnever ended\n" + named("ann"),
        b"x" + named("bob") + named("ann"),
        without_padding(named("bob")) + named("ann"),
        named("bob").replace(b"END CERTIFICATE REQUEST-----", b"END CERTIFICATE-----") + named("ann"),
        named("bob").replace(b"END CERTIFICATE REQUEST-----", b"END CERTIFICATE REQUEST----- x")
        + named("ann"),
        named("ann") + named("bob"),
    ],
)
def test_the_first_wellformed_block_counts(pem: bytes) -> None:
    assert read_subject(pem).common_name == "ann"


def test_a_block_of_another_type_before_the_request_is_not_skipped() -> None:
    with pytest.raises(InputError, match="PEM block type"):
        read_subject(pem_of(b"x", "CERTIFICATE") + named("ann"))


@pytest.mark.parametrize(
    ("string", "name"),
    [
        (b"\x1e\x06\0a\0b\0\0", "ab"),
        (b"\x1e\x08\0a\0b\0\0\0\0", "ab\0"),
        (b"\x0c\x03ab\0", "ab\0"),
        (b"\x14\x02a\xe9", "aé"),
        (b"\x12\x021 ", "1 "),
        (b"\x13\x03a*&", "a*&"),
        (b"\x04\x02ab", ""),
        (b"\x1b\x02ab", ""),
    ],
)
def test_a_name_is_decoded_as_its_type(string: bytes, name: str) -> None:
    assert read_subject(der_request(COMMON_NAME + string)).common_name == name


@pytest.mark.parametrize(
    "string",
    [
        b"\x1e\x03\0a\0",
        b"\x1e\x02\xd8\0",
        b"\x1e\x04\xd8\0\xdc\0",
        b"\x1e\x02\xff\xfe",
        b"\x0c\x01\xff",
        b"\x12\x01a",
        b"\x13\x01_",
        b"\x16\x01\xe9",
    ],
)
def test_characters_that_a_type_does_not_have_are_refused(string: bytes) -> None:
    with pytest.raises(InputError, match=r"^malformed certificate request$"):
        read_subject(der_request(COMMON_NAME + string))


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        (b"\xa0\x00", b""),
        (KEY, b"\x05\x00"),
        (b"\x02\x01\x00", b"\x05\x01\x00"),
        (b"\x0c\x01a", b"\x0c\x81\x01a"),
        (b"\x0c\x01a", b"\x1f\x0c\x01a"),
        (b"\x0c\x01a", b""),
    ],
)
def test_what_is_missing_or_not_der_is_refused(whole: bytes, part: bytes) -> None:
    attribute = sequence(sequence(sequence(COMMON_NAME + b"\x0c\x01a"), 0x31))
    information = b"\x02\x01\x00" + attribute + KEY + b"\xa0\x00"
    assert read_subject(pem_of(sequence(sequence(information) + SIGNATURE))).common_name == "a"
    attribute = sequence(sequence(sequence((COMMON_NAME + b"\x0c\x01a").replace(whole, part)), 0x31))
    information = b"\x02\x01\x00".replace(whole, part) + attribute + (KEY + b"\xa0\x00").replace(whole, part)
    with pytest.raises(InputError, match=r"^malformed certificate request$"):
        read_subject(pem_of(sequence(sequence(information) + SIGNATURE)))


@pytest.mark.parametrize("cut", [SIGNATURE, b"\x03\x02\x00\x01"])
def test_a_request_without_a_signature_is_refused(cut: bytes) -> None:
    information = sequence(b"\x02\x01\x00" + sequence(b"") + KEY + b"\xa0\x00")
    with pytest.raises(InputError, match=r"^malformed certificate request$"):
        read_subject(pem_of(sequence(information + SIGNATURE.replace(cut, b""))))


def test_what_follows_a_request_in_its_block_is_refused() -> None:
    with pytest.raises(InputError, match=r"^malformed certificate request$"):
        read_subject(pem_of(der() + b"\x05\x00"))
