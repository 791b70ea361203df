"""The mutator and the validators: how the front door connects to them, and whether they are ready."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc
import msgspec

from pratique.admission.controllers import Controller, Phase
from pratique.admission.v1 import catalogue_service_pb2, catalogue_service_pb2_grpc
from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.input_digests import InputDigests, RecentInputs
from pratique.https.tls import KeyPairFiles, ReloadedCertificate, read_authorities, read_key_pair
from pratique.rpc.descriptions import QuotaUsage, fetch_quota_usage
from pratique.rpc.handlers import inputs_from_messages
from pratique_frontdoor.settings import NEVER_HEDGED, CallKind, FrontDoorSettings, HedgeDelay
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport

_PAIR_FLAGS = ("--services-cert-file", "--services-private-key-file")


class ServicesTls:
    """The TLS of all channels to the mutator and the validators."""

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Read the files.

        Raises:
            ConfigurationError: a file is unusable, or is set without another that it needs.
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
        self.reloaded_credentials: tuple[ReloadedCertificate[Any], ...] = tuple(
            reloaded for reloaded in (self._pair, self._authorities) if reloaded is not None
        )
        """The reloaded files and their states."""

    @classmethod
    def of(cls, settings: FrontDoorSettings) -> ServicesTls | None:
        """Return the TLS of the settings; None if services are called without.

        Raises:
            ConfigurationError: as above, or server names are set without TLS.
        """
        tls = cls(settings)
        if tls.reloaded_credentials:
            _check_names(settings)
            return tls
        for flag, name in _server_names(settings):
            if name:
                raise ConfigurationError(f"{flag} needs TLS: give --services-ca-file as well")
        return None

    def credentials(self) -> grpc.ChannelCredentials:
        """Return credentials for a channel from the current content of the files."""
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
"""The default timeout of a kubelet's readiness probe: a later response would not be read."""

_PHASES = {
    Phase.MUTATE: catalogue_service_pb2.PHASE_MUTATE,
    Phase.VALIDATE: catalogue_service_pb2.PHASE_VALIDATE,
}


class HostingService(msgspec.Struct, frozen=True):
    """A service that hosts the enabled controllers of one phase."""

    name: str
    """The name for display."""
    transport: GrpcTransport
    """The transport that calls it."""
    phase: Phase
    """The phase that it runs."""
    expected: frozenset[str]
    """The controllers that it must host."""

    @classmethod
    def open(  # noqa: PLR0913 - keyword arguments with defaults, except for the first four
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
        timeout_seconds: float | None = None,
        hedge_delay: HedgeDelay = NEVER_HEDGED,
    ) -> HostingService:
        """Connect to a service that hosts controllers: on first use, or immediately for streams.

        With ``tls`` its certificate must have ``server_name``, or the name in the address if that is empty. A replica
        that is much slower than others is excluded, at first for ``slow_seconds``; 0 excludes none. Each call has
        ``timeout_seconds``; None means the review's time. One that validates is hedged after ``hedge_delay``.

        Raises:
            ConfigurationError: the addresses cannot be one target.
        """
        expected = frozenset(controller.name for controller in hosted if phase in controller.phases)
        scheme = "grpc://" if tls is None else "grpcs://"
        target = grpc_target(addresses)
        transport = GrpcTransport(
            target,
            endpoint=scheme + ",".join(address.removeprefix("dns:///") for address in addresses),
            credentials=None if tls is None else tls.credentials,
            server_name=server_name,
            observe=observe,
            streamed=phase if expected else None,
            streams=calls is not CallKind.UNARY,
            slow_seconds=slow_seconds,
            timeout_seconds=timeout_seconds,
            ours=True,
            hedge_delay=hedge_delay,
        )
        transport.addresses = len(addresses)
        return cls(name, transport, phase, expected)

    def require_inputs(self, held: RecentInputs[Any]) -> None:
        """Call only replicas that decide by the ``held`` inputs, and report how others differ."""

        def differences(digest: str) -> str:
            held.mismatches += 1
            found = held.find(digest)
            text = "" if found is None else "; ".join(self.differing_replicas(found[0]))
            return f": {text}" if text else ""

        self.transport.mismatched = differences

    def differing_replicas(self, digests: InputDigests) -> list[str]:
        """Return which replicas decide by other inputs, and how they differ."""
        replicas = self.transport.replicas if self.expected else ()
        return [
            f"{self.name} at {replica.endpoint} {_describe_difference(digests, replica.held)}"
            for replica in replicas
            if not replica.holds(digests.whole)
        ]

    def excluded(self) -> list[str]:
        """Return which replicas get no calls because they are slow."""
        return [
            f"{self.name} at {replica.endpoint} is much slower than others, and excluded for now"
            for replica in self.transport.replicas
            if replica.load.excluded
        ]

    async def quota_usage(self) -> QuotaUsage:
        """Return how much of each quota is used, as one replica knows; empty if none answers within a second.

        Replicas that share a ledger know the same. Of others, each knows what it has charged itself.
        """
        if not self.expected:
            return {}
        used = [replica for replica in self.transport.replicas if not replica.load.excluded]
        channel = used[0].channel if used else self.transport.channel
        try:
            return await fetch_quota_usage(channel, _PROBE_SECONDS)
        except grpc.aio.AioRpcError:
            return {}

    async def unready(self, digests: InputDigests) -> str:
        """Return why it cannot be called now for decisions by these inputs.

        Empty if it can, or if it hosts nothing.
        """
        if not self.expected:
            return ""
        replicas = self.transport.replicas
        agreeing = [replica for replica in replicas if replica.holds(digests.whole)]
        if replicas and not agreeing:
            return "; ".join(self.differing_replicas(digests))
        channel = agreeing[0].channel if agreeing else self.transport.channel
        catalogue = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
        try:
            described = await catalogue.Describe(
                catalogue_service_pb2.DescribeRequest(), timeout=_PROBE_SECONDS, wait_for_ready=True
            )
        except grpc.aio.AioRpcError as error:
            return f"{self.name} at {self.transport.endpoint}: {error.code().name}"
        phase = _PHASES[self.phase]
        there = {controller.name for controller in described.controllers if phase in controller.phases}
        missing = sorted(self.expected - there)
        if missing:
            hint = "start it with the same chain flags"
            return f"{self.name} at {self.transport.endpoint} does not host {', '.join(missing)}: {hint}"
        held = inputs_from_messages(described.held)
        if all(digests_held.whole != digests.whole for digests_held in held):
            return f"{self.name} at {self.transport.endpoint} {_describe_difference(digests, held)}"
        return ""


def _describe_difference(ours: InputDigests, held: Sequence[InputDigests]) -> str:
    if not held:
        return "does not report its inputs: it is older than this front door, or not a service of this suite"
    return f"decides by another {', '.join(ours.differences(held[0])) or 'set of inputs'}"
