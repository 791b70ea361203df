"""ResourceQuota: keeps the objects of a namespace within its ResourceQuotas.

Source: ``k8s.io/apiserver/pkg/admission/plugin/resourcequota``. :mod:`pratique.controllers.quota` computes what
objects use and whether it fits; :mod:`pratique.controllers.quota.ledger` keeps the usage.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Sequence

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers, QuotaAmount
from pratique.admission.results import Answer, Edits, allow
from pratique.admission.reviews import QuotaMode, Review
from pratique.admission.rules import Rule
from pratique.apimachinery import durations, statuses
from pratique.apimachinery.errors import CallError, ConfigurationError, InputError, RefusalError
from pratique.apimachinery.field_errors import join
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import Cluster, ReloadableCluster
from pratique.controllers.quota.checks import (
    IGNORED_RESOURCES,
    QuotaDelta,
    evaluator_of,
    freed_deltas,
    quota_deltas,
    starting_usage,
    usage_after,
    usage_of,
)
from pratique.controllers.quota.evaluators import COUNTED_RESOURCES
from pratique.controllers.quota.ledger import Account, Charge, Decide, Ledger, open_ledger, reconcile_every
from pratique.controllers.quota.resource_quotas import (
    LimitedResource,
    check_limited,
    increase,
    mask,
    read_quota,
)
from pratique.pods.resource_requirements import ResourceList
from pratique.processes.review_threads import work_on_review
from pratique.telemetry.metrics import CallbackMetric, LabeledCounter

EVALUATION_SECONDS = 10.0
"""How long a request waits for its charge: ``Evaluate`` of ``controller.go``."""

_CHARGES_METRIC = (
    "pratique_quota_charges_total",
    "Charges against ResourceQuotas, by result: charged, refused, timeout or error.",
    ("result",),
)

MAX_SERIES = 1000
"""The maximum number of usage series: a hundred quotas with ten resources. Quotas come from the cluster, never from
requests, but a cluster may have any number of them; ``pratique quotas`` shows all."""

_VERSIONS = {
    ("", ""),
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
}
"""The versions and kinds that a configuration may have. Settings from flags alone have none."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What is limited by default, and where charges are kept."""

    api_version: str = ""
    kind: str = ""
    limited_resources: tuple[LimitedResource, ...] = ()
    """Resources that nobody may use unless a quota covers them."""
    ledger: str = msgspec.field(default="", name="resource-quota-ledger")
    """Where charges are kept: a file or a URL; empty for memory. See
    :func:`pratique.controllers.quota.ledger.open_ledger`."""
    sync_period: str = msgspec.field(default="10s", name="resource-quota-sync-period")
    """How often usage is recounted from the cluster's objects."""


class StoredQuotas:
    """The ResourceQuotas of a service's cluster, for those who look at their usage."""

    def __init__(self) -> None:
        """Know none yet: the service says which cluster it is."""
        self.cluster: Cluster | None = None

    def hard(self, namespace: str, name: str) -> ResourceList:
        """Return how much of each resource a quota allows; empty if there is none, or if it cannot be read."""
        stored = [] if self.cluster is None else self.cluster.list("", "resourcequotas", namespace)
        for document in stored:
            if member(document, "metadata", "name") == name:
                with contextlib.suppress(InputError):
                    return read_quota(document).hard
        return {}


