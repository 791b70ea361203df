"""ResourceQuota: what the objects of a namespace use stays within its ResourceQuotas.

Source: ``k8s.io/apiserver/pkg/admission/plugin/resourcequota``. What objects use and whether it fits is worked out by
:mod:`pratique.controllers.quota`; what is used is kept by :mod:`pratique.controllers.quota.ledger`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Sequence

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers
from pratique.admission.edits import Edits
from pratique.admission.results import Answer, allow
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
from pratique.controllers.quota.ledger import Account, Charge, Decide, Ledger, open_ledger, reconcile_every
from pratique.controllers.quota.resource_quotas import (
    LimitedResource,
    check_limited,
    increase,
    mask,
    read_quota,
)
from pratique.pods.resource_requirements import ResourceList
from pratique.telemetry.metrics import CallbackMetric, LabeledCounter

EVALUATION_SECONDS = 10.0
"""How long a request waits for its charge: ``Evaluate`` of ``controller.go``."""

_CHARGES_METRIC = (
    "pratique_quota_charges_total",
    "Requests to be charged against ResourceQuotas, by what came of it: charged, refused, timeout or error.",
    ("result",),
)

MAX_SERIES = 1000
"""Of what is used, at most: a hundred quotas of ten resources. Quotas come from the cluster, never from what is asked,
but a cluster may have any number of them; ``pratique quotas`` shows them all."""

_VERSIONS = {
    ("", ""),
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
}
"""How a configuration may call itself; where flags alone say something, it does not."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What is limited by default, and where charges are kept."""

    api_version: str = ""
    kind: str = ""
    limited_resources: tuple[LimitedResource, ...] = ()
    """What nobody may use unless a quota covers it."""
    ledger: str = msgspec.field(default="", name="resource-quota-ledger")
    """Where charges are kept: a file or a URL; empty for memory. See
    :func:`pratique.controllers.quota.ledger.open_ledger`."""
    sync_period: str = msgspec.field(default="10s", name="resource-quota-sync-period")
    """How often usage is counted anew from the cluster's objects."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QuotaController:
    """The controller at work."""

    ledger: Ledger
    """Keeps what is used."""
    limited: tuple[LimitedResource, ...] = ()
    sync_seconds: float = 10.0
    evaluation_seconds: float = EVALUATION_SECONDS
    charges: LabeledCounter = dataclasses.field(default_factory=lambda: LabeledCounter(*_CHARGES_METRIC))
    """What became of charges."""

    async def validate(self, review: Review) -> Answer:
        """Charge a request against all quotas that it concerns, or refuse it and charge none."""
        resource = review.resource
        evaluator = evaluator_of(resource.group, resource.resource)
        if (
            not review.namespace
            or (resource.group, resource.resource) in IGNORED_RESOURCES | _NAMESPACE_RESOURCE
        ):
            return allow()
        if review.quota_mode is QuotaMode.COUNTED or not evaluator.is_charged(review):
            return allow()
        cluster = _snapshot(review.cluster)
        stored = cluster.list("", "resourcequotas", review.namespace)
        if not stored and not self.limited:
            return allow()
        evaluator.see_that_fit(review.object)
        try:
            quotas = [read_quota(each) for each in stored]
            dues = quota_deltas(review, evaluator, quotas, self.limited)
            if dues:
                await self._settle(review, dues, cluster)
        except InputError as error:
            raise RefusalError(statuses.plain_error(f"error resolving quota: {error}")) from None
        return _set_namespace(review)

    async def _settle(self, review: Review, dues: Sequence[QuotaDelta], cluster: Cluster) -> None:
        """Charge what is due; of a dry run and of what is only tried, find out whether it could be.

        Raises:
            RefusalError: it does not fit, or the ledger cannot be asked, or not in time.
        """
        accounts = [_ledger_account(due, cluster) for due in dues]
        decide = functools.partial(_decide_usage, review, dues, accounts)
        try:
            async with asyncio.timeout(self.evaluation_seconds):
                if review.dry_run or review.quota_mode is QuotaMode.CHECK:
                    decide(await self.ledger.usage(accounts))
                else:
                    await self._charge(review, accounts, decide)
        except TimeoutError:
            self.charges.add("timeout")
            raise RefusalError(statuses.internal_error("resource quota evaluation timed out")) from None
        except CallError as error:
            self.charges.add("error")
            raise RefusalError(statuses.internal_error(f"error charging quota: {error}")) from None

    async def _charge(self, review: Review, accounts: Sequence[Account], decide: Decide) -> None:
        try:
            await self.ledger.charge(accounts, _charge(review), decide)
        except RefusalError:
            self.charges.add("refused")
            raise
        self.charges.add("charged")

    async def on_admitted(self, review: Review) -> None:
        """Give back what a request has left free that was admitted and done, where nobody counts anew.

        What cannot be measured is not given back.
        """
        if review.operation not in _FREEING_OPERATIONS or review.old_object is None or not review.namespace:
            return
        if review.dry_run or review.subresource or review.quota_mode is not QuotaMode.COMMIT:
            return
        cluster = _snapshot(review.cluster)
        evaluator = evaluator_of(review.resource.group, review.resource.resource)
        with contextlib.suppress(InputError, RefusalError):
            quotas = [read_quota(each) for each in cluster.list("", "resourcequotas", review.namespace)]
            dues = freed_deltas(review, evaluator, quotas)
            if dues:
                accounts = [_ledger_account(due, cluster) for due in dues]
                await self.ledger.charge(
                    accounts, _charge(review), functools.partial(_usage_after_release, dues)
                )

    async def run_in_background(self, cluster: Cluster) -> None:
        """Put usage right every so often, until cancelled."""
        await reconcile_every(self.ledger, cluster, self.sync_seconds, usage_of)


def _set_namespace(review: Review) -> Answer:
    """Write the request's namespace into an object that names none, as ``checkRequest`` does to count it there."""
    if member(review.object, "metadata", "namespace") or not isinstance(review.object, dict):
        return allow()
    edits = Edits(review.object)
    edits.set(("metadata", "namespace"), review.namespace)
    return edits.answer()


