"""How services prove themselves to the front door, and it to them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from pratique.admission.controllers import BOTH, Controller, Handlers, NoSettings, Phase
from pratique.admission.results import ALLOWED
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import ConfigurationError, UnreachableError
from pratique.https.tls import keep_certificates_fresh
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique_frontdoor.settings import FrontDoorSettings
from pratique_frontdoor.transports.hosting_services import HostingService, ServicesTls
from support.certificate_mounts import Mount, bundle_of, chain_of, key_of
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import KINDS, VALIDATOR, Kind
from support.waiting import until

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)
SECONDS = 10
PER_SECOND = 50


@pytest.fixture(name="authority", scope="module")
def _authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(name="door")
def _door(tmp_path: Path, authority: trustme.CA) -> Mount:
    """The front door's files: its certificate, and the authority of the services."""
    return Mount.of(tmp_path / "door", authority.issue_cert("door.example.com"), authority)


def settings_of(door: Mount, name: str = "") -> FrontDoorSettings:
    return FrontDoorSettings(
        services_ca_file=door.authorities,
        services_cert_file=door.certificate,
        services_private_key_file=door.key,
        validator_server_name=name,
    )


@contextlib.asynccontextmanager
async def service(kind: Kind, mount: Mount) -> AsyncIterator[RpcServer]:
    """A service that wants a certificate of the authorities in its mount; its address is its ``address``."""
    settings = ServerSettings(
        tls_cert_file=mount.certificate,
        tls_private_key_file=mount.key,
        client_ca_file=mount.authorities,
        drain_seconds=0,
    )
    server = RpcServer(kind.services([hosted("c", controllers.allowing)]), settings)
    try:
        yield server
    finally:
        await server.stop()


def opened(tls: ServicesTls | None, addresses: Sequence[str], name: str = "") -> HostingService:
    handlers = Handlers(validate=controllers.allowing)
    controller = Controller(
        name="c", summary="Allows.", phases=BOTH, build=lambda _: handlers, settings=NoSettings
    )
    return HostingService.open(
        "validator", addresses, Phase.VALIDATE, [controller], tls=tls, server_name=name
    )


async def decided(client: HostingService) -> Any:
    [outcome] = await client.transport.validate(review_of(), [Call("c")], Deadline.after(SECONDS))
    return outcome.decision


@pytest.mark.parametrize(
    ("issued", "name", "reached"),
    [
        pytest.param(lambda own: own.issue_cert("127.0.0.1"), "", True, id="right, by its address"),
        pytest.param(lambda own: own.issue_cert("validator"), "validator", True, id="right, by its name"),
        pytest.param(lambda own: own.issue_cert("validator"), "", False, id="wrong name"),
        pytest.param(
            lambda own: own.issue_cert("x.example.com", common_name="127.0.0.1"),
            "",
            False,
            id="right common name, another DNS name",
        ),
        pytest.param(
            lambda own: own.issue_cert("x.example.com", common_name="validator"),
            "validator",
            False,
            id="right common name, another DNS name, asked by name",
        ),
        pytest.param(
            lambda own: own.issue_cert("*.example.com", "validator.example.com", common_name="validator"),
            "validator",
            False,
            id="right common name, other DNS names",
        ),
        pytest.param(lambda _: trustme.CA().issue_cert("127.0.0.1"), "", False, id="wrong authority"),
        pytest.param(lambda own: own.issue_cert("127.0.0.1", not_after=NOW - DAY), "", False, id="ended"),
        pytest.param(
            lambda own: own.issue_cert("127.0.0.1", not_before=NOW + DAY, not_after=NOW + 2 * DAY),
            "",
            False,
            id="not begun",
        ),
    ],
)
def test_only_services_with_a_trusted_certificate_are_called(  # noqa: PLR0917 - columns of a table, and fixtures
    issued: Callable[[trustme.CA], trustme.LeafCert],
    name: str,
    reached: bool,  # noqa: FBT001 - a table's column
    tmp_path: Path,
    door: Mount,
    authority: trustme.CA,
) -> None:
    mount = Mount.of(tmp_path / "service", issued(authority), authority)

    async def run() -> None:
        async with service(VALIDATOR, mount) as server:
            client = opened(ServicesTls.of(settings_of(door)), [await server.start()], name)
            try:
                assert client.transport.endpoint.startswith("grpcs://127.0.0.1:")
                if reached:
                    assert await decided(client) is ALLOWED
                else:
                    with pytest.raises(UnreachableError, match="the service cannot be reached"):
                        await decided(client)
            finally:
                await client.transport.close()

    asyncio.run(run())


