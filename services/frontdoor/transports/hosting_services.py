"""Hosting services: the mutator and the validators, as the front door knows them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import grpc

from frontdoor.call_kinds import CallKind
from frontdoor.transports.grpc import GrpcTransport
from frontdoor.transports.targets import grpc_target
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc
from pratique.definitions import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from frontdoor.transports.services_tls import ServicesTls
    from pratique.definitions import Controller

_PROBE_SECONDS = 1.0
"""The timeout of a kubelet's readiness probe, unless it is told otherwise: a later answer would not be heard."""

_PHASES = {
    Phase.MUTATE: catalogue_service_pb2.PHASE_MUTATE,
    Phase.VALIDATE: catalogue_service_pb2.PHASE_VALIDATE,
}


@dataclasses.dataclass(frozen=True, slots=True)
class HostingService:
    """A service that hosts one phase's halves of the controllers that are on."""

    name: str
    """For people."""
    transport: GrpcTransport
    """How it is asked."""
    phase: Phase
    """The halves that it runs."""
    expected: frozenset[str]
    """The controllers that it is to host."""

    @classmethod
    def open(
        cls,
        name: str,
        addresses: Sequence[str],
        phase: Phase,
        hosted: Iterable[Controller],
        *,
        tls: ServicesTls | None = None,
        server_name: str = "",
        observe: Callable[[str, float], None] | None = None,
        calls: CallKind = CallKind.STREAM,
    ) -> HostingService:
        """Make the way to a service that hosts something; it connects on first use, or at once for a stream.

        With ``tls`` its certificate must have ``server_name``; the name in the address where that is empty.

        Raises:
            ConfigurationError: the addresses cannot be one target.
        """
        expected = frozenset(one.name for one in hosted if phase in one.phases)
        scheme = "grpc://" if tls is None else "grpcs://"
        transport = GrpcTransport(
            grpc_target(addresses),
            endpoint=scheme + ",".join(address.removeprefix("dns:///") for address in addresses),
            credentials=None if tls is None else tls.credentials,
            server_name=server_name,
            observe=observe,
            streamed=phase if calls is CallKind.STREAM and expected else None,
        )
        transport.addresses = len(addresses)
        return cls(name, transport, phase, expected)

    async def unready(self) -> str:
        """Why it cannot be asked now; empty where it can, or where there is nothing to ask it."""
        if not self.expected:
            return ""
        catalogue = catalogue_service_pb2_grpc.CatalogueServiceStub(self.transport.channel)
        try:
            described = await catalogue.Describe(
                catalogue_service_pb2.DescribeRequest(), timeout=_PROBE_SECONDS, wait_for_ready=True
            )
        except grpc.aio.AioRpcError as error:
            return f"{self.name} at {self.transport.endpoint}: {error.code().name}"
        phase = _PHASES[self.phase]
        there = {one.name for one in described.controllers if phase in one.phases}
        missing = sorted(self.expected - there)
        if missing:
            hint = "start it with the same chain flags"
            return f"{self.name} at {self.transport.endpoint} does not host {', '.join(missing)}: {hint}"
        return ""
