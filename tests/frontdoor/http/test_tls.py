from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from pratique.apimachinery.errors import ConfigurationError
from pratique.https.tls import KeyPairFiles
from pratique_frontdoor.http.listener import CIPHER_SUITES, PAIR_FLAGS, Certificate, HandshakeSettings
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine
from support.front_doors.running import open_door, read_all


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def write_pair(folder: Path, authority: trustme.CA, name: str = "127.0.0.1") -> tuple[Path, Path]:
    certificate = authority.issue_cert(name)
    cert_file, key_file = folder / "tls.crt", folder / "tls.key"
    cert_file.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    key_file.write_bytes(certificate.private_key_pem.bytes())
    return cert_file, key_file


def opened(pair: tuple[Path, Path]) -> Certificate:
    return Certificate(KeyPairFiles(*pair, *PAIR_FLAGS))


def settings_of(pair: tuple[Path, Path]) -> FrontDoorSettings:
    return FrontDoorSettings(tls_cert_file=pair[0], tls_private_key_file=pair[1], head_seconds=0.5)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_https_is_served_with_the_given_certificate(tmp_path: Path, authority: trustme.CA) -> None:
    settings = settings_of(write_pair(tmp_path, authority))
    with open_door(AllowingEngine(), settings, trusting(authority)) as door:
        assert door.url.startswith("https://")
        assert door.post("/validate").json["response"]["allowed"] is True
        assert door.get("/readyz").code == 200


def test_plain_http_is_not_served_beside_it(tmp_path: Path, authority: trustme.CA) -> None:
    settings = settings_of(write_pair(tmp_path, authority))
    with open_door(AllowingEngine(), settings) as door, door.socket() as plain:
        plain.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP" not in read_all(plain)


@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        (ssl.TLSVersion.TLSv1, False),
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_1_2_is_the_oldest_version_served(
    tmp_path: Path,
    authority: trustme.CA,
    version: ssl.TLSVersion,
    accepted: bool,  # noqa: FBT001 - a table's column
) -> None:
    context = trusting(authority)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else the client itself would refuse 1.1
    context.minimum_version = context.maximum_version = version
    with open_door(AllowingEngine(), settings_of(write_pair(tmp_path, authority)), context) as door:
        if accepted:
            assert door.get("/livez").code == 200
        else:
            with pytest.raises(ssl.SSLError):
                door.get("/livez")


def test_a_client_that_does_not_finish_the_handshake_is_disconnected(
    tmp_path: Path, authority: trustme.CA
) -> None:
    settings = settings_of(write_pair(tmp_path, authority))
    with open_door(AllowingEngine(), settings) as door, door.socket() as silent:
        assert read_all(silent) == b""


def test_a_new_certificate_is_used_and_open_connections_stay(tmp_path: Path, authority: trustme.CA) -> None:
    certificate = opened(write_pair(tmp_path, authority))
    before = _shown_by(certificate, authority)
    asyncio.run(certificate.pair.refresh())
    assert _shown_by(certificate, authority) == before
    write_pair(tmp_path, authority)
    asyncio.run(certificate.pair.refresh())
    assert _shown_by(certificate, authority) != before