def _skip_reason(configuration: JSON, review: Review) -> str:
    """See before any call is made that nothing limits what is asked, as nearly always."""
    if member(configuration, "limitedResources") or review.cluster.list(
        "", "resourcequotas", review.namespace
    ):
        return ""
    return "its namespace has no ResourceQuota"


_FREEING_OPERATIONS = frozenset({Operation.DELETE, Operation.UPDATE})
"""What can leave something free."""

_NAMESPACE_RESOURCE = {("", "namespaces")}
"""A namespace is not in itself: its creation is never charged, and nothing else of it is."""


def _snapshot(cluster: Cluster) -> Cluster:
    """The state as it is now, so that all look-ups for a review are of the same."""
    return cluster.current if isinstance(cluster, ReloadableCluster) else cluster


def _usage_after_release(dues: Sequence[QuotaDelta], usages: Sequence[ResourceList]) -> list[ResourceList]:
    """What is used once something was given back, and never less than nothing."""
    return [
        {**used, **increase(mask(used, due.amounts), due.amounts)}
        for due, used in zip(dues, usages, strict=True)
    ]


def _ledger_account(due: QuotaDelta, cluster: Cluster) -> Account:
    quota = due.quota
    return Account(
        namespace=quota.namespace,
        name=quota.name,
        uid=quota.uid,
        start=functools.partial(starting_usage, quota, cluster),
    )


def _decide_usage(
    review: Review, dues: Sequence[QuotaDelta], accounts: Sequence[Account], usages: Sequence[ResourceList]
) -> list[ResourceList]:
    known = [
        _complete_usage(due, account, used) for due, account, used in zip(dues, accounts, usages, strict=True)
    ]
    return usage_after(review, dues, known)


def _complete_usage(due: QuotaDelta, account: Account, used: ResourceList) -> ResourceList:
    """What is used, with what the quota has come to limit since the ledger knows it."""
    return used if due.amounts.keys() <= used.keys() else {**account.start(), **used}


def _charge(review: Review) -> Charge:
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
    faults = list(check_limited(settings.limited_resources))
    if faults:
        raise ConfigurationError(join(faults))
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
        collectors=(admission.charges, *_usage_gauges(admission.ledger)),
    )


def _used_series(ledger: Ledger) -> dict[tuple[str, ...], float]:
    """What is used, by quota and resource, as the ledger was last seen."""
    found: dict[tuple[str, ...], float] = {}
    for (namespace, name, _), usage in sorted(ledger.seen.items()):
        for resource, amount in sorted(usage.items()):
            if len(found) == MAX_SERIES:
                return found
            found[namespace, name, resource] = amount.as_float()
    return found


def _series_left_out(ledger: Ledger) -> int:
    return max(0, sum(map(len, ledger.seen.values())) - MAX_SERIES)


def _usage_gauges(ledger: Ledger) -> tuple[CallbackMetric, ...]:
    used = "How much of a ResourceQuota is used, as the ledger was last put right."
    left_out = "How many more of these there are than are shown."
    return (
        CallbackMetric(
            "pratique_quota_used",
            used,
            lambda: _used_series(ledger),
            "namespace",
            "resourcequota",
            "resource",
        ),
        CallbackMetric("pratique_quota_used_left_out", left_out, lambda: _series_left_out(ledger)),
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
    summary="Refuses what does not fit into the ResourceQuotas of its namespace, and charges what does.",
    phases=VALIDATE,
    rules=(Rule(("CREATE", "UPDATE"), ("*",), ("*",), ("*/*",), "Namespaced"),),
    build=_build,
    settings=Settings,
    default=True,
    looks_up=("resourcequotas",),
    location_settings=("resource-quota-ledger",),
    skip_reason=_skip_reason,
    commits_quota=True,
    may_patch=True,
    trusted=True,
)
