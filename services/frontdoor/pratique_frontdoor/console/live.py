"""What a front door is doing now: its newest decisions, its replicas, its certificates and its quotas."""

from __future__ import annotations

import collections
import datetime as dt
import math
import threading
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from pratique.admission.controllers import QuotaAmount
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern
from pratique.cluster.store import ANY_NAMESPACE
from pratique_frontdoor.console.playground import DecidedReview
from pratique_frontdoor.console.recorded_lines import (
    MAX_ROWS,
    ListedDecision,
    RecordedLine,
    StepLatency,
    Totals,
    list_line,
    read_decision,
    read_line,
)

KEPT_DECISIONS = 1000
"""How many decisions are kept."""
KEPT_BYTES = 16 * 1024 * 1024
"""How many bytes of them are kept: a thousand reviews of Pods have about 10 MiB."""
LISTED_DECISIONS = 50
"""How many of them the page lists."""
_RECENT = dt.timedelta(minutes=1)


class LivePage(msgspec.Struct, frozen=True):
    """What the newest decisions add up to, and a list of the newest."""

    decisions: Sequence[ListedDecision]
    """Newest first. Their numbers count from the start of the process."""
    decided: int
    """How many were decided since the start."""
    kept: int
    """How many are kept: all other figures are about these."""
    last_minute: int
    allowed: int
    denied: int
    warned: int
    denials_by_policy: Sequence[tuple[str, int]]
    denials_by_namespace: Sequence[tuple[str, int]]
    latencies: Sequence[StepLatency]
    """The slowest steps first."""


class _KeptLine:
    """A line, which is read when somebody looks at it."""

    __slots__ = ("_read", "size", "text")

    def __init__(self, text: bytes) -> None:
        self.text: bytes = text
        self.size = len(text)
        self._read: RecordedLine | None = None

    @property
    def line(self) -> RecordedLine:
        if self._read is None:
            self._read, self.text = read_line(self.text), b""
        return self._read


class LiveDecisions:
    """Keeps the newest lines of a recorder in memory. Lines have no secrets: the recorder replaced them.

    The recorder's thread adds lines while pages read them.
    """

    def __init__(self, *, max_lines: int = KEPT_DECISIONS, max_bytes: int = KEPT_BYTES) -> None:
        """Keep nothing yet.

        Args:
            max_lines: How many lines are kept.
            max_bytes: How many bytes of lines are kept; the newest line is, whatever its size.
        """
        self._max_lines, self._max_bytes = max_lines, max_bytes
        self._lock = threading.Lock()
        self._lines: collections.deque[_KeptLine] = collections.deque()
        self._bytes = self._decided = 0

    def append(self, line: bytes) -> None:
        """Keep a line."""
        with self._lock:
            self._lines.append(_KeptLine(line))
            self._bytes += len(line)
            self._decided += 1
            while len(self._lines) > self._max_lines or (
                self._bytes > self._max_bytes and len(self._lines) > 1
            ):
                self._bytes -= self._lines.popleft().size

    def close(self) -> None:
        """Expect no more lines."""

    def _kept(self) -> tuple[list[_KeptLine], int]:
        with self._lock:
            return list(self._lines), self._decided

    def page(self, now: dt.datetime) -> LivePage:
        """Add up the kept decisions, as of ``now``."""
        kept, decided = self._kept()
        lines = [entry.line for entry in kept]
        totals = Totals()
        for line in lines:
            totals.add(line, line.request)
        newest = list(enumerate(lines, decided - len(lines) + 1))[-LISTED_DECISIONS:]
        return LivePage(
            decisions=[list_line(line, number) for number, line in reversed(newest)],
            decided=decided,
            kept=len(lines),
            last_minute=sum(now - line.time <= _RECENT for line in lines),
            allowed=totals.allowed,
            denied=totals.denied,
            warned=totals.warned,
            denials_by_policy=totals.policies.most_common(MAX_ROWS),
            denials_by_namespace=totals.namespaces.most_common(MAX_ROWS),
            latencies=totals.latencies()[:MAX_ROWS],
        )

    def decision(self, number: int) -> DecidedReview:
        """Return a decision by its number.

        Raises:
            InputError: it is not kept any more, or there was none.
        """
        kept, decided = self._kept()
        place = number - (decided - len(kept)) - 1
        if not 0 <= place < len(kept):
            raise InputError(
                f"decision {number} is not kept: only the newest {self._max_lines} are, until the front door ends"
            )
        return read_decision(kept[place].line, ANY_NAMESPACE)


class ReplicaState(msgspec.Struct, frozen=True):
    """A replica of a service, as the front door sees it."""

    service: str
    endpoint: str
    in_flight: int
    """Calls without an answer."""
    calls: int
    """Calls that have ended."""
    agrees: bool
    """Whether it decides by the inputs of this front door."""
    excluded: bool
    """Whether it gets no calls because it is slow."""


