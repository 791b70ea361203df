"""ResourceQuota."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.results import Allow, Patch
from pratique.admission.reviews import QuotaMode, Review
from pratique.apimachinery.errors import CallError, ConfigurationError, RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status
from pratique.cluster.store import Cluster, ObjectStore, ReloadableCluster
from pratique.controllers.quota.checks import starting_usage
from pratique.controllers.quota.ledger import Account, AccountKey, Charge, Decide, Usage, UsageOf, open_ledger
from pratique.controllers.quota.resource_quotas import exceeding, read_quota
from pratique.controllers.quota.sql_ledger import SQLLedger
from pratique.controllers.resource_quota import (
    CONTROLLER,
    MAX_SERIES,
    QuotaController,
    Settings,
    _usage_gauges,
)
from pratique.hosting.catalogue import configure_controller
from support import vector_cases
from support.admissions import Admission, review_of
from support.expectations import check
from support.resource_quotas import counted_pod, document, quota, requesting, review, texts
from support.strategies.quotas import pods, quotas


@contextlib.asynccontextmanager
async def admission(configuration: JSON = None) -> AsyncIterator[QuotaController]:
    settings = configure_controller(CONTROLLER, configuration).settings
    controller = QuotaController(ledger=open_ledger(""), limited=settings.limited_resources)  # type: ignore[attr-defined]  # its own settings
    try:
        yield controller
    finally:
        await controller.ledger.close()


async def refusal(controller: QuotaController, asked: Review) -> Status | None:
    """Why a request is denied; None if it is admitted."""
    try:
        answer = await controller.validate(asked)
    except RefusalError as error:
        return error.status
    assert isinstance(answer, Allow | Patch)
    return None


async def used(controller: QuotaController, cluster: Cluster) -> dict[str, dict[str, str]]:
    """The ledger's usage of all quotas of a cluster."""
    read = [read_quota(stored) for stored in cluster.list("", "resourcequotas")]
    accounts = [
        Account(
            namespace=stored.namespace,
            name=stored.name,
            uid=stored.uid,
            initial_usage=functools.partial(starting_usage, stored, cluster),
        )
        for stored in read
    ]
    return {
        account.name: texts(usage)
        for account, usage in zip(accounts, await controller.ledger.usage(accounts), strict=True)
    }


