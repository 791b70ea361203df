"""The system under chaos: a front door, two mutators and two validators, over mutual TLS, each behind a link."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from chaos.chains import CLUSTER, CONTROLLERS, FIRST, chaperone_installed, configuration, write_documents
from chaos.disks import Disk, small_disk
from chaos.links import Link, linked
from chaos.nodes import Node
from chaos.schedules import DOOR, MUTATORS, SERVICES, VALIDATORS
from pratique.configuration.settings import ChainSettings
from support.name_servers import name_server

CALLER = "kube-apiserver"
_HOSTS = ("127.0.0.1", "127.0.0.2")
"""Of the mutators' links."""
_RECORD_BYTES = 1024 * 1024


@dataclasses.dataclass
class System:
    """All processes by name, and their files."""

    nodes: dict[str, Node]
    links: dict[str, Link]
    disk: Disk
    folder: Path
    renewals: itertools.count[int] = dataclasses.field(default_factory=lambda: itertools.count(1))

    @property
    def url(self) -> str:
        """Where clients call the front door."""
        return f"https://127.0.0.1:{self.links[DOOR].port}"

    def door(self) -> int:
        """The front door's process, which is another one from time to time."""
        return self.nodes[DOOR].pid

    def mutators(self) -> list[int]:
        """The mutators' processes, of which the same is true."""
        return [self.nodes[name].pid for name in MUTATORS]

    def client_tls(self) -> ssl.SSLContext:
        """The authority and certificate of a client."""
        certificates = self.folder / "certs"
        made = ssl.create_default_context(cafile=certificates / "ca.crt")
        made.load_cert_chain(certificates / CALLER / "tls.crt", certificates / CALLER / "tls.key")
        return made

    def swap(self, name: str) -> None:
        """Let all services have another configuration."""
        write_documents(self.folder / "policies.yaml", configuration(name))

    async def renew(self) -> None:
        """Renew all certificates, under the same authority."""
        shown = self.folder / "certs" / DOOR / "tls.crt"
        before = shown.read_bytes()
        await make_certificates(self.folder / "certs", f"renewal-{next(self.renewals)}.example.com")
        assert shown.read_bytes() != before


async def make_certificates(folder: Path, *hosts: str) -> None:
    """Make or renew certificates by ``pratique certs``, as people do."""
    named = [flag for host in hosts for flag in ("--host", host)]
    command = ["-m", "pratique_cli", "certs", str(folder), "--client", CALLER, *named]
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=silent, stderr=silent)
    assert await process.wait() == 0


def chain_settings(folder: Path, name: str) -> ChainSettings:
    """The chain settings of the services, for the oracle; with one of the two configurations."""
    from pratique.configuration.settings import ChainSettings

    policies = write_documents(folder / f"{name}.yaml", configuration(name))
    cluster = write_documents(folder / "cluster.yaml", CLUSTER)
    return ChainSettings(config=(policies,), cluster=(cluster,), admission_control=CONTROLLERS)


def _chain_flags(folder: Path) -> tuple[str, ...]:
    controllers = ("--admission-control", ",".join(CONTROLLERS))
    return (
        *controllers,
        "--config",
        str(folder / "policies.yaml"),
        "--cluster",
        str(folder / "cluster.yaml"),
    )


def _serving(certificates: Path, name: str, caller: str) -> tuple[str, ...]:
    own = certificates / name
    shown = ("--tls-cert-file", str(own / "tls.crt"), "--tls-private-key-file", str(own / "tls.key"))
    return (*shown, "--client-ca-file", str(own / "ca.crt"), "--client-allowed-names", caller)


def _service(name: str, folder: Path) -> tuple[str, ...]:
    kind = name.partition("-")[0]
    drain = ("--drain-seconds", "0.5", "--grace-seconds", "10")
    return (kind, *_serving(folder / "certs", kind, DOOR), *drain, *_chain_flags(folder))


def _door(folder: Path, mutators: str, validators: str, disk: Disk) -> tuple[str, ...]:
    own = folder / "certs" / DOOR
    return (
        DOOR,
        *_serving(folder / "certs", DOOR, CALLER),
        *("--services-ca-file", str(own / "ca.crt"), "--services-cert-file", str(own / "tls.crt")),
        *("--services-private-key-file", str(own / "tls.key")),
        *("--mutator", mutators, "--mutator-server-name", "pratique-mutator.default.svc"),
        *("--validator", validators),
        *("--validator-server-name", "pratique-validator.default.svc"),
        *(
            "--record",
            str(disk.file("record.jsonl")),
            "--record-max-bytes",
            str(_RECORD_BYTES),
            "--record-files",
            "2",
        ),
        *("--drain-seconds", "0.5", *_chain_flags(folder)),
    )


@contextlib.asynccontextmanager
async def system(folder: Path) -> AsyncIterator[System]:
    """Run everything, until it is no longer needed."""
    await make_certificates(folder / "certs")
    write_documents(folder / "cluster.yaml", CLUSTER)
    write_documents(folder / "policies.yaml", configuration(FIRST))
    async with contextlib.AsyncExitStack() as stack:
        disk = stack.enter_context(small_disk(folder / "disk"))
        path = stack.enter_context(chaperone_installed(folder / "packages"))

        def node(name: str, arguments: tuple[str, ...]) -> Node:
            made = Node(name, arguments, path=path, log=disk.file(f"{name}.log"), folder=folder)
            stack.push_async_callback(made.stop)
            return made

        nodes = {name: node(name, _service(name, folder)) for name in SERVICES}
        await asyncio.gather(*(item.start() for item in nodes.values()))
        links: dict[str, Link] = {}
        # The mutators are one name, as a headless Service is: another address each, and the same port.
        port = 0
        for name, host in zip(MUTATORS, _HOSTS, strict=True):
            links[name] = await stack.enter_async_context(linked(nodes[name].port, host, port))
            port = links[name].port
        for name in VALIDATORS:
            links[name] = await stack.enter_async_context(linked(nodes[name].port))
        names = await stack.enter_async_context(name_server(*_HOSTS))
        validators = ",".join(f"127.0.0.1:{links[name].port}" for name in VALIDATORS)
        nodes[DOOR] = node(DOOR, _door(folder, names.target(port), validators, disk))
        await nodes[DOOR].start()
        links[DOOR] = await stack.enter_async_context(linked(nodes[DOOR].port))
        yield System(nodes, links, disk, folder)