def _shown_by(certificate: Certificate, authority: trustme.CA) -> str:
    """The serial number that a client sees, without any socket between the two."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    client = trusting(authority).wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for _ in range(3):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown = client.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def test_a_changed_mounted_secret_is_used_without_a_restart(tmp_path: Path, authority: trustme.CA) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        write_pair(tmp_path / str(number), authority)
    link = tmp_path / "..data"
    link.symlink_to("1")
    certificate = opened((link / "tls.crt", link / "tls.key"))
    before = _shown_by(certificate, authority)
    (tmp_path / "next").symlink_to("2")
    (tmp_path / "next").rename(link)
    asyncio.run(certificate.pair.refresh())
    assert _shown_by(certificate, authority) != before


@pytest.mark.parametrize("file", ["tls.crt", "tls.key"])
@pytest.mark.parametrize("content", ["other", "truncated", "missing"])
def test_an_unusable_certificate_leaves_the_previous_one_in_use(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture, file: str, content: str
) -> None:
    certificate = opened(write_pair(tmp_path, authority))
    before = _shown_by(certificate, authority)
    _spoil(tmp_path / file, content, authority)
    with caplog.at_level(logging.WARNING):
        asyncio.run(certificate.pair.refresh())
    assert _shown_by(certificate, authority) == before
    assert caplog.messages == ["serving certificate kept, the new one cannot be used"]


def _spoil(path: Path, content: str, authority: trustme.CA) -> None:
    if content == "missing":
        path.unlink()
    elif content == "truncated":
        path.write_bytes(path.read_bytes()[:100])
    else:
        other = authority.issue_cert("other.example.com")
        pem = other.private_key_pem if path.suffix == ".key" else other.cert_chain_pems[0]
        path.write_bytes(pem.bytes())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tls_cert_file"}, "--tls-cert-file and --tls-private-key-file go together"),
        ({"tls_private_key_file"}, "--tls-cert-file and --tls-private-key-file go together"),
    ],
)
def test_a_certificate_without_a_key_is_refused(tmp_path: Path, given: set[str], message: str) -> None:
    settings = FrontDoorSettings(**dict.fromkeys(given, tmp_path / "x"))  # type: ignore[arg-type] # paths
    with pytest.raises(ConfigurationError, match=message):
        Certificate.of(settings, None)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("missing", "No such file or directory"),
        ("truncated", "cannot be read as a certificate chain and an unencrypted private key in PEM"),
        ("other", "the private key does not belong to the certificate"),
    ],
)
@pytest.mark.parametrize("file", ["tls.crt", "tls.key"])
def test_unusable_files_are_named_with_the_reason(
    tmp_path: Path, authority: trustme.CA, file: str, content: str, complaint: str
) -> None:
    pair = write_pair(tmp_path, authority)
    _spoil(tmp_path / file, content, authority)
    with pytest.raises(ConfigurationError) as error:
        opened(pair)
    assert str(error.value) == f"--tls-cert-file {pair[0]}, --tls-private-key-file {pair[1]}: {complaint}"


def test_an_encrypted_key_is_refused_without_a_password_prompt(tmp_path: Path, authority: trustme.CA) -> None:
    pair = write_pair(tmp_path, authority)
    key = serialization.load_pem_private_key(pair[1].read_bytes(), password=None)
    pair[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ConfigurationError, match="an unencrypted private key in PEM"):
        opened(pair)


@pytest.mark.parametrize(
    ("fields", "version", "accepted"),
    [
        ({"tls_min_version": "VersionTLS13"}, ssl.TLSVersion.TLSv1_2, False),
        ({"tls_min_version": "VersionTLS13"}, ssl.TLSVersion.TLSv1_3, True),
        ({"tls_cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)}, ssl.TLSVersion.TLSv1_2, True),
        ({"tls_cipher_suites": ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)}, ssl.TLSVersion.TLSv1_2, False),
        ({"tls_cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, ssl.TLSVersion.TLSv1_2, True),
    ],
)
def test_versions_and_cipher_suites_can_be_restricted(
    tmp_path: Path,
    authority: trustme.CA,  # its certificates are of ECDSA
    fields: dict[str, Any],
    version: ssl.TLSVersion,
    accepted: bool,  # noqa: FBT001 - a table's column
) -> None:
    settings = dataclasses.replace(settings_of(write_pair(tmp_path, authority)), **fields)
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    with open_door(AllowingEngine(), settings, context) as door:
        if accepted:
            assert door.get("/livez").code == 200
        else:
            with pytest.raises(ssl.SSLError):
                door.get("/livez")


def test_openssl_has_every_cipher_suite_that_can_be_named() -> None:
    for name in CIPHER_SUITES:
        HandshakeSettings.of(FrontDoorSettings(tls_cipher_suites=(name,))).context()
