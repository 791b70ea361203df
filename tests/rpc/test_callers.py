"""Who may call a service over mutual TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pratique.admission.results import ALLOWED
from pratique.admission.reviews import Call
from pratique.apimachinery.errors import ConfigurationError
from pratique.rpc.servers import RpcServer, ServerSettings, ServerTls
from support.certificate_mounts import Mount, bundle_of, chain_of, key_of
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import KINDS, MUTATOR, Kind
from support.waiting import until

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)
SECONDS = 10


@pytest.fixture(name="authority", scope="module")
def _authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(name="mount")
def _mount(tmp_path: Path, authority: trustme.CA) -> Mount:
    return Mount.of(tmp_path / "tls", authority.issue_cert("127.0.0.1"), authority)


def settings_of(mount: Mount, *names: str) -> ServerSettings:
    return ServerSettings(
        tls_cert_file=mount.certificate,
        tls_private_key_file=mount.key,
        client_ca_file=mount.authorities,
        client_allowed_names=names,
        drain_seconds=0,
    )


@contextlib.asynccontextmanager
async def serving(kind: Kind, settings: ServerSettings) -> AsyncIterator[str]:
    """Serve one controller that allows everything; gives the address."""
    server = RpcServer(kind.services([hosted("c", controllers.allowing)]), settings)
    address = await server.start()
    try:
        yield address
    finally:
        await server.stop()


def showing(authority: trustme.CA, shown: trustme.LeafCert | None) -> grpc.ChannelCredentials:
    """Trust the authority, and show a certificate, or none."""
    if shown is None:
        return grpc.ssl_channel_credentials(bundle_of(authority))
    return grpc.ssl_channel_credentials(bundle_of(authority), key_of(shown), chain_of(shown))


async def ask(kind: Kind, channel: grpc.aio.Channel) -> Any:
    [outcome] = await kind.ask(channel, review_of(), [Call("c")], seconds=SECONDS)
    return outcome.decision


async def outcome(kind: Kind, settings: ServerSettings, credentials: grpc.ChannelCredentials) -> Any:
    """The decision, or the gRPC code of the failure."""
    async with serving(kind, settings) as address, grpc.aio.secure_channel(address, credentials) as channel:
        try:
            return await ask(kind, channel)
        except grpc.aio.AioRpcError as error:
            return error.code()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    ("issued", "expected"),
    [
        pytest.param(lambda _: None, grpc.StatusCode.UNAVAILABLE, id="none"),
        pytest.param(
            lambda _: trustme.CA().issue_cert("door.example.com"),
            grpc.StatusCode.UNAVAILABLE,
            id="wrong authority",
        ),
        pytest.param(
            lambda own: own.issue_cert("other.example.com"),
            grpc.StatusCode.PERMISSION_DENIED,
            id="wrong name",
        ),
        pytest.param(
            lambda own: own.issue_cert("door.example.com", not_after=NOW - DAY),
            grpc.StatusCode.UNAVAILABLE,
            id="ended",
        ),
        pytest.param(lambda own: own.issue_cert("door.example.com"), ALLOWED, id="right"),
        pytest.param(
            lambda own: own.issue_cert("x.example.com", common_name="door"), ALLOWED, id="by common name"
        ),
        pytest.param(
            lambda own: own.create_child_ca().issue_cert("door.example.com"),
            ALLOWED,
            id="authority in between",
        ),
    ],
)
def test_only_clients_with_an_allowed_name_can_call(
    kind: Kind,
    issued: Callable[[trustme.CA], trustme.LeafCert | None],
    expected: object,
    mount: Mount,
    authority: trustme.CA,
) -> None:
    credentials = showing(authority, issued(authority))
    got = asyncio.run(outcome(kind, settings_of(mount, "door.example.com", "door"), credentials))
    assert got is expected


def test_without_allowed_names_every_client_of_the_authority_can_call(
    mount: Mount, authority: trustme.CA
) -> None:
    credentials = showing(authority, authority.issue_cert("whoever.example.com"))
    assert asyncio.run(outcome(MUTATOR, settings_of(mount), credentials)) is ALLOWED


def test_every_connected_client_can_check_health(mount: Mount, authority: trustme.CA) -> None:
    async def check() -> int:
        credentials = showing(authority, authority.issue_cert("probe.example.com"))
        async with (
            serving(MUTATOR, settings_of(mount, "door.example.com")) as address,
            grpc.aio.secure_channel(address, credentials) as channel,
        ):
            health = health_pb2_grpc.HealthStub(channel)
            return int((await health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)).status)

    assert asyncio.run(check()) == health_pb2.HealthCheckResponse.SERVING


def test_an_authority_that_is_no_longer_trusted_is_rejected_on_open_connections_too(
    mount: Mount, authority: trustme.CA
) -> None:
    async def code(channel: grpc.aio.Channel) -> object:
        try:
            return await ask(MUTATOR, channel)
        except grpc.aio.AioRpcError as error:
            return error.code()

    async def change() -> None:
        credentials = showing(authority, authority.issue_cert("door.example.com"))
        async with (
            serving(MUTATOR, settings_of(mount)) as address,
            grpc.aio.secure_channel(address, credentials) as channel,
        ):
            assert await code(channel) is ALLOWED
            mount.swap({"ca.crt": bundle_of(trustme.CA())})

            async def refused() -> bool:
                return await code(channel) is grpc.StatusCode.UNAUTHENTICATED

            await until(SECONDS, refused)

    asyncio.run(change())


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"client_ca_file": "ca.crt"}, "--client-ca-file needs TLS"),
        ({"client_allowed_names": ("one",)}, "--client-allowed-names needs --client-ca-file"),
    ],
)
def test_settings_without_those_that_they_need_are_rejected(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        ServerTls.of(ServerSettings(**fields))


@pytest.mark.parametrize(
    "content", ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_unreadable_authorities_are_rejected(mount: Mount, content: str) -> None:
    mount.authorities.write_text(content)
    with pytest.raises(
        ConfigurationError, match=r"--client-ca-file .*: cannot be read as certificates in PEM"
    ) as error:
        ServerTls.of(settings_of(mount))
    assert str(mount.authorities) in str(error.value)


def test_missing_authorities_are_rejected(mount: Mount) -> None:
    mount.authorities.unlink()
    with pytest.raises(ConfigurationError, match="No such file or directory"):
        ServerTls.of(settings_of(mount))


def test_a_service_reports_when_its_certificates_expire_and_warns_before(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    end = (NOW + 3 * DAY).replace(microsecond=0)
    mount = Mount.of(tmp_path / "short", authority.issue_cert("127.0.0.1", not_after=end), authority)
    tls = ServerTls.of(settings_of(mount))
    assert tls is not None
    assert [(file.name, file.failure) for file in tls.files] == [
        ("serving certificate", ""),
        ("client authorities", ""),
    ]
    assert tls.files[0].ends_at == end.timestamp()
    assert tls.files[0].warning() == f"serving certificate ends {end:%Y-%m-%dT%H:%M:%SZ}"
    assert tls.files[1].warning() == ""

    async def warned() -> bool:
        return "certificate to be renewed" in caplog.messages

    async def serve() -> None:
        async with serving(MUTATOR, settings_of(mount)):
            await until(SECONDS, warned)

    with caplog.at_level(logging.WARNING):
        asyncio.run(serve())
