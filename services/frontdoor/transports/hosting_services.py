"""Hosting services: the mutator and the validators, as the front door knows them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import grpc

from frontdoor.call_kinds import CallKind
from frontdoor.transports.grpc import GrpcTransport
from frontdoor.transports.targets import grpc_target
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc
from pratique.definitions import Phase
from pratique.rpc.inputs import inputs_from_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from frontdoor.transports.services_tls import ServicesTls
    from pratique.definitions import Controller
    from pratique.digests import Digests
    from pratique.held_inputs import HeldInputs

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
    def open(  # noqa: PLR0913 - named, and each with a default but the first four
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
        slow_seconds: float = 10.0,
    ) -> HostingService:
        """Make the way to a service that hosts something; it connects on first use, or at once for a stream.

        With ``tls`` its certificate must have ``server_name``; the name in the address where that is empty. A replica
        that is much slower than others is left out, at first for ``slow_seconds``; 0: never.

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
            streamed=phase if expected else None,
            streams=calls is CallKind.STREAM,
            slow_seconds=slow_seconds,
            ours=True,
        )
        transport.addresses = len(addresses)
        return cls(name, transport, phase, expected)

    def agree_with(self, held: HeldInputs[Any]) -> None:
        """Ask only replicas that decide by what is ``held`` here, and say in what others differ."""

        def differences(digest: str) -> str:
            held.mismatches += 1
            found = held.find(digest)
            told = "" if found is None else "; ".join(self.differing(found[0]))
            return f": {told}" if told else ""

        self.transport.mismatched = differences

    def agrees(self, digest: str) -> bool:
        """Tell whether a replica decides by the inputs of a digest, as far as replicas are known one by one."""
        replicas = self.transport.replicas if self.expected else ()
        return not replicas or any(one.holds(digest) for one in replicas)

    def differing(self, digests: Digests) -> list[str]:
        """Say which replicas do not decide by these inputs, and in what they differ."""
        replicas = self.transport.replicas if self.expected else ()
        return [
            f"{self.name} at {one.endpoint} {_difference(digests, one.held)}"
            for one in replicas
            if not one.holds(digests.whole)
        ]

    def left_out(self) -> list[str]:
        """Say which replicas get no calls because they are slow."""
        return [
            f"{self.name} at {one.endpoint} is much slower than others, and left out for now"
            for one in self.transport.replicas
            if one.load.left_out
        ]

    async def unready(self, digests: Digests) -> str:
        """Why it cannot be asked now for what is decided by these inputs.

        Empty where it can, or where there is nothing to ask it.
        """
        if not self.expected:
            return ""
        replicas = self.transport.replicas
        agreeing = [one for one in replicas if one.holds(digests.whole)]
        if replicas and not agreeing:
            return "; ".join(self.differing(digests))
        channel = agreeing[0].channel if agreeing else self.transport.channel
        catalogue = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
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
        held = inputs_from_messages(described.held)
        if all(one.whole != digests.whole for one in held):
            return f"{self.name} at {self.transport.endpoint} {_difference(digests, held)}"
        return ""


def _difference(ours: Digests, held: Sequence[Digests]) -> str:
    if not held:
        return (
            "does not say by what it decides: it is older than this front door, or no service of this suite"
        )
    return f"decides by another {', '.join(ours.differences(held[0])) or 'set of inputs'}"