class QuotaController(msgspec.Struct, frozen=True, kw_only=True):
    """The configured controller."""

    ledger: Ledger
    """Keeps the usage."""
    limited: tuple[LimitedResource, ...] = ()
    sync_seconds: float = 10.0
    evaluation_seconds: float = EVALUATION_SECONDS
    charges: LabeledCounter = msgspec.field(default_factory=lambda: LabeledCounter(*_CHARGES_METRIC))
    """Counts the results of charges."""
    stored: StoredQuotas = msgspec.field(default_factory=StoredQuotas)

    async def validate(self, review: Review) -> Answer:
        """Charge a request to all quotas that it affects, or deny it and charge none."""
        resource = review.resource
        evaluator = evaluator_of(resource.group, resource.resource)
        if not review.namespace or (resource.group, resource.resource) in _NEVER_CHARGED:
            return allow()
        if review.quota_mode is QuotaMode.COUNTED or not evaluator.handles(review):
            return allow()
        cluster = _snapshot(review.cluster)
        stored = cluster.list("", "resourcequotas", review.namespace)
        if not stored and not self.limited:
            return allow()
        try:
            deltas = await work_on_review(review.received_values, self._deltas, review, stored)
            if deltas:
                await self._settle(review, deltas, cluster)
        except InputError as error:
            raise RefusalError(statuses.plain_error(f"error resolving quota: {error}")) from None
        return _set_namespace(review)

    def _deltas(self, review: Review, stored: Sequence[JSON]) -> Sequence[QuotaDelta]:
        evaluator = evaluator_of(review.resource.group, review.resource.resource)
        evaluator.check_kind(review.object)
        return quota_deltas(review, evaluator, [read_quota(quota) for quota in stored], self.limited)

    async def _settle(self, review: Review, deltas: Sequence[QuotaDelta], cluster: Cluster) -> None:
        """Charge the deltas; for dry runs and trials, only check whether they fit.

        Raises:
            RefusalError: They do not fit, or the ledger failed or timed out.
        """
        accounts = [_ledger_account(delta, cluster) for delta in deltas]
        decide = functools.partial(_decide_usage, review, deltas, accounts)
        try:
            async with asyncio.timeout(self.evaluation_seconds):
                if review.dry_run or review.quota_mode is QuotaMode.CHECK:
                    decide(await self.ledger.usage(accounts))
                else:
                    await self._commit(review, accounts, decide)
        except TimeoutError:
            self.charges.add("timeout")
            raise RefusalError(statuses.internal_error("resource quota evaluation timed out")) from None
        except CallError as error:
            self.charges.add("error")
            raise RefusalError(statuses.internal_error(f"error charging quota: {error}")) from None

    async def _commit(self, review: Review, accounts: Sequence[Account], decide: Decide) -> None:
        try:
            await self.ledger.charge(accounts, _ledger_charge(review), decide)
        except RefusalError:
            self.charges.add("refused")
            raise
        self.charges.add("charged")

    async def on_admitted(self, review: Review) -> None:
        """Give back what an executed request has freed, in an offline run, where nothing recounts.

        Usage that cannot be measured is not given back.
        """
        if review.operation not in _FREEING_OPERATIONS or review.old_object is None or not review.namespace:
            return
        if review.dry_run or review.subresource or review.quota_mode is not QuotaMode.COMMIT:
            return
        cluster = _snapshot(review.cluster)
        evaluator = evaluator_of(review.resource.group, review.resource.resource)
        with contextlib.suppress(InputError, RefusalError):
            quotas = [read_quota(quota) for quota in cluster.list("", "resourcequotas", review.namespace)]
            deltas = freed_deltas(review, evaluator, quotas)
            if deltas:
                accounts = [_ledger_account(delta, cluster) for delta in deltas]
                await self.ledger.charge(
                    accounts, _ledger_charge(review), functools.partial(_usage_after_release, deltas)
                )

    async def run_in_background(self, cluster: Cluster) -> None:
        """Reconcile the usage periodically until cancelled."""
        self.stored.cluster = cluster
        await reconcile_every(self.ledger, cluster, self.sync_seconds, usage_of)


def _set_namespace(review: Review) -> Answer:
    """Set the namespace of an object that has none, as ``checkRequest`` does to count it there."""
    if member(review.object, "metadata", "namespace") or not isinstance(review.object, dict):
        return allow()
    edits = Edits(review.object)
    edits.set(("metadata", "namespace"), review.namespace)
    return edits.answer()


def _skip_reason(configuration: JSON, review: Review) -> str:
    """Skip the call if nothing limits the request, which is the usual case."""
    if member(configuration, "limitedResources") or review.cluster.list(
        "", "resourcequotas", review.namespace
    ):
        return ""
    return "its namespace has no ResourceQuota"


_FREEING_OPERATIONS = frozenset({Operation.DELETE, Operation.UPDATE})
"""The operations that can free usage."""

_NEVER_CHARGED = IGNORED_RESOURCES | {("", "namespaces")}
"""A namespace is not in itself, so requests for namespaces are not charged either."""


def _snapshot(cluster: Cluster) -> Cluster:
    """A snapshot, so that all look-ups of a review see the same state."""
    return cluster.current if isinstance(cluster, ReloadableCluster) else cluster


def _usage_after_release(deltas: Sequence[QuotaDelta], usages: Sequence[ResourceList]) -> list[ResourceList]:
    """The usage after giving back; never below zero."""
    return [
        {**used, **increase(mask(used, delta.amounts), delta.amounts)}
        for delta, used in zip(deltas, usages, strict=True)
    ]


def _ledger_account(delta: QuotaDelta, cluster: Cluster) -> Account:
    quota = delta.quota
    return Account(
        namespace=quota.namespace,
        name=quota.name,
        uid=quota.uid,
        initial_usage=functools.partial(starting_usage, quota, cluster),
    )


def _decide_usage(
    review: Review, deltas: Sequence[QuotaDelta], accounts: Sequence[Account], usages: Sequence[ResourceList]
) -> list[ResourceList]:
    known = [
        _complete_usage(delta, account, used)
        for delta, account, used in zip(deltas, accounts, usages, strict=True)
    ]
    return usage_after(review, deltas, known)