def run(*asked: Review, configuration: JSON = None) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Send requests one after another: why each is denied, and the usage in the end."""

    async def reviewed() -> tuple[list[str], dict[str, dict[str, str]]]:
        async with admission(configuration) as controller:
            statuses = [await refusal(controller, status) for status in asked]
            return [status.message if status else "" for status in statuses], await used(
                controller, asked[0].cluster
            )

    return asyncio.run(reviewed())


@pytest.mark.parametrize("case", vector_cases.plugin("ResourceQuota"), ids=vector_cases.source)
def test_it_charges_as_in_kubernetes(case: JSONObject) -> None:
    cluster = ObjectStore(case["cluster"])
    asked = review_of(case["request"], cluster)
    # The engine shows what happens to the object.
    expected = {name: value for name, value in case["expected"].items() if name != "object"}

    async def admitted() -> dict[str, dict[str, str]]:
        async with admission(case["config"]) as controller:
            before = await used(controller, cluster)
            check(Admission(await refusal(controller, asked), asked.object), expected)
            after = await used(controller, cluster)
        assert after == before or (expected["allowed"] and not asked.dry_run)
        return after

    after = asyncio.run(admitted())
    for effect in case.get("sideEffects", ()):
        assert after[effect["name"]] == effect["used"]


FULL = quota({"pods": "2"}, {"pods": "1"})


def test_charges_persist_across_reviews() -> None:
    there = ObjectStore([FULL])
    messages, after = run(review(counted_pod(), cluster=there), review(counted_pod(), cluster=there))
    text = 'pods "one" is forbidden: exceeded quota: quota, requested: pods=1, used: pods=2, limited: pods=2'
    assert messages == ["", text]
    assert after == {"quota": {"pods": "2"}}


def test_a_dry_run_is_denied_alike_but_never_charged() -> None:
    there = ObjectStore([FULL])
    dry = review(counted_pod(), cluster=there, dry_run=True)
    messages, after = run(dry, dry, review(counted_pod(), cluster=there), dry)
    assert [bool(message) for message in messages] == [False, False, False, True]
    assert after == {"quota": {"pods": "2"}}


def test_several_quotas_are_charged_together_or_not_at_all() -> None:
    there = ObjectStore(
        [quota({"pods": "9"}, {"pods": "1"}, name="a"), quota({"cpu": "1"}, {"cpu": "1"}, name="b")]
    )
    messages, after = run(review(counted_pod(requesting(cpu="1")), cluster=there))
    assert messages == [
        'pods "one" is forbidden: exceeded quota: b, requested: cpu=1, used: cpu=1, limited: cpu=1'
    ]
    assert after == {"a": {"pods": "1"}, "b": {"cpu": "1"}}


def test_concurrent_requests_never_exceed_the_quota() -> None:
    there = ObjectStore([quota({"pods": "5"}, {"pods": "1"}), quota({"cpu": "9"}, {"cpu": "0"}, name="cpu")])

    async def reviewed() -> tuple[int, dict[str, dict[str, str]]]:
        async with admission() as controller:
            asked = review(counted_pod(requesting(cpu="1")), cluster=there)
            refused = await asyncio.gather(*(refusal(controller, asked) for _ in range(20)))
            return refused.count(None), await used(controller, there)

    assert asyncio.run(reviewed()) == (4, {"cpu": {"cpu": "4"}, "quota": {"pods": "5"}})


def test_without_a_status_the_existing_objects_are_counted() -> None:
    there = ObjectStore([quota({"pods": "2", "secrets": "1"}), counted_pod(name="there")])
    messages, after = run(review(counted_pod(), cluster=there), review(counted_pod(), cluster=there))
    assert [message[-48:] for message in messages] == ["", "requested: pods=1, used: pods=2, limited: pods=2"]
    assert after == {"quota": {"pods": "2", "secrets": "0"}}


def test_a_reloaded_cluster_is_used_from_then_on() -> None:
    there = ReloadableCluster(ObjectStore([FULL]))

    async def reviewed() -> list[bool]:
        async with admission() as controller:
            refused = [await refusal(controller, review(counted_pod(), cluster=there)) for _ in range(2)]
            there.swap(ObjectStore([quota({"pods": "3", "cpu": "1"}, {"pods": "1", "cpu": "0"})]))
            refused += [
                await refusal(controller, review(counted_pod(requesting(cpu="1")), cluster=there))
                for _ in range(2)
            ]
            assert await used(controller, there) == {"quota": {"pods": "3", "cpu": "1"}}
        return [status is not None for status in refused]

    assert asyncio.run(reviewed()) == [False, True, False, True]


@pytest.mark.parametrize(
    "asked",
    [
        review(document("events"), quota({"count/events": "0"}, {"count/events": "0"}), resource="events"),
        review(counted_pod(), quota({"pods": "0"}, {"pods": "0"}), subresource="binding"),
        review(counted_pod(), quota({"pods": "0"}, {"pods": "0"}), old=counted_pod()),
        msgspec.structs.replace(review(counted_pod(), quota({"pods": "0"}, {"pods": "0"})), namespace=""),
        msgspec.structs.replace(
            review(counted_pod(), quota({"pods": "0"}, {"pods": "0"})), namespace="other"
        ),
    ],
)
def test_requests_that_no_quota_limits_are_admitted(asked: Review) -> None:
    assert run(asked)[0] == [""]


@pytest.mark.parametrize(
    ("stored", "code", "text"),
    [
        (quota({"pods": "many"}), 500, "error resolving quota: resourcequotas shop/quota: spec.hard.pods: "),
        (
            counted_pod(requesting(cpu="much"), name="other"),
            500,
            'error resolving quota: pods "shop/other": spec.',
        ),
    ],
)
def test_usage_that_cannot_be_counted_denies_the_request(stored: JSONObject, code: int, text: str) -> None:
    async def reviewed() -> Status | None:
        async with admission() as controller:
            return await refusal(controller, review(counted_pod(), quota({"pods": "1"}, name="z"), stored))

    status = asyncio.run(reviewed())
    assert status is not None
    assert (status.code, status.reason) == (code, "")
    assert status.message.startswith(text)


@dataclasses.dataclass(frozen=True)
class Silent:
    """A ledger that never answers, or that fails."""

    reason: str = ""
    known: Mapping[AccountKey, Usage] = dataclasses.field(default_factory=dict)

    async def charge(self, accounts: Sequence[Account], charge: Charge, decide: Decide) -> None:
        del charge, decide
        await self.usage(accounts)

    async def usage(self, accounts: Sequence[Account]) -> Sequence[Usage]:
        del accounts
        if self.reason:
            raise CallError(self.reason)
        await asyncio.Event().wait()
        raise AssertionError

    async def reconcile(self, cluster: Cluster, period_seconds: float, usage_of: object) -> bool:
        del cluster, period_seconds, usage_of
        return False

    async def accounts(self) -> Mapping[AccountKey, Usage]:
        return {}

    @property
    def seen(self) -> Mapping[AccountKey, Usage]:
        return self.known

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("reason", "text"),
    [("", "resource quota evaluation timed out"), ("no such file", "error charging quota: no such file")],
)
def test_a_ledger_that_does_not_answer_denies_the_request(reason: str, text: str, *, dry_run: bool) -> None:
    controller = QuotaController(ledger=Silent(reason), evaluation_seconds=0.01)
    status = asyncio.run(refusal(controller, review(counted_pod(), FULL, dry_run=dry_run)))
    assert status is not None
    assert (status.code, status.reason) == (500, "InternalError")
    assert status.message == f"Internal error occurred: {text}"


class Telling(SQLLedger):
    """A ledger that signals when it has reconciled."""

    def __init__(self) -> None:
        super().__init__("")
        self.reconciled = asyncio.Event()

    async def reconcile(self, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> bool:
        done = await super().reconcile(cluster, period_seconds, usage_of)
        if done:
            self.reconciled.set()
        return done


def test_usage_is_reconciled_beside_the_reviews() -> None:
    there = ObjectStore([quota({"pods": "2"}, {"pods": "2"}), counted_pod(name="there")])

    async def reviewed() -> list[bool]:
        ledger = Telling()
        controller = QuotaController(ledger=ledger, sync_seconds=0.01)
        refused = [await refusal(controller, review(counted_pod(), cluster=there))]
        beside = asyncio.create_task(controller.run_in_background(there))
        await ledger.reconciled.wait()
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
        refused.append(await refusal(controller, review(counted_pod(), cluster=there)))
        await ledger.close()
        return [status is not None for status in refused]

    assert asyncio.run(reviewed()) == [True, False]


def at(asked: Review, operation: Operation) -> Review:
    return msgspec.structs.replace(asked, operation=operation)


POD, BIG, SMALL = (counted_pod(requesting(cpu=cpu), name="one") for cpu in ("1", "2", "1"))
SERVICE = document("services", {"type": "NodePort", "ports": [{"port": 1}]})
QUIET = document("services", {"type": "ClusterIP", "ports": [{"port": 1}]})


@pytest.mark.parametrize(
    ("operation", "resource", "objects", "fields", "given"),
    [
        (Operation.DELETE, "pods", (None, POD), {}, {"pods": "4", "cpu": "4"}),
        (Operation.UPDATE, "pods", (SMALL, BIG), {}, {"cpu": "4"}),
        (Operation.UPDATE, "pods", (BIG, SMALL), {}, {}),
        (Operation.UPDATE, "services", (QUIET, SERVICE), {}, {"services.nodeports": "4"}),
        (Operation.DELETE, "services", (None, SERVICE), {}, {"services.nodeports": "4"}),
        (Operation.DELETE, "pods", (None, POD), {"dry_run": True}, {}),
        (Operation.DELETE, "pods", (None, POD), {"subresource": "status"}, {}),
        (Operation.DELETE, "pods", (None, POD), {"quota_mode": QuotaMode.CHECK}, {}),
        (Operation.DELETE, "pods", (None, None), {}, {}),
        (Operation.CREATE, "pods", (POD, None), {}, {}),
    ],
)
def test_offline_runs_give_back_what_a_request_frees(
    operation: Operation, resource: str, objects: tuple[JSON, JSON], fields: JSONObject, given: JSONObject
) -> None:
    full = {"pods": "5", "cpu": "5", "services.nodeports": "5"}
    new, old = objects
    asked = review(new, quota(full, full), resource=resource, old=old)
    asked = msgspec.structs.replace(asked, operation=operation, **fields)

    async def concluded() -> dict[str, dict[str, str]]:
        async with admission() as controller:
            await controller.on_admitted(asked)
            return await used(controller, asked.cluster)

    assert asyncio.run(concluded()) == {"quota": full | given}


def test_no_more_is_given_back_than_is_used() -> None:
    asked = review(None, quota({"pods": "5"}, {"pods": "0"}), old=POD)
    asked = at(asked, Operation.DELETE)

    async def concluded() -> dict[str, dict[str, str]]:
        async with admission() as controller:
            await controller.on_admitted(asked)
            return await used(controller, asked.cluster)

    assert asyncio.run(concluded()) == {"quota": {"pods": "0"}}


@pytest.mark.parametrize(
    ("subresource", "charged"),
    [("", {}), ("resize", {"cpu": "2"}), ("status", {}), ("ephemeralcontainers", {})],
)
def test_only_resizes_of_a_pod_are_charged(subresource: str, charged: JSONObject) -> None:
    """As in kube-apiserver: no other update of a Pod increases its usage."""
    before = {"pods": "1", "cpu": "1"}
    small, big = (
        reviewed | {"metadata": {**reviewed["metadata"], "resourceVersion": "1"}} for reviewed in (SMALL, BIG)
    )
    _, after = run(review(big, quota({"pods": "5", "cpu": "5"}, before), old=small, subresource=subresource))
    assert after == {"quota": before | charged}


def test_the_number_of_series_is_limited() -> None:
    ledger = dataclasses.replace(
        Silent(), known={("shop", f"{n:05}", ""): {"pods": Quantity(n)} for n in range(1200)}
    )
    controller = QuotaController(ledger=ledger)
    controller.stored.cluster = ObjectStore([quota({"pods": "9"}, name="00007")])
    used_series, hard_series, left_out = (next(iter(gauge.collect())) for gauge in _usage_gauges(controller))
    assert len(used_series.samples) == MAX_SERIES
    assert used_series.samples[7].labels == {
        "namespace": "shop",
        "resourcequota": "00007",
        "resource": "pods",
    }
    assert used_series.samples[7].value == 7.0
    assert left_out.samples[0].value == 200.0
    [hard] = hard_series.samples
    assert (hard.labels["resourcequota"], hard.value) == ("00007", 9.0)


def settings(configuration: JSON) -> Settings:
    return configure_controller(CONTROLLER, configuration).settings  # type: ignore[return-value]  # its own settings


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
        ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
        ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
    ],
)
def test_configurations_of_all_versions_are_accepted(version: str, kind: str) -> None:
    limited = [{"resource": "pods", "matchContains": ["cpu"], "matchScopes": [{"scopeName": "BestEffort"}]}]
    read = settings({"apiVersion": version, "kind": kind, "limitedResources": limited})
    assert read.limited_resources[0].resource == "pods"
    assert read.limited_resources[0].match_scopes[0].scope_name == "BestEffort"


def test_flags_and_configurations_can_be_combined() -> None:
    read = settings(
        {"resource-quota-sync-period": "1m", "resource-quota-ledger": "", "limitedResources": None}
    )
    assert read.sync_period == "1m"
    assert not read.limited_resources


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, "apiVersion, kind: must be apiserver.config.k8s.io/v1, Kind="),
        ({"limitedResources": [{"matchContains": ["cpu"]}]}, "limitedResources[0].resource: Required value"),
        ({"limitedResources": [{"resources": "pods"}]}, 'unknown field "limitedResources[0].resources"'),
        ({"resource-quota-sync-period": "often"}, "resource-quota-sync-period: time: invalid duration"),
        ({"resource-quota-sync-period": "0s"}, "resource-quota-sync-period: must be positive, not 0s"),
        ({"resource-quota-ledger": "ftp://somewhere"}, "ftp"),
    ],
)
def test_an_invalid_configuration_is_rejected_at_start(configuration: JSONObject, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings(configuration)
    assert str(caught.value).startswith('couldn\'t init admission plugin "ResourceQuota": ')
    assert text in str(caught.value)


@given(st.lists(pods(), min_size=1, max_size=4), quotas())
def test_no_quota_is_ever_exceeded(every: list[JSONObject], stored: list[JSONObject]) -> None:
    there = ObjectStore(stored)
    _, after = run(*(review(reviewed, cluster=there) for reviewed in every))
    for before in map(read_quota, stored):
        left = {
            name for name, amount in (before.used or {}).items() if str(amount) == after[before.name][name]
        }
        spent = quota({}, after[before.name])
        assert exceeding(read_quota(spent).used or {}, before.hard) <= left
