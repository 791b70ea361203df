"""The API server's own admission metrics, and those of the front door and its calls to services.

Names, labels and buckets are those of ``k8s.io/apiserver/pkg/admission/metrics/metrics.go``, so dashboards and alerts
for an API server work for this chain too. A decision is observed after its response is sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pratique.admission.controllers import Phase
from pratique.admission.late_reviews import late_reviews_metric
from pratique.admission.results import OutcomeStatus
from pratique.configuration.input_digests import RecentInputs
from pratique.telemetry.metrics import CallbackMetric, DurationHistogram, LabeledCounter
from pratique.telemetry.registry import CONTENT_TYPE, create_registry, render_metrics
from pratique_frontdoor.chain.decisions import Decision, Shadow, Step, Violation
from pratique_frontdoor.http.messages import Load

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    from pratique_frontdoor.decision_logs.writers import DecisionLog
    from pratique_frontdoor.http.connections import UnauthenticatedConnections
    from pratique_frontdoor.recording.recorders import Recorder
    from pratique_frontdoor.transports.hosting_services import HostingService
    from pratique_frontdoor.transports.replicas import ReplicaLoad

__all__ = ["CONTENT_TYPE", "Metrics"]

_STEP_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS = (*_STEP_BUCKETS, 10.0, 25.0)
_REQUEST_BUCKETS = (0.001, 0.0025, *_STEP_BUCKETS, 5.0, 10.0, 30.0)

_WEBHOOKS = frozenset({"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"})
_WITH_SEVERAL_STEPS = _WEBHOOKS | {"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"}
_STEP_TYPE = {Phase.MUTATE: "admit", Phase.VALIDATE: "validate"}
_WEBHOOK_TYPE = {Phase.MUTATE: "admit", Phase.VALIDATE: "validating"}  # as metrics.go has it
_REJECTING = frozenset({OutcomeStatus.DENIED, OutcomeStatus.FAILED})
_HIGHEST_CODE = 600  # metrics.go cuts codes there to bound the number of series


class Metrics:
    """All metrics of ``GET /metrics``, in their own registry."""

    def __init__(self) -> None:
        """Start at zero."""
        self._registry = create_registry()
        self._requests = self._counter(
            "pratique_frontdoor_requests_total", "HTTP requests answered.", "path", "code"
        )
        self._request_seconds = self._histogram(
            "pratique_frontdoor_request_duration_seconds",
            "Time from the head of a request for a decision to its answer.",
            _REQUEST_BUCKETS,
            "path",
        )
        self._outages = self._counter(
            "pratique_frontdoor_outages_total",
            "Reviews that were answered with 503 or 504 because a service gave no usable answer.",
            *("service", "cause"),
        )
        self._admission_metrics()

    def _admission_metrics(self) -> None:
        prefix, labels = "apiserver_admission_", ("type", "operation", "rejected")
        self._steps = self._histogram(
            f"{prefix}step_admission_duration_seconds",
            "Admission sub-step latency, by operation and step type (validate or admit).",
            _STEP_BUCKETS,
            *labels,
        )
        self._controllers = self._histogram(
            f"{prefix}controller_admission_duration_seconds",
            "Admission controller latency, by name, operation and type (validate or admit).",
            _STEP_BUCKETS,
            "name",
            *labels,
        )
        self._webhooks = self._histogram(
            f"{prefix}webhook_admission_duration_seconds",
            "Admission webhook latency, by name, operation and type (validating or admit).",
            _WEBHOOK_BUCKETS,
            "name",
            *labels,
        )
        self._webhook_requests = self._counter(
            f"{prefix}webhook_request_total",
            "Admission webhook requests, by name, type, operation, HTTP code and whether they were rejected.",
            *("name", "type", "operation", "code", "rejected"),
        )
        self._webhook_rejections = self._counter(
            f"{prefix}webhook_rejection_count",
            "Admission webhook rejections; error_type is no_error where the webhook itself refused.",
            *("name", "type", "operation", "error_type", "rejection_code"),
        )
        self._webhook_fail_open = self._counter(
            f"{prefix}webhook_fail_open_count", "Admission webhooks that failed open.", "name", "type"
        )

        self._shadows = self._counter(
            "pratique_shadow_decisions_total",
            "Decisions in shadow, by what policies, webhooks and controllers would have done.",
            *("rollout", "controller", "name", "configuration", "outcome"),
        )
        self._violations = self._counter(
            "pratique_mutation_violations_total",
            "Mutations that changed fields which an allow-list does not allow, by what happened to these.",
            *("allow_list", "controller", "name", "configuration", "action"),
        )

        self._registry.register(late_reviews_metric())

    def _counter(self, name: str, documentation: str, *labels: str) -> LabeledCounter:
        counts = LabeledCounter(name, documentation, labels)
        self._registry.register(counts)
        return counts

    def _histogram(
        self, name: str, documentation: str, buckets: Sequence[float], *labels: str
    ) -> DurationHistogram:
        durations = DurationHistogram(name, documentation, buckets, labels)
        self._registry.register(durations)
        return durations

    def show_recording(self, recorder: Recorder) -> None:
        """Show how many lines of a recording were written and dropped, read on every scrape."""
        self._registry.register(
            CallbackMetric(
                "pratique_recording_written_total", "Lines that were recorded.", lambda: recorder.written
            )
        )
        self._registry.register(
            CallbackMetric(
                "pratique_recording_dropped_total",
                "Lines that were not recorded: the queue was full, or they could not be written.",
                lambda: recorder.dropped,
            )
        )

    def show_decision_log(self, log: DecisionLog) -> None:
        """Show the state of a decision log, read on every scrape."""
        for name, documentation, read in (
            ("written_total", "Decisions and outages that were logged.", lambda: log.written),
            (
                "lost_total",
                "Decisions and outages that were not logged: no room to wait, or no writing.",
                lambda: log.lost,
            ),
            (
                "sequence",
                "Number of the last entry: a log that ends before it was cut.",
                lambda: log.sequence,
            ),
            ("failing", "1 while the decision log cannot be written.", lambda: int(bool(log.failing))),
        ):
            self._registry.register(CallbackMetric(f"pratique_decision_log_{name}", documentation, read))

    def show_load(self, load: Load) -> None:
        """Show the load, read on every scrape."""
        for name, documentation, read in (
            ("in_flight_bytes", "Bytes of reviews in memory.", lambda: load.held_bytes),
            ("in_flight_reviews", "Reviews that are being decided now.", lambda: load.reviews),
            ("in_flight_limit_bytes", "Bytes of reviews that may be held.", lambda: load.limit_bytes),
            (
                "shed_total",
                "Requests turned away with 503 because too much was in flight.",
                lambda: load.shed,
            ),
        ):
            self._registry.register(CallbackMetric(f"pratique_frontdoor_{name}", documentation, read))
        self._registry.register(
            CallbackMetric(
                "pratique_frontdoor_shed_by_priority_total",
                "Requests turned away with 503, by the priority of the review and the limit that it met.",
                load.refused.copy,
                "priority",
                "limit",
            )
        )

    def show_connections(self, connections: UnauthenticatedConnections) -> None:
        """Show the memory of unauthenticated connections, and how many were closed for it."""
        for name, documentation, read in (
            (
                "connections",
                "Connections whose callers were not let in.",
                lambda: len(connections),
            ),
            ("bytes", "Bytes that unauthenticated connections take.", lambda: connections.held_bytes),
        ):
            self._registry.register(
                CallbackMetric(f"pratique_frontdoor_unauthenticated_{name}", documentation, read)
            )
        self._registry.register(
            CallbackMetric(
                "pratique_frontdoor_connections_closed_total",
                "Connections closed because of what they, or others, took up.",
                connections.closed.copy,
                "reason",
            )
        )

    def show(self, collector: Collector) -> None:
        """Show the metrics of another collector, read on every scrape."""
        self._registry.register(collector)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return render_metrics(self._registry)

    def count_request(self, path: str, code: int) -> None:
        """Count an HTTP request. ``path`` is from a fixed set, never from the client."""
        self._requests.add(path, str(code))

    def count_outage(self, service: str, cause: str) -> None:
        """Count an outage. Both labels are from fixed sets."""
        self._outages.add(service, cause)

    def observe_request(self, path: str, seconds: float) -> None:
        """Observe the duration of a request for a decision."""
        self._request_seconds.observe(seconds, path)

    def observe_decision(self, operation: str, decision: Decision) -> None:
        """Observe a decision and its steps."""
        for phase, seconds in decision.phase_seconds.items():
            rejected = not decision.allowed and _rejects(phase, decision.steps)
            self._steps.observe(seconds, _STEP_TYPE[phase], operation, _boolean_label(rejected))
        several = []
        for step in decision.steps:
            if step.outcome is OutcomeStatus.SKIPPED:
                continue
            if step.shadow is not None:
                self._count_shadow(step, step.shadow)
            elif step.violation is not None:
                self._count_violation(step, step.violation)
            if step.controller in _WITH_SEVERAL_STEPS:
                several.append(step)
            else:
                self._observe_controller(operation, step.controller, step.phase, [step])
        if several:
            self._observe_several(operation, several)

    def _count_shadow(self, step: Step, shadow: Shadow) -> None:
        self._shadows.add(shadow.rollout, step.controller, step.name, step.configuration, str(shadow.outcome))

    def _count_violation(self, step: Step, violation: Violation) -> None:
        labels = (violation.allow_list, step.controller, step.name, step.configuration)
        self._violations.add(*labels, str(violation.action))

    def _observe_controller(self, operation: str, name: str, phase: Phase, steps: Sequence[Step]) -> None:
        durations = [step.duration_seconds for step in steps]
        # Webhooks and policies run one after another in the mutating phase, and concurrently in the validating one.
        seconds = sum(durations) if phase is Phase.MUTATE else max(durations)
        self._controllers.observe(
            seconds, name, _STEP_TYPE[phase], operation, _boolean_label(_rejects(phase, steps))
        )

    def _observe_several(self, operation: str, steps: Sequence[Step]) -> None:
        passes: dict[tuple[str, Phase, int], list[Step]] = {}
        for step in steps:
            passes.setdefault((step.controller, step.phase, step.round), []).append(step)
            if step.controller in _WEBHOOKS:
                self._observe_webhook(operation, step)
        for (name, phase, _), members in passes.items():
            self._observe_controller(operation, name, phase, members)

    def _observe_webhook(self, operation: str, step: Step) -> None:
        if step.outcome is OutcomeStatus.FAILED and not (step.endpoint or step.code):
            return  # it could not be matched
        kind, rejected = _WEBHOOK_TYPE[step.phase], step.outcome in _REJECTING
        if rejected:
            self._webhook_rejections.add(step.name, kind, operation, _error_type(step), _code_label(step))
        elif step.outcome is OutcomeStatus.FAILED_OPEN and step.shadow is None:
            self._webhook_fail_open.add(step.name, kind)
        self._webhook_requests.add(step.name, kind, operation, _code_label(step), _boolean_label(rejected))
        self._webhooks.observe(step.duration_seconds, step.name, kind, operation, _boolean_label(rejected))


def _rejects(phase: Phase, steps: Iterable[Step]) -> bool:
    return any(step.phase is phase and step.outcome in _REJECTING for step in steps)


def _error_type(step: Step) -> str:
    if not step.code:
        return "apiserver_internal_error"  # denied by the chain itself
    return "no_error" if step.outcome is OutcomeStatus.DENIED else "calling_webhook_error"


def _code_label(step: Step) -> str:
    if step.outcome in _REJECTING or step.outcome is OutcomeStatus.FAILED_OPEN:
        return str(min(step.code, _HIGHEST_CODE))
    return "200"


def _boolean_label(flag: bool) -> str:  # noqa: FBT001 - it is a value, not a switch
    return "true" if flag else "false"


_CALL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. A call on one machine takes 1 ms, and none has more than 30 s."""


