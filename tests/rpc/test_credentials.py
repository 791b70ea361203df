"""TLS: what services prove themselves with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
import trustme

from pratique.admission.results import ALLOWED, Outcome
from pratique.admission.reviews import Call
from pratique.apimachinery.errors import ConfigurationError
from pratique.rpc.servers import RpcServer, ServerSettings, ServerTls
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import MUTATOR


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def settings(authority: trustme.CA, tmp_path: Path) -> ServerSettings:
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return ServerSettings(tls_cert_file=certificate, tls_private_key_file=key, drain_seconds=0)


async def ask(settings: ServerSettings, credentials: grpc.ChannelCredentials | None) -> list[Outcome]:
    server = RpcServer(MUTATOR.services([hosted("c", controllers.allowing)]), settings)
    address = await server.start()
    channel = (
        grpc.aio.insecure_channel(address)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials)
    )
    try:
        async with channel:
            return await MUTATOR.ask(channel, review_of(), [Call("c")], seconds=5)
    finally:
        await server.stop()


def test_a_client_that_trusts_the_authority_is_served(
    settings: ServerSettings, authority: trustme.CA
) -> None:
    trusting = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    [outcome] = asyncio.run(ask(settings, trusting))
    assert outcome.decision is ALLOWED


@pytest.mark.parametrize("client", ["trusts another authority", "speaks without TLS"])
def test_a_client_is_rejected_that(client: str, settings: ServerSettings) -> None:
    other = grpc.ssl_channel_credentials(trustme.CA().cert_pem.bytes())
    with pytest.raises(grpc.aio.AioRpcError) as error:
        asyncio.run(ask(settings, other if client == "trusts another authority" else None))
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_without_files_there_is_no_tls() -> None:
    assert ServerTls.of(ServerSettings()) is None


@pytest.mark.parametrize("field", ["tls_cert_file", "tls_private_key_file"])
def test_a_certificate_without_its_key_is_rejected(field: str) -> None:
    with pytest.raises(ConfigurationError, match="go together: give both or neither"):
        ServerTls.of(ServerSettings(**{field: Path("tls.pem")}))  # type: ignore[arg-type]  # by name


def spoil(settings: ServerSettings, how: str) -> None:
    certificate, key = settings.tls_cert_file, settings.tls_private_key_file
    assert certificate
    assert key
    if how == "missing":
        key.unlink()
    elif how == "no PEM":
        certificate.write_text("certificate")
    elif how == "another's key":
        trustme.CA().issue_cert("127.0.0.1").private_key_pem.write_to_path(key)
    elif how == "cut off":
        key.write_bytes(key.read_bytes()[:100])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("missing", "No such file or directory"),
        ("no PEM", "cannot be read as a certificate chain"),
        ("another's key", "does not belong to the certificate"),
        ("cut off", "cannot be read as a certificate chain"),
    ],
)
def test_the_error_names_the_file_that_cannot_be_used(how: str, words: str, settings: ServerSettings) -> None:
    spoil(settings, how)
    with pytest.raises(ConfigurationError, match=words) as refusal:
        ServerTls.of(settings)
    assert str(settings.tls_private_key_file) in str(refusal.value)
