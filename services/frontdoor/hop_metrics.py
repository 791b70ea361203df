"""Hop metrics: how the calls of a front door to its services went."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pratique.measures.series import Counts, Durations, Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from frontdoor.transports.balancing import Load
    from frontdoor.transports.hosting_services import HostingService
    from pratique.held_inputs import HeldInputs

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. A hop on one machine takes 1 ms, and none has more than 30 s."""


class HopMetrics:
    """All hops of one front door, by service."""

    def __init__(self) -> None:
        """Start at zero."""
        self._hops = Counts(
            "pratique_frontdoor_hops_total",
            "Calls to services, by service and gRPC code, tries that gRPC makes again counted once.",
            ("service", "code"),
        )
        self._seconds = Durations(
            "pratique_frontdoor_hop_duration_seconds",
            "Time from a call to a service to its answer, by service.",
            _BUCKETS,
            ("service",),
        )
        self._services: Sequence[HostingService] = ()
        self._held: HeldInputs[Any] | None = None

    def observer(self, service: str) -> Callable[[str, float], None]:
        """What is to be told of each hop to a service: gRPC's code for it by Go's name, and seconds."""
        return functools.partial(self._observe, service)

    def _observe(self, service: str, code: str, seconds: float) -> None:
        self._hops.add(service, code)
        self._seconds.observe(seconds, service)

    def show_services(self, services: Sequence[HostingService], held: HeldInputs[Any]) -> None:
        """Show how many addresses of these are known, and which of their replicas decide by what is ``held`` here."""
        self._services, self._held = services, held

    def collect(self) -> Iterator[Metric]:
        """Yield all of them, for a registry."""
        yield from self._hops.collect()
        yield from self._seconds.collect()
        yield from Observed(
            "pratique_frontdoor_service_addresses",
            "Addresses of a service that are known: its replicas, where each has one.",
            lambda: {(one.name,): one.transport.addresses for one in self._services},
            "service",
        ).collect()
        yield from Observed(
            "pratique_frontdoor_replica_agrees",
            "1 where a replica decides by what this front door decides by now, 0 where it decides by something else.",
            self._agreements,
            "service",
            "endpoint",
        ).collect()
        yield from Observed(
            "pratique_frontdoor_replica_calls_in_flight",
            "Calls to a replica without an answer; refused ones count for a second longer.",
            lambda: self._loads(lambda load: load.in_flight),
            "service",
            "endpoint",
        ).collect()
        yield from Observed(
            "pratique_frontdoor_replica_left_out",
            "1 where a replica gets no calls for a while because it is much slower than others.",
            lambda: self._loads(lambda load: load.left_out),
            "service",
            "endpoint",
        ).collect()
        yield from Observed(
            "pratique_frontdoor_replica_exclusions_total",
            "How often a replica was left out because it was much slower than others.",
            lambda: self._loads(lambda load: load.times_left_out),
            "service",
            "endpoint",
        ).collect()

    def _loads(self, read: Callable[[Load], int]) -> dict[tuple[str, ...], float]:
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