class CertificateState(msgspec.Struct, frozen=True):
    """A certificate, or a bundle of authorities."""

    name: str
    days_left: float
    """Negative once it has ended."""


class QuotaUse(msgspec.Struct, frozen=True):
    """How much of one resource of a ResourceQuota is used."""

    namespace: str
    resourcequota: str
    resource: str
    used: float
    hard: float | None = None
    """How much may be used; None if it is not known."""

    @property
    def shares(self) -> tuple[str, str]:
        """How much is used, and how much may be, as people write amounts; the latter empty if it is not known."""
        used = _amount_text(self.resource, self.used)
        return used, "" if self.hard is None else _amount_text(self.resource, self.hard)


class ServiceState(msgspec.Struct, frozen=True):
    """What the metrics say about replicas, certificates and quotas."""

    digest: str
    """The digest of the inputs that decide; empty if none is exposed."""
    replicas: Sequence[ReplicaState]
    certificates: Sequence[CertificateState]
    """Those that end first come first."""
    quotas: Sequence[QuotaUse]


_REPLICA = "pratique_frontdoor_replica_"
_CERTIFICATE_END = "pratique_certificate_expiration_timestamp_seconds"
_INPUTS = "pratique_inputs_info"
_QUOTA = "pratique_quota_used"
_QUOTA_HARD = "pratique_quota_hard"
_SHOWN_METRICS = (_REPLICA, _CERTIFICATE_END, _INPUTS, f"{_QUOTA}{{", _QUOTA_HARD)
_DAY_SECONDS = 24 * 60 * 60


def read_service_state(
    metrics: str, now: float, quota_usage: Mapping[tuple[str, ...], QuotaAmount] | None = None
) -> ServiceState:
    """Read what the page shows from ``metrics``, in Prometheus' text format; ``now`` is in seconds since 1970.

    ``quota_usage`` is what validators elsewhere know of quotas: by namespace, name and resource.
    """
    samples = list(_samples(metrics))
    certificates = [
        CertificateState(labels["certificate"], (value - now) / _DAY_SECONDS)
        for name, labels, value in samples
        if name == _CERTIFICATE_END
    ]
    hard = {_quota_key(labels): value for name, labels, value in samples if name == _QUOTA_HARD}
    quotas = [
        QuotaUse(**labels, used=value, hard=hard.get(_quota_key(labels)))
        for name, labels, value in samples
        if name == _QUOTA
    ]
    quotas += [
        QuotaUse(namespace, name, resource, amount.used, amount.hard)
        for (namespace, name, resource), amount in (quota_usage or {}).items()
    ]
    return ServiceState(
        digest=next((labels["digest"] for name, labels, value in samples if name == _INPUTS and value), ""),
        replicas=_replicas(samples),
        certificates=sorted(certificates, key=lambda state: state.days_left),
        quotas=sorted(quotas, key=lambda use: (use.namespace, use.resourcequota, use.resource))[:MAX_ROWS],
    )


def _quota_key(labels: Mapping[str, str]) -> tuple[str, str, str]:
    return labels["namespace"], labels["resourcequota"], labels["resource"]


_BYTE_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi")


_COUNTED_IN_BYTES = pattern(r"memory|storage$|hugepages-")


def _amount_text(resource: str, amount: float) -> str:
    """An amount as it is; one of bytes in the unit that makes it short."""
    if amount < 1024 or not _COUNTED_IN_BYTES.search(resource):
        return f"{amount:.10g}"
    power = min(int(math.log(amount, 1024)), len(_BYTE_UNITS))
    return f"{amount / 1024**power:.4g}{_BYTE_UNITS[power - 1]}"


def _samples(metrics: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - where somebody looks

    shown = "\n".join(line for line in metrics.splitlines() if line.startswith(_SHOWN_METRICS))
    for family in text_string_to_metric_families(f"{shown}\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def _replicas(samples: Sequence[tuple[str, Mapping[str, str], float]]) -> list[ReplicaState]:
    values: dict[tuple[str, str], dict[str, float]] = {}
    for name, labels, value in samples:
        if name.startswith(_REPLICA):
            values.setdefault((labels["service"], labels["endpoint"]), {})[name.removeprefix(_REPLICA)] = (
                value
            )
    return [
        ReplicaState(
            service=service,
            endpoint=endpoint,
            in_flight=int(figures.get("calls_in_flight", 0)),
            calls=int(figures.get("calls_total", 0)),
            agrees=bool(figures.get("agrees", 0)),
            excluded=bool(figures.get("left_out", 0)),
        )
        for (service, endpoint), figures in sorted(values.items())
    ]
