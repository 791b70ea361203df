"""Whether requests fit into quotas, and what they are charged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, NULL, JSONObject
from pratique.apimachinery.statuses import Status
from pratique.controllers.quota.checks import evaluator_of, quota_deltas, usage_after
from pratique.controllers.quota.resource_quotas import (
    LimitedResource,
    ScopeRequirement,
    add,
    exceeding,
    increase,
    read_quota,
)
from pratique.pods.resource_requirements import ResourceList
from support.resource_quotas import amounts, counted_pod, document, quota, requesting, review, texts
from support.strategies.quotas import pods, quotas


def planned(
    asked: Review, *stored: JSONObject, limited: Sequence[LimitedResource] = ()
) -> dict[str, dict[str, str]]:
    evaluator = evaluator_of(asked.resource.group, asked.resource.resource)
    deltas = quota_deltas(asked, evaluator, [read_quota(document_) for document_ in stored], limited)
    return {delta.quota.name: texts(delta.amounts) for delta in deltas}


def refused(asked: Review, *stored: JSONObject, limited: Sequence[LimitedResource] = ()) -> Status:
    with pytest.raises(RefusalError) as caught:
        planned(asked, *stored, limited=limited)
    return caught.value.status


def settled(asked: Review, *stored: JSONObject) -> list[ResourceList]:
    evaluator = evaluator_of(asked.resource.group, asked.resource.resource)
    deltas = quota_deltas(asked, evaluator, [read_quota(document_) for document_ in stored], ())
    return usage_after(asked, deltas, [delta.quota.used or {} for delta in deltas])


ONE_CPU = counted_pod(requesting(cpu="1"))
CPU = quota({"cpu": "3"}, {"cpu": "1"}, name="cpu")
PODS = quota({"pods": "1", "secrets": "9"}, {"pods": "0"}, name="pods")


def test_a_request_is_charged_only_what_each_quota_limits() -> None:
    assert planned(review(ONE_CPU), CPU, PODS) == {"cpu": {"cpu": "1"}, "pods": {"pods": "1"}}


def test_a_quota_of_other_resources_is_not_charged() -> None:
    assert planned(review(ONE_CPU), quota({"services": "0"}, {})) == {}


def test_a_resource_missing_from_the_used_status_is_unknown() -> None:
    unknown = quota({"pods": "1", "cpu": "1", "secrets": "1"}, {"pods": "1"})
    status = refused(review(ONE_CPU), CPU, unknown)
    assert status.message == 'pods "one" is forbidden: status unknown for quota: quota, resources: cpu,pods'
    assert status.code == 403


def test_missing_requirements_are_reported_first() -> None:
    status = refused(review(counted_pod(requesting())), quota({"cpu": "1"}, {}), CPU)
    assert status.message == 'pods "one" is forbidden: failed quota: quota: must specify cpu for: c'


def test_the_first_quota_with_an_error_decides() -> None:
    status = refused(review(counted_pod(requesting())), quota({"pods": "1"}, {}), CPU)
    assert status.message.endswith("status unknown for quota: quota, resources: pods")


def claim(storage: str, **metadata: JSON) -> JSONObject:
    found = document("persistentvolumeclaims", {"resources": {"requests": {"storage": storage}}})
    return {**found, "metadata": found["metadata"] | metadata}


STORAGE = quota(
    {"requests.storage": "5Gi", "persistentvolumeclaims": "2"},
    {"requests.storage": "3Gi", "persistentvolumeclaims": "1"},
)


def claims(new: JSON, old: JSON = None, subresource: str = "") -> Review:
    return review(new, resource="persistentvolumeclaims", old=old, subresource=subresource)


def test_negative_usage_is_denied() -> None:
    status = refused(claims(claim("-1Gi")), STORAGE)
    assert status.message.endswith("is forbidden: quota usage is negative for resource(s): requests.storage")


@pytest.mark.parametrize(
    ("new", "old", "due"),
    [
        (claim("2Gi"), claim("1Gi", resourceVersion="7"), {"requests.storage": "1Gi"}),
        (claim("1Gi"), claim("2Gi", resourceVersion="7"), None),
        (claim("1Gi"), claim("1Gi", resourceVersion="7"), None),
        (claim("1Gi"), claim("1Gi"), {"requests.storage": "1Gi", "persistentvolumeclaims": "1"}),
        (claim("1Gi"), {}, {"requests.storage": "1Gi", "persistentvolumeclaims": "1"}),
    ],
)
def test_an_update_is_charged_its_increase(new: JSON, old: JSON, due: dict[str, str] | None) -> None:
    assert planned(claims(new, old), STORAGE) == ({} if due is None else {"quota": due})


def test_an_update_without_its_old_object_is_denied() -> None:
    update = claims(claim("1Gi"), claim("1Gi"))
    lost = msgspec.structs.replace(update, old_object_document=NULL)
    assert refused(lost, STORAGE).message.endswith(
        "is forbidden: unable to get previous usage since prior version of object was not found"
    )


def test_an_object_that_newly_matches_a_quota_is_charged_in_full() -> None:
    before = counted_pod(requesting(cpu="1"))
    before["metadata"]["resourceVersion"] = "7"
    after = counted_pod(requesting(cpu="1"), activeDeadlineSeconds=5)
    hard = {"cpu": "3", "pods": "3"}
    terminating = quota(hard, hard, name="terminating", scopes=["Terminating"])
    every = quota(hard, hard, name="every")
    update = review(after, old=before)
    assert planned(update, every, terminating) == {"terminating": {"cpu": "1", "pods": "1"}}


def test_a_malformed_scope_is_reported() -> None:
    expressions = [{"scopeName": "PriorityClass", "operator": "Near"}]
    status = refused(
        review(ONE_CPU), quota({"pods": "1"}, {}, scopeSelector={"matchExpressions": expressions})
    )
    assert (status.code, status.reason) == (500, "")
    assert status.message == (
        "error matching scopes of quota quota, err: error on matching scope {PriorityClass Near []}:"
        ' failed to parse and convert selector: "Near" is not a valid scope selector operator'
    )


CPUS = LimitedResource(resource="pods", match_contains=("cpu",))
ELSEWHERE = quota({"cpu": "1", "requests.cpu": "1"}, {}, scopes=["Terminating"])
CRITICAL = ScopeRequirement("PriorityClass", "In", ("critical",))


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ([], "insufficient quota to consume: cpu,requests.cpu"),
        ([CPU], "insufficient quota to consume: requests.cpu"),
        ([CPU, quota({"requests.cpu": "1"}, {"requests.cpu": "0"})], ""),
        ([ELSEWHERE], "insufficient quota to consume: cpu,requests.cpu"),
    ],
)  # fmt: skip
def test_limited_resources_must_be_covered(stored: list[JSONObject], text: str) -> None:
    if text:
        assert refused(review(ONE_CPU), *stored, limited=[CPUS]).message == f'pods "one" is forbidden: {text}'
    else:
        assert planned(review(ONE_CPU), *stored, limited=[CPUS])


def test_resources_that_are_limited_elsewhere_need_no_quota() -> None:
    other = LimitedResource(api_group="example.com", resource="pods", match_contains=("cpu",))
    assert planned(review(ONE_CPU), limited=[other]) == {}
    assert planned(review(counted_pod(requesting(cpu="0"))), limited=[CPUS]) == {}


def test_a_scope_is_covered_even_by_a_quota_that_does_not_match() -> None:
    limited = LimitedResource(resource="services", match_scopes=(CRITICAL, ScopeRequirement("Terminating")))
    critical = counted_pod(priorityClassName="critical")
    status = refused(review(critical), limited=[limited])
    assert (status.code, status.reason) == (500, "")
    assert status.message == "insufficient quota to match these scopes: [{PriorityClass In [critical]}]"
    expressions = [{"scopeName": "PriorityClass", "operator": "Exists"}]
    selector = {"matchExpressions": expressions}
    covering = quota({"services": "1"}, {}, scopes=["Terminating"], scopeSelector=selector)
    assert planned(review(critical), covering, limited=[limited]) == {}


def test_an_update_without_an_increase_needs_no_quota() -> None:
    old = claim("1Gi", resourceVersion="7")
    limited = [LimitedResource(resource="persistentvolumeclaims", match_contains=("storage",))]
    assert planned(claims(claim("1Gi"), old), limited=limited) == {}
    text = "insufficient quota to consume: requests.storage"
    assert refused(claims(claim("2Gi"), old), limited=limited).message.endswith(text)


def test_an_exceeded_quota_is_reported_by_name() -> None:
    full = quota({"cpu": "2", "memory": "1Gi", "pods": "9"}, {"cpu": "1500m", "memory": "1Gi", "pods": "1"})
    with pytest.raises(RefusalError) as caught:
        settled(review(counted_pod(requesting(cpu="1", memory="1024Mi"))), full)
    assert caught.value.status.message == (
        'pods "one" is forbidden: exceeded quota: quota, requested: cpu=1,memory=1Gi,'
        " used: cpu=1500m,memory=1Gi, limited: cpu=2,memory=1Gi"
    )


def test_an_exceeded_resource_does_not_block_other_resources() -> None:
    over = quota({"services": "1", "pods": "2"}, {"services": "5", "pods": "1"})
    assert [texts(after) for after in settled(review(ONE_CPU), over)] == [{"services": "5", "pods": "2"}]


def test_a_status_update_is_charged_even_if_it_exceeds_the_quota() -> None:
    grown = {**claim("4Gi"), "status": {"allocatedResources": {"storage": "9Gi"}}}
    after = settled(claims(grown, claim("4Gi", resourceVersion="7"), "status"), STORAGE)
    assert [texts(usage) for usage in after] == [{"requests.storage": "8Gi", "persistentvolumeclaims": "1"}]


@given(pods(), quotas())
def test_all_quotas_are_charged_or_none(reviewed: JSONObject, stored: list[JSONObject]) -> None:
    read = [read_quota(document_) for document_ in stored]
    deltas = quota_deltas(review(reviewed), evaluator_of("", "pods"), read, ())
    used = [delta.quota.used or {} for delta in deltas]
    wanted = [add(before, delta.amounts) for before, delta in zip(used, deltas, strict=True)]
    over = [
        exceeding(after, delta.quota.hard) & delta.amounts.keys()
        for after, delta in zip(wanted, deltas, strict=True)
    ]
    try:
        assert usage_after(review(reviewed), deltas, used) == wanted
    except RefusalError:
        assert any(over)
    else:
        assert not any(over)


@given(st.lists(pods(), max_size=4), quotas())
def test_the_order_of_charges_does_not_matter(every: list[JSONObject], stored: list[JSONObject]) -> None:
    def used_after(order: Sequence[JSONObject]) -> dict[str, ResourceList]:
        used: dict[str, ResourceList] = {}
        for reviewed in order:
            for due in quota_deltas(
                review(reviewed),
                evaluator_of("", "pods"),
                [read_quota(document_) for document_ in stored],
                (),
            ):
                used[due.quota.name] = add(used.get(due.quota.name, due.quota.used or {}), due.amounts)
        return used

    assert used_after(every) == used_after(every[::-1])


@given(pods(), pods(), quotas())
def test_an_update_is_never_charged_a_negative_amount(
    new: JSONObject, old: JSONObject, stored: list[JSONObject]
) -> None:
    old = {**old, "metadata": old["metadata"] | {"resourceVersion": "7"}}
    update = review(new, old=old, subresource="resize")
    evaluator = evaluator_of("", "pods")
    for delta in quota_deltas(update, evaluator, [read_quota(document_) for document_ in stored], ()):
        assert delta.amounts
        assert all(amount.sign > 0 for amount in delta.amounts.values())
        whole = evaluator.usage(new)
        assert all(amount.compare(whole[name]) <= 0 for name, amount in delta.amounts.items())


def test_an_increase_is_the_positive_difference() -> None:
    found = increase(amounts(cpu="2", memory="1"), amounts(cpu="500m", memory="3", pods="1"))
    assert texts(found) == {"cpu": "1500m", "memory": "0", "pods": "0"}