def test_several_addresses_can_share_one_server_name(
    tmp_path: Path, door: Mount, authority: trustme.CA
) -> None:
    mount = Mount.of(tmp_path / "service", authority.issue_cert("validator"), authority)

    async def run() -> None:
        async with service(VALIDATOR, mount) as first, service(VALIDATOR, mount) as second:
            addresses = [await first.start(), await second.start()]
            settings = dataclasses.replace(settings_of(door, "validator"), validators=tuple(addresses))
            client = opened(ServicesTls.of(settings), addresses, "validator")
            for _ in range(4):
                assert await decided(client) is ALLOWED
            await client.transport.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS, ids=str)
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
def test_services_use_tls_1_2_or_later(
    kind: Kind,
    version: ssl.TLSVersion,
    accepted: bool,  # noqa: FBT001 - a table's column
    tmp_path: Path,
    authority: trustme.CA,
) -> None:
    mount = Mount.of(tmp_path / "service", authority.issue_cert("127.0.0.1"), authority)
    context = ssl.create_default_context(cafile=mount.authorities)
    context.load_cert_chain(mount.certificate, mount.key)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else the client itself would refuse the old ones
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])

    async def shake_hands() -> bool:
        async with service(kind, mount) as server:
            host, _, port = (await server.start()).rpartition(":")
            try:
                _, writer = await asyncio.open_connection(host, int(port), ssl=context)
            except (ssl.SSLError, ConnectionError):
                return False
            writer.transport.abort()
            return True

    assert asyncio.run(shake_hands()) is accepted


def test_renewing_certificates_and_authorities_on_both_sides_fails_no_call(
    tmp_path: Path, door: Mount, authority: trustme.CA
) -> None:
    new = trustme.CA()
    other_side = Mount.of(tmp_path / "service", authority.issue_cert("127.0.0.1"), authority)

    async def run() -> None:
        tls = ServicesTls.of(settings_of(door))
        assert tls is not None
        async with service(VALIDATOR, other_side) as server:
            client = opened(tls, [await server.start()])
            for credential in tls.reloaded_credentials:
                credential.add_listener(lambda _: client.transport.renew())
            watching = asyncio.ensure_future(keep_certificates_fresh(tls.reloaded_credentials))
            async with load(client) as decisions:
                await rotate(server, tls, client)
            watching.cancel()
            await asyncio.wait([watching])
            await client.transport.close()
        assert set(decisions) == {ALLOWED}

    async def rotate(server: RpcServer, tls: ServicesTls, client: HostingService) -> None:
        """Rotate in the right order: first the new authority, then certificates, then remove the old authority."""
        assert server.tls is not None
        serving, clients = server.tls.files
        shown, trusted = tls.reloaded_credentials
        both = {"ca.crt": bundle_of(authority, new)}
        other_side.swap(both)
        door.swap(both)
        await until(SECONDS, lambda: holds(clients, bundle_of(authority, new)))
        await until(SECONDS, lambda: holds(trusted, bundle_of(authority, new)))
        before = client.transport.channel
        for mount, name in ((other_side, "127.0.0.1"), (door, "door.example.com")):
            issued = new.issue_cert(name)
            mount.swap({"tls.crt": chain_of(issued), "tls.key": key_of(issued)})
        await until(SECONDS, lambda: holds(serving, other_side.certificate.read_bytes()))
        await until(SECONDS, lambda: holds(shown, door.certificate.read_bytes()))
        await until(SECONDS, lambda: is_other(client, before))
        only_new = {"ca.crt": bundle_of(new)}
        other_side.swap(only_new)
        door.swap(only_new)
        await until(SECONDS, lambda: holds(clients, bundle_of(new)))
        await until(SECONDS, lambda: holds(trusted, bundle_of(new)))

    asyncio.run(run())


async def holds(kept: Any, content: bytes) -> bool:
    return content in {getattr(kept.value, "pem", b""), getattr(kept.value, "chain", b"")}


async def is_other(client: HostingService, channel: grpc.aio.Channel) -> bool:
    return client.transport.channel is not channel


@contextlib.asynccontextmanager
async def load(client: HostingService) -> AsyncIterator[list[Any]]:
    """Call at a steady rate; every exception fails the test."""
    decisions: list[Any] = []
    ending = asyncio.Event()

    async def ask() -> None:
        decisions.append(await decided(client))

    async def run() -> None:
        async with asyncio.TaskGroup() as calls:
            while not ending.is_set():
                calls.create_task(ask())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), 1 / PER_SECOND)

    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        yield decisions
        seen = len(decisions)

        async def more() -> bool:
            return len(decisions) >= seen + PER_SECOND

        await until(SECONDS, more)
        ending.set()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"services_private_key_file": None},
            "--services-cert-file and --services-private-key-file go together",
        ),
        ({"validators": ("127.0.0.1:1", "127.0.0.1:2")}, "--validator: several addresses with TLS need"),
    ],
)
def test_contradicting_settings_are_refused(door: Mount, fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        ServicesTls.of(dataclasses.replace(settings_of(door), **fields))


def test_server_names_without_tls_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="--mutator-server-name needs TLS"):
        ServicesTls.of(FrontDoorSettings(mutator_server_name="mutator"))


def test_without_files_services_are_called_without_tls() -> None:
    assert ServicesTls.of(FrontDoorSettings()) is None