def _complete_usage(delta: QuotaDelta, account: Account, used: ResourceList) -> ResourceList:
    """The ledger's usage, plus resources that the quota limits only since the ledger knows it."""
    return used if delta.amounts.keys() <= used.keys() else {**account.initial_usage(), **used}


def _ledger_charge(review: Review) -> Charge:
    metadata = member(review.object, "metadata")
    old_version = member(review.old_object, "metadata", "resourceVersion")
    return Charge(
        group=review.resource.group,
        resource=review.resource.resource,
        namespace=review.namespace,
        name=review.name or str(member(metadata, "name") or ""),
        uid=str(member(metadata, "uid") or ""),
        old_resource_version=str(old_version or "") if review.operation is Operation.UPDATE else None,
        request_uid=review.uid,
        is_retry=review.is_retry,
    )


def _build(settings: Settings) -> Handlers:
    if (settings.api_version, settings.kind) not in _VERSIONS:
        known = " or ".join(f"{version}, Kind={kind}" for version, kind in sorted(_VERSIONS) if version)
        got = f"{settings.api_version}, Kind={settings.kind}"
        raise ConfigurationError(f"apiVersion, kind: must be {known}, not {got}")
    errors = list(check_limited(settings.limited_resources))
    if errors:
        raise ConfigurationError(join(errors))
    admission = QuotaController(
        ledger=open_ledger(settings.ledger),
        limited=settings.limited_resources,
        sync_seconds=_period_seconds(settings.sync_period),
    )
    return Handlers(
        validate=admission.validate,
        close=admission.ledger.close,
        run_in_background=admission.run_in_background,
        on_admitted=admission.on_admitted,
        collectors=(admission.charges, *_usage_gauges(admission)),
        quota_usage=lambda: _quota_amounts(admission),
    )


def _quota_amounts(admission: QuotaController) -> dict[tuple[str, ...], QuotaAmount]:
    """The usage by quota and resource, as of the ledger's last reconciliation, and what they allow now."""
    amounts: dict[tuple[str, ...], QuotaAmount] = {}
    for (namespace, name, _), usage in sorted(admission.ledger.seen.items()):
        allowed = admission.stored.hard(namespace, name)
        for resource, used in sorted(usage.items()):
            if len(amounts) == MAX_SERIES:
                return amounts
            hard = allowed[resource].as_float() if resource in allowed else None
            amounts[namespace, name, resource] = QuotaAmount(used.as_float(), hard)
    return amounts


def _hard_series(admission: QuotaController) -> dict[tuple[str, ...], float]:
    amounts = _quota_amounts(admission)
    return {quota: amount.hard for quota, amount in amounts.items() if amount.hard is not None}


def _series_left_out(ledger: Ledger) -> int:
    return max(0, sum(map(len, ledger.seen.values())) - MAX_SERIES)


_QUOTA_LABELS = ("namespace", "resourcequota", "resource")


def _usage_gauges(admission: QuotaController) -> tuple[CallbackMetric, ...]:
    used = "The usage of a ResourceQuota at the ledger's last reconciliation."
    hard = "How much a ResourceQuota allows."
    left_out = "How many usage series are left out because there are too many."

    def used_series() -> dict[tuple[str, ...], float]:
        return {quota: amount.used for quota, amount in _quota_amounts(admission).items()}

    return (
        CallbackMetric("pratique_quota_used", used, used_series, *_QUOTA_LABELS),
        CallbackMetric("pratique_quota_hard", hard, lambda: _hard_series(admission), *_QUOTA_LABELS),
        CallbackMetric("pratique_quota_used_left_out", left_out, lambda: _series_left_out(admission.ledger)),
    )


def _period_seconds(period: str) -> float:
    try:
        seconds = durations.parse(period).seconds
    except InputError as error:
        raise ConfigurationError(f"resource-quota-sync-period: {error}: write it like 10s") from None
    if seconds <= 0:
        raise ConfigurationError(f"resource-quota-sync-period: must be positive, not {period}")
    return seconds


CONTROLLER = Controller(
    name="ResourceQuota",
    summary="Denies what exceeds the ResourceQuotas of its namespace, and charges the rest.",
    phases=VALIDATE,
    rules=(Rule(("CREATE", "UPDATE"), ("*",), ("*",), ("*/*",), "Namespaced"),),
    build=_build,
    settings=Settings,
    default=True,
    looks_up=("resourcequotas",),
    may_look_up=COUNTED_RESOURCES,
    location_settings=("resource-quota-ledger",),
    skip_reason=_skip_reason,
    skip_looks_up=("resourcequotas",),
    commits_quota=True,
    may_patch=True,
    trusted=True,
)
