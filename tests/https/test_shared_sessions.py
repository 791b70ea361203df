"""Sessions that servers with the same certificates share, and the certificates that they present."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pratique.apimachinery.errors import CallError
from pratique.https.clients import HttpsClients, SessionKey
from pratique.https.credentials import ClientCertificate, PemSource
from support.webhook_servers import Authority


def key(
    ca_bundle: bytes = b"",
    certificate: ClientCertificate | None = None,
    *,
    to_services: bool = False,
    verified: bool = True,
) -> SessionKey:
    return SessionKey(ca_bundle, certificate, to_services, verified)


def test_a_session_lives_as_long_as_it_has_users() -> None:
    async def use() -> None:
        clients = HttpsClients()
        clients.acquire(key())
        clients.acquire(key())
        session = clients.session(key())
        await clients.release(key())
        assert clients.session(key()) is session
        await clients.release(key())
        with pytest.raises(KeyError):
            clients.session(key())
        clients.acquire(key())
        assert clients.session(key()) is not session
        await clients.release(key())

    asyncio.run(use())


def test_different_trust_means_different_sessions() -> None:
    keys = [
        key(),
        key(Authority().pem),
        key(verified=False),
        key(to_services=True),
        SessionKey(b"", None, to_services=False, server_name="other"),
    ]

    async def use() -> None:
        clients = HttpsClients()
        for session_key in keys:
            clients.acquire(session_key)
        assert len({id(clients.session(session_key)) for session_key in keys}) == len(keys)
        for session_key in keys:
            await clients.release(session_key)

    asyncio.run(use())


@pytest.mark.parametrize(
    "bundle", [b"no PEM", b"-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n"]
)
def test_an_invalid_bundle_opens_no_session(bundle: bytes) -> None:
    async def use() -> None:
        clients = HttpsClients()
        with pytest.raises(CallError, match="unable to load root certificates"):
            clients.acquire(key(bundle))
        with pytest.raises(KeyError):
            clients.session(key(bundle))

    asyncio.run(use())


def test_a_changed_certificate_is_loaded_before_the_next_call(tmp_path: Path) -> None:
    issued = Authority().issue("client.example.com")
    certificate, private_key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    private_key.write_bytes(issued.private_key_pem.bytes())
    pair = ClientCertificate(PemSource(path=str(certificate)), PemSource(path=str(private_key)))

    async def use() -> None:
        clients = HttpsClients()
        clients.acquire(key(certificate=pair))
        session = clients.session(key(certificate=pair))
        private_key.write_bytes(b"broken")
        with pytest.raises(CallError, match="tls: failed to find any PEM data in certificate input"):
            clients.session(key(certificate=pair))
        private_key.write_bytes(issued.private_key_pem.bytes())
        assert clients.session(key(certificate=pair)) is session
        await clients.release(key(certificate=pair))

    asyncio.run(use())
