"""The mutator and the validators, as the front door knows them."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from pratique.admission.controllers import Controller, Phase
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc
from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.https.tls import KeyPairFiles, ReloadedCertificate, read_authorities, read_key_pair
from pratique.rpc.handlers import inputs_from_messages
from pratique.telemetry.metrics import CallbackMetric, DurationHistogram, LabeledCounter
from pratique_frontdoor.transports.balancing import ReplicaLoad
from pratique_frontdoor.transports.grpc import GrpcTransport, grpc_target

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from pratique_frontdoor.settings import FrontDoorSettings


class CallKind(enum.StrEnum):
    """What carries calls to the services of this suite. Those to webhooks are always made by themselves."""

    STREAM = "stream"
    """A stream to each replica, on which many are under way at a time; by themselves where a service knows none."""
    UNARY = "unary"
    """Each by itself, balanced and made again by gRPC."""


_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. A hop on one machine takes 1 ms, and none has more than 30 s."""


class HopMetrics:
    """All hops of one front door, by service."""

    def __init__(self) -> None:
        """Start at zero."""
        self._hops = LabeledCounter(
            "pratique_frontdoor_hops_total",
            "Calls to services, by service and gRPC code, tries that gRPC makes again counted once.",
            ("service", "code"),
        )
        self._seconds = DurationHistogram(
            "pratique_frontdoor_hop_duration_seconds",
            "Time from a call to a service to its answer, by service.",
            _BUCKETS,
            ("service",),
        )
        self._services: Sequence[HostingService] = ()
        self._held: RecentInputs[Any] | None = None

    def observer(self, service: str) -> Callable[[str, float], None]:
        """What is to be told of each hop to a service: gRPC's code for it by Go's name, and seconds."""
        return functools.partial(self._observe, service)

    def _observe(self, service: str, code: str, seconds: float) -> None:
        self._hops.add(service, code)
        self._seconds.observe(seconds, service)

    def show_services(self, services: Sequence[HostingService], held: RecentInputs[Any]) -> None:
        """Show how many addresses of these are known, and which of their replicas decide by what is ``held`` here."""
        self._services, self._held = services, held

    def collect(self) -> Iterator[Metric]:
        """Yield all of them, for a registry."""
        yield from self._hops.collect()
        yield from self._seconds.collect()
        yield from CallbackMetric(
            "pratique_frontdoor_service_addresses",
            "Addresses of a service that are known: its replicas, where each has one.",
            lambda: {(one.name,): one.transport.addresses for one in self._services},
            "service",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_replica_agrees",
            "1 where a replica decides by what this front door decides by now, 0 where it decides by something else.",
            self._agreements,
            "service",
            "endpoint",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_replica_calls_in_flight",
            "Calls to a replica without an answer; refused ones count for a second longer.",
            lambda: self._loads(lambda load: load.in_flight),
            "service",
            "endpoint",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_replica_left_out",
            "1 where a replica gets no calls for a while because it is much slower than others.",
            lambda: self._loads(lambda load: load.left_out),
            "service",
            "endpoint",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_replica_exclusions_total",
            "How often a replica was left out because it was much slower than others.",
            lambda: self._loads(lambda load: load.times_left_out),
            "service",
            "endpoint",
        ).collect()

    def _loads(self, read: Callable[[ReplicaLoad], int]) -> dict[tuple[str, ...], float]:
        return {
            (service.name, replica.endpoint): read(replica.load)
            for service in self._services
            for replica in service.transport.replicas
        }

    def _agreements(self) -> dict[tuple[str, ...], float]:
        digest = "" if self._held is None else self._held.digests.whole
        return {
            (service.name, replica.endpoint): int(replica.holds(digest))
            for service in self._services
            for replica in service.transport.replicas
        }


_PAIR_FLAGS = ("--services-cert-file", "--services-private-key-file")


class ServicesTls:
    """What every channel to the mutator and the validators is made with."""

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Read the files.

        Raises:
            ConfigurationError: one cannot be used, or is given without another that it needs.
        """
        files = KeyPairFiles.from_flags(
            settings.services_cert_file, settings.services_private_key_file, _PAIR_FLAGS
        )
        authority_file = settings.services_ca_file
        self._pair = None
        if files is not None:
            read = functools.partial(read_key_pair, files)
            self._pair = ReloadedCertificate(
                "services client certificate", read, files.paths, ends_at=lambda pair: pair.ends_at
            )
        self._authorities = None
        if authority_file is not None:
            read_bundle = functools.partial(read_authorities, authority_file, "--services-ca-file")
            self._authorities = ReloadedCertificate(
                "services authorities", read_bundle, (authority_file,), ends_at=lambda bundle: bundle.ends_at
            )
        self.kept: tuple[ReloadedCertificate[Any], ...] = tuple(
            one for one in (self._pair, self._authorities) if one is not None
        )
        """What is read again, and how it is with each."""

    @classmethod
    def of(cls, settings: FrontDoorSettings) -> ServicesTls | None:
        """The TLS that the settings ask for; None where services are asked without.

        Raises:
            ConfigurationError: as above, or names are given for services that are not to show any.
        """
        tls = cls(settings)
        if tls.kept:
            _check_names(settings)
            return tls
        for flag, name in _server_names(settings):
            if name:
                raise ConfigurationError(f"{flag} needs TLS: give --services-ca-file as well")
        return None

    def credentials(self) -> grpc.ChannelCredentials:
        """Make what a channel is opened with, of what is in the files now."""
        bundle = None if self._authorities is None else self._authorities.value.pem
        if self._pair is None:
            return grpc.ssl_channel_credentials(bundle)
        pair = self._pair.value
        return grpc.ssl_channel_credentials(bundle, pair.key, pair.chain)


def _server_names(settings: FrontDoorSettings) -> tuple[tuple[str, str], ...]:
    return (
        ("--mutator-server-name", settings.mutator_server_name),
        ("--validator-server-name", settings.validator_server_name),
    )


def _check_names(settings: FrontDoorSettings) -> None:
    if len(settings.validators) > 1 and not settings.validator_server_name:
        raise ConfigurationError(
            "--validator: several addresses with TLS need --validator-server-name, a name that is in the "
            "certificate of each"
        )


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

    def agree_with(self, held: RecentInputs[Any]) -> None:
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

    def differing(self, digests: InputDigests) -> list[str]:
        """Say which replicas do not decide by these inputs, and in what they differ."""
        replicas = self.transport.replicas if self.expected else ()
        return [
            f"{self.name} at {one.endpoint} {_describe_difference(digests, one.held)}"
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

    async def unready(self, digests: InputDigests) -> str:
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
            return f"{self.name} at {self.transport.endpoint} {_describe_difference(digests, held)}"
        return ""


def _describe_difference(ours: InputDigests, held: Sequence[InputDigests]) -> str:
    if not held:
        return (
            "does not say by what it decides: it is older than this front door, or no service of this suite"
        )
    return f"decides by another {', '.join(ours.differences(held[0])) or 'set of inputs'}"
