"""Authentication of clients by their certificates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pratique.https.tls import (
    ClientCertificateAuthenticator,
    ReloadedCertificate,
    TlsClient,
    certificate_names,
    chains_to_authority,
    read_authorities,
)
from support.certificate_mounts import bundle_of, chain_of


def clients_of(
    folder: Path, *authorities: trustme.CA, names: tuple[str, ...] = ()
) -> ClientCertificateAuthenticator:
    file = folder / "ca.crt"
    file.write_bytes(bundle_of(*authorities))
    return ClientCertificateAuthenticator(
        ReloadedCertificate("authorities", lambda: read_authorities(file, "--ca"), (file,)), names
    )


def der_of(issued: trustme.LeafCert) -> tuple[bytes, ...]:
    read = x509.load_pem_x509_certificates(chain_of(issued))
    return tuple(item.public_bytes(serialization.Encoding.DER) for item in read)


@pytest.mark.parametrize("chain", [der_of, lambda issued: (chain_of(issued),)], ids=["DER", "PEM"])
def test_a_client_is_allowed_by_any_of_its_names(
    tmp_path: Path, chain: Callable[[trustme.LeafCert], tuple[bytes, ...]]
) -> None:
    authority = trustme.CA()
    clients = clients_of(tmp_path, authority, names=("one", "b.example.com"))
    shown = authority.issue_cert("a.example.com", "b.example.com", common_name="zero")
    assert clients.authenticate(chain(shown)) == TlsClient(
        ("zero", "a.example.com", "b.example.com"), is_allowed=True
    )
    other = authority.issue_cert("c.example.com")
    assert clients.authenticate(chain(other)) == TlsClient(("c.example.com",), is_allowed=False)
    assert clients.authenticate(chain(trustme.CA().issue_cert("b.example.com"))) is None
    assert clients.authenticate(()) is None


def test_a_clients_name_is_its_first_name_or_empty() -> None:
    assert [TlsClient(names, is_allowed=False).name for names in (("one", "two"), ("one",), ())] == [
        "one",
        "one",
        "",
    ]


def test_a_common_name_alone_names_a_client() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "door")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=1))
    assert certificate_names(builder.sign(key, hashes.SHA256())) == ("door",)


@pytest.mark.parametrize("chain", [der_of, lambda issued: (chain_of(issued),)], ids=["DER", "PEM"])
def test_a_client_has_its_own_names_and_not_those_of_its_authority(
    tmp_path: Path, chain: Callable[[trustme.LeafCert], tuple[bytes, ...]]
) -> None:
    authority = trustme.CA()
    clients = clients_of(tmp_path, authority, names=("a.example.com",))
    client = clients.authenticate(chain(authority.create_child_ca().issue_cert("a.example.com")))
    assert client == TlsClient(("a.example.com",), is_allowed=True)


def test_trust_follows_the_current_authorities(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    clients = clients_of(tmp_path, old)
    shown = der_of(old.issue_cert("a.example.com"))
    assert clients.authenticate(shown) is not None
    clients.authorities.value = read_authorities(_bundle(tmp_path, old, new), "--ca")
    assert clients.authenticate(shown) is not None
    clients.authorities.value = read_authorities(_bundle(tmp_path, new), "--ca")
    assert clients.authenticate(shown) is None


def _bundle(folder: Path, *authorities: trustme.CA) -> Path:
    file = folder / "next.crt"
    file.write_bytes(b"comments are no certificates\n" + bundle_of(*authorities))
    return file


def test_an_expired_certificate_identifies_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    clients = clients_of(tmp_path, authority)
    end = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    shown = der_of(authority.issue_cert("a.example.com", not_after=end))
    assert clients.authenticate(shown) is not None
    monkeypatch.setattr("pratique.https.tls.time.time", lambda: end.timestamp() + 1)
    assert clients.authenticate(shown) is None


@pytest.mark.parametrize(("seconds", "known"), [(-1, False), (0, True), (60, True), (61, False)])
def test_a_certificate_is_valid_from_its_first_second_to_its_last(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    known: bool,  # noqa: FBT001 - a table's column
) -> None:
    authority = trustme.CA()
    begin = dt.datetime.now(dt.UTC).replace(microsecond=0)
    end = begin + dt.timedelta(seconds=60)
    shown = der_of(authority.issue_cert("a.example.com", not_before=begin, not_after=end))
    monkeypatch.setattr("pratique.https.tls.time.time", lambda: begin.timestamp() + seconds)
    assert (clients_of(tmp_path, authority).authenticate(shown) is not None) is known


def test_uris_are_names_of_a_client() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    spiffe = x509.UniformResourceIdentifier("spiffe://example.com/ns/shop")
    builder = x509.CertificateBuilder(
        x509.Name([]), x509.Name([]), key.public_key(), 1, now, now + dt.timedelta(days=1)
    ).add_extension(x509.SubjectAlternativeName([spiffe, x509.RFC822Name("a@example.com")]), critical=True)
    assert certificate_names(builder.sign(key, hashes.SHA256())) == ("spiffe://example.com/ns/shop",)


def test_a_chain_leads_to_an_authority_in_any_order_within_the_limit() -> None:
    root, stranger = trustme.CA(), trustme.CA()
    deep = root
    for _ in range(3):
        deep = deep.create_child_ca()
    leaf, *between = x509.load_pem_x509_certificates(chain_of(deep.issue_cert("a.example.com")))
    roots = x509.load_pem_x509_certificates(bundle_of(root))
    assert chains_to_authority([leaf, *between], roots)
    assert chains_to_authority([leaf, *reversed(between)], roots)
    assert chains_to_authority([leaf, *between], [between[0]])
    assert not chains_to_authority([leaf], roots)
    assert not chains_to_authority([leaf, *between], x509.load_pem_x509_certificates(bundle_of(stranger)))
    assert not chains_to_authority([roots[0]], x509.load_pem_x509_certificates(bundle_of(stranger)))


@pytest.mark.parametrize(("links", "leads"), [(7, True), (8, False)])
def test_a_chain_longer_than_the_limit_is_not_trusted(links: int, leads: bool) -> None:  # noqa: FBT001 - likewise
    root = last = trustme.CA()
    for _ in range(links):
        last = last.create_child_ca()
    chain = x509.load_pem_x509_certificates(chain_of(last.issue_cert("a.example.com")))
    assert len(chain) == links + 1
    assert chains_to_authority(chain, x509.load_pem_x509_certificates(bundle_of(root))) is leads