class ServiceCallMetrics:
    """Metrics of the calls of one front door, by service."""

    def __init__(self) -> None:
        """Start at zero."""
        self._calls = LabeledCounter(
            "pratique_frontdoor_hops_total",
            "Calls to services, by service and gRPC code; a call that gRPC retries counts once.",
            ("service", "code"),
        )
        self._seconds = DurationHistogram(
            "pratique_frontdoor_hop_duration_seconds",
            "Time from a call to a service to its answer, by service.",
            _CALL_BUCKETS,
            ("service",),
        )
        self._services: Sequence[HostingService] = ()
        self._held: RecentInputs[Any] | None = None

    def observer(self, service: str) -> Callable[[str, float], None]:
        """Return the function to call after each call to a service, with gRPC's code by Go's name, and seconds."""
        return functools.partial(self._observe, service)

    def _observe(self, service: str, code: str, seconds: float) -> None:
        self._calls.add(service, code)
        self._seconds.observe(seconds, service)

    def show_services(self, services: Sequence[HostingService], held: RecentInputs[Any]) -> None:
        """Show the known addresses of services, and which replicas agree with the ``held`` inputs."""
        self._services, self._held = services, held

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, for a registry."""
        yield from self._calls.collect()
        yield from self._seconds.collect()
        yield from CallbackMetric(
            "pratique_frontdoor_service_addresses",
            "Known addresses of a service: its replicas, if each has one.",
            lambda: {(service.name,): service.transport.addresses for service in self._services},
            "service",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_replica_agrees",
            "1 if a replica decides by the current inputs of this front door, 0 if it decides by others.",
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
            "pratique_frontdoor_replica_calls_total",
            "Calls to a replica that have ended, whatever came of them.",
            lambda: self._loads(lambda load: load.ended),
            "service",
            "endpoint",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_replica_late_calls_total",
            "Calls that were given up because this replica did not answer in time.",
            lambda: self._loads(lambda load: load.late),
            "service",
            "endpoint",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_hedges_total",
            "Calls that took longer than --validator-hedge-after, by service and what came of them.",
            self._hedges,
            "service",
            "result",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_replica_left_out",
            "1 if a replica gets no calls for a while because it is much slower than others.",
            lambda: self._loads(lambda load: load.excluded),
            "service",
            "endpoint",
        ).collect()
        yield from CallbackMetric(
            "pratique_frontdoor_replica_exclusions_total",
            "How often a replica was excluded because it was much slower than others.",
            lambda: self._loads(lambda load: load.exclusions),
            "service",
            "endpoint",
        ).collect()

    def _hedges(self) -> dict[tuple[str, ...], float]:
        return {
            (service.name, str(result)): count
            for service in self._services
            for result, count in service.transport.hedges.items()
        }

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
