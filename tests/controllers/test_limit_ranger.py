"""LimitRanger."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import MUTATE, Handlers, Phase
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.limit_ranger import ANNOTATION, CONTROLLER
from support import vector_cases
from support.admissions import BOTH, Admission, admit, forbidden_text, pod_review, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.pods import container, pod
from support.strategies.demands import limit_ranges, pods

MUTATING = msgspec.structs.replace(
    CONTROLLER, phases=MUTATE, build=lambda given: Handlers(mutate=CONTROLLER.build(given).mutate)
)
"""The handler that sets defaults, whether or not the result is within bounds."""

PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}


@pytest.mark.parametrize("case", vector_cases.plugin("LimitRanger"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    check(admit(CONTROLLER, review, phases=[PHASES[phase] for phase in case["phases"]]), case["expected"])


def limits(*items: JSONObject, name: str = "limits") -> JSONObject:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": list(items)}}


def sized_container(name: str = "c", requests: JSON = None, limits: JSON = None) -> JSONObject:
    given = {"requests": requests, "limits": limits}
    resources = {kind: amounts for kind, amounts in given.items() if amounts is not None}
    fields: JSONObject = {"resources": resources} if resources else {}
    return container(name, **fields)


def on_pod(reviewed: JSON, *ranges: JSONObject, configuration: JSON = None, **review: JSON) -> Admission:
    return admit(CONTROLLER, in_cluster(pod_review(reviewed, **review), ranges), configuration)


def in_cluster(review: Review, ranges: tuple[JSONObject, ...]) -> Review:
    return msgspec.structs.replace(review, cluster=ObjectStore(ranges))


def claim_review(storage: str | None, old: str | None = None, *ranges: JSONObject) -> Review:
    def claim(amount: str | None) -> JSONObject:
        requests = {} if amount is None else {"storage": amount}
        return {"kind": "PersistentVolumeClaim", "spec": {"resources": {"requests": requests}}}

    request = {
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "PersistentVolumeClaim"},
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
        "name": "data",
        "namespace": "shop",
        "object": claim(storage),
        "oldObject": None if old is None else claim(old),
    }
    return review_of(request, ObjectStore(ranges))


DEFAULTS = {
    "type": "Container",
    "default": {"cpu": "0.5", "memory": "1024Mi"},
    "defaultRequest": {"cpu": "100m", "memory": "256Mi"},
}


def test_defaults_fill_missing_amounts_and_the_annotation_lists_them() -> None:
    reviewed = pod(
        sized_container("web", limits={"cpu": "1"}),
        sized_container("side"),
        initContainers=[sized_container("init", {"memory": "1"})],
    )
    found = on_pod(reviewed, limits(DEFAULTS))
    assert found.operations == (
        {
            "op": "add",
            "path": "/spec/containers/0/resources/requests",
            "value": {"cpu": "100m", "memory": "256Mi"},
        },
        {"op": "add", "path": "/spec/containers/0/resources/limits/memory", "value": "1Gi"},
        {
            "op": "add",
            "path": "/spec/containers/1/resources",
            "value": {
                "requests": {"cpu": "100m", "memory": "256Mi"},
                "limits": {"cpu": "500m", "memory": "1Gi"},
            },
        },
        {"op": "add", "path": "/spec/initContainers/0/resources/requests/cpu", "value": "100m"},
        {
            "op": "add",
            "path": "/spec/initContainers/0/resources/limits",
            "value": {"cpu": "500m", "memory": "1Gi"},
        },
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {
                ANNOTATION: "LimitRanger plugin set: cpu, memory request for container web; memory limit for"
                " container web; cpu, memory request for container side; cpu, memory limit for container side;"
                " cpu request for init container init; cpu, memory limit for init container init"
            },
        },
    )


def test_ephemeral_containers_get_no_defaults() -> None:
    assert (
        on_pod(pod(containers=[], ephemeralContainers=[{"name": "debug"}]), limits(DEFAULTS)).operations == ()
    )


def test_the_annotation_is_that_of_the_last_limit_range_with_an_effect() -> None:
    first = limits({"type": "Container", "default": {"cpu": "1"}}, name="a")
    second = limits({"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}}, name="b")
    found = on_pod(pod(sized_container()), second, first, limits(name="c"))
    assert found.object["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1", "memory": "1Gi"}}
    assert found.object["metadata"]["annotations"] == {
        ANNOTATION: "LimitRanger plugin set: memory limit for container c"
    }


@pytest.mark.parametrize(
    ("item", "requests", "most"),
    [
        ({"default": {"cpu": "1"}}, {}, {"cpu": "1"}),
        ({"max": {"cpu": "2"}}, {}, {}),
    ],
)
def test_limit_ranges_are_read_as_stored(item: JSONObject, requests: JSONObject, most: JSONObject) -> None:
    found = on_pod(pod(sized_container()), limits({"type": "Container", **item}), configuration={})
    resources = found.object["spec"]["containers"][0].get("resources", {})
    assert (resources.get("requests", {}), resources.get("limits", {})) == (requests, most)


@pytest.mark.parametrize(
    ("item", "requests", "most"),
    [
        ({"default": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1"}),
        ({"max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"max": {"cpu": "2"}, "default": {"cpu": "1"}, "min": {"cpu": "100m"}}, {"cpu": "1"}, {"cpu": "1"}),
        ({"min": {"cpu": "100m"}}, {"cpu": "100m"}, {}),
        ({"min": {"cpu": "1m"}, "defaultRequest": {"cpu": "5m"}}, {"cpu": "5m"}, {}),
    ],
)
def test_handwritten_limit_ranges_can_be_defaulted_as_an_api_server_does(
    item: JSONObject, requests: JSONObject, most: JSONObject
) -> None:
    found = on_pod(
        pod(sized_container()),
        limits({"type": "Container", **item}),
        configuration={"defaultLimitRanges": True},
    )
    resources = found.object["spec"]["containers"][0]["resources"]
    assert found.allowed
    assert (resources.get("requests", {}), resources.get("limits", {})) == (requests, most)


USAGE = "cpu usage per Container is"
RATIO = "cpu max limit to request ratio per Container is"


@pytest.mark.parametrize(
    ("item", "requests", "most", "text"),
    [
        ({"min": {"cpu": "0.5"}}, None, None, f"minimum {USAGE} 500m.  No request is specified"),
        ({"min": {"cpu": "0.5"}}, {"cpu": "0.4"}, None, f"minimum {USAGE} 500m, but request is 400m"),
        ({"min": {"cpu": "1"}}, {"cpu": 1}, {"cpu": "900m"}, f"minimum {USAGE} 1, but limit is 900m"),
        ({"max": {"cpu": "1k"}}, {"cpu": "1"}, None, f"maximum {USAGE} 1k.  No limit is specified"),
        ({"max": {"cpu": "1"}}, None, {"cpu": "1001m"}, f"maximum {USAGE} 1, but limit is 1001m"),
        ({"max": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "1"}, f"maximum {USAGE} 1, but request is 2"),
        ({"maxLimitRequestRatio": {"cpu": "1.5"}}, None, {"cpu": "1"},
         f"{RATIO} 1500m, but no request is specified or request is 0"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "0"}, {"cpu": "1"},
         f"{RATIO} 2, but no request is specified or request is 0"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, None,
         f"{RATIO} 2, but no limit is specified or limit is 0"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": None},
         f"{RATIO} 2, but no limit is specified or limit is 0"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "3"}, {"cpu": "10"},
         f"{RATIO} 2, but provided ratio is 3.333333"),
        ({"maxLimitRequestRatio": {"cpu": "1"}}, {"cpu": "3"}, {"cpu": "5"},
         f"{RATIO} 1, but provided ratio is 1.666667"),
        ({"max": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "20E"}, f"maximum {USAGE} 1, but limit is 20E"),
    ],
)  # fmt: skip
def test_violations_of_a_container_are_reported_word_for_word(
    item: JSONObject, requests: JSON, most: JSON, text: str
) -> None:
    reviewed = pod(sized_container(requests=requests, limits=most))
    assert forbidden_text(on_pod(reviewed, limits({"type": "Container", **item}))) == text


@pytest.mark.parametrize(
    ("item", "requests", "most"),
    [
        ({"min": {"cpu": "500m"}}, {"cpu": "0.5"}, None),
        ({"min": {"memory": "1Mi"}}, {"memory": 1048576}, None),
        ({"max": {"cpu": "1"}}, None, {"cpu": "1000m"}),
        ({"maxLimitRequestRatio": {"cpu": "1.1"}}, {"cpu": "1"}, {"cpu": "1.1"}),
        ({"default": {"cpu": "1"}}, None, None),
        ({}, None, None),
    ],
)
def test_amounts_exactly_at_the_bounds_are_admitted(item: JSONObject, requests: JSON, most: JSON) -> None:
    assert on_pod(
        pod(sized_container(requests=requests, limits=most)), limits({"type": "Container", **item})
    ).allowed


def test_all_violations_of_the_first_violated_limit_range_are_reported() -> None:
    least = {"type": "Container", "min": {"memory": "1Gi", "cpu": "1"}}
    whole = {"type": "Pod", "max": {"cpu": "3"}}
    reviewed = pod(
        sized_container("a", {"cpu": "2"}, {"cpu": "2"}), sized_container("b", {"cpu": "2"}, {"cpu": "2"})
    )
    first, second = limits(least, whole, name="a"), limits({"type": "Pod", "max": {"cpu": "1"}}, name="b")
    assert forbidden_text(on_pod(reviewed, second, first)) == (
        "[minimum memory usage per Container is 1Gi.  No request is specified,"
        " maximum cpu usage per Pod is 3, but limit is 4]"
    )


def test_a_pod_bound_applies_to_the_sum_of_its_containers() -> None:
    reviewed = pod(
        sized_container(requests={"memory": "300Mi"}, limits={"memory": "300Mi"}),
        sized_container(requests={"memory": "300Mi"}, limits={"memory": "900Mi"}),
        initContainers=[sized_container(limits={"memory": "1Gi"})],
    )
    item = {
        "type": "Pod",
        "min": {"memory": "1Gi"},
        "max": {"memory": "1Gi"},
        "maxLimitRequestRatio": {"memory": "1"},
    }
    assert forbidden_text(on_pod(reviewed, limits(item))) == (
        "[minimum memory usage per Pod is 1Gi, but request is 600Mi,"
        " maximum memory usage per Pod is 1Gi, but limit is 1200Mi,"
        " memory max limit to request ratio per Pod is 1, but provided ratio is 2.000000]"
    )


CLAIMS = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}}


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
        ("1Ti", "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 1Ti"),
        (
            None,
            (
                "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified,"
                " maximum storage usage per PersistentVolumeClaim is 10Gi.  No request is specified]"
            ),
        ),
    ],
)
@pytest.mark.parametrize("old", [None, "1Gi"])
def test_violations_of_a_claim_are_reported_word_for_word(
    storage: str | None, text: str, old: str | None
) -> None:
    assert (
        forbidden_text(
            admit(CONTROLLER, claim_review(storage, old, limits(CLAIMS))), 'persistentvolumeclaims "data"'
        )
        == text
    )


@pytest.mark.parametrize(
    ("storage", "old", "allowed"), [("20Gi", "20480Mi", True), ("20Gi", "21Gi", False), ("20Gi", None, False)]
)
def test_unchanged_claims_can_be_exempted(storage: str, old: str | None, *, allowed: bool) -> None:
    review = claim_review(storage, old, limits(CLAIMS))
    assert admit(CONTROLLER, review, {"skipUnchangedClaims": True}).allowed is allowed
    assert not admit(CONTROLLER, review).allowed


BOUND = limits({"type": "Container", "default": {"cpu": "1"}, "min": {"cpu": "1"}})


@pytest.mark.parametrize("subresource", ["status", "ephemeralcontainers", "binding"])
def test_subresources_are_ignored(subresource: str) -> None:
    found = on_pod(pod(sized_container()), BOUND, operation="UPDATE", subresource=subresource)
    assert (found.allowed, found.operations) == (True, ())


def test_a_resize_is_checked() -> None:
    found = on_pod(
        pod(sized_container(requests={"cpu": "1m"})),
        BOUND,
        operation="UPDATE",
        old=pod(),
        subresource="resize",
    )
    assert forbidden_text(found) == "minimum cpu usage per Container is 1, but request is 1m"
    assert len(found.operations) == 2


def test_updates_of_pods_are_ignored() -> None:
    found = on_pod(pod(sized_container()), BOUND, operation="UPDATE", old=pod(sized_container()))
    assert (found.allowed, found.operations) == (True, ())


def test_older_releases_check_updates_of_pods() -> None:
    found = on_pod(
        pod(sized_container()), BOUND, operation="UPDATE", old=pod(), configuration={"podUpdates": True}
    )
    assert forbidden_text(found).startswith("minimum cpu usage")


@pytest.mark.parametrize("configuration", [None, {"podUpdates": True}])
def test_objects_that_are_being_deleted_are_ignored(configuration: JSON) -> None:
    old = {"kind": "Pod", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    for subresource in ("", "resize"):
        found = on_pod(
            pod(sized_container()),
            BOUND,
            operation="UPDATE",
            old=old,
            subresource=subresource,
            configuration=configuration,
        )
        assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize("phase", BOTH)
@pytest.mark.parametrize("reviewed", [{"kind": "Service"}, None, "pod", []])
def test_an_object_other_than_a_pod_is_a_bad_request(reviewed: JSON, phase: Phase) -> None:
    status = admit(CONTROLLER, pod_review(reviewed), phases=[phase]).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message == "Resource was marked with kind Pod but was unable to be converted"


def test_an_object_other_than_a_claim_is_a_bad_request() -> None:
    request = {
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "PersistentVolumeClaim"},
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
        "namespace": "shop",
        "object": {"kind": "Service"},
    }
    status = admit(CONTROLLER, review_of(request)).status
    assert status is not None
    assert (status.code, status.message) == (
        400,
        "Resource was marked with kind PersistentVolumeClaim but was unable to be converted",
    )


@pytest.mark.parametrize("item", [{"default": {"cpu": "x"}}, {"default": "x"}, {"min": {"cpu": ""}}])
def test_an_unreadable_limit_range_denies_the_request(item: JSONObject) -> None:
    found = on_pod(pod(sized_container()), limits({"type": "Container", **item}))
    assert forbidden_text(found) == (
        "unable to CREATE /v1, Resource=pods at this time because there was an error enforcing limit ranges"
    )


@pytest.mark.parametrize(
    "spec", [None, {}, {"limits": None}, {"limits": ["x", {"type": "Container", "min": None}]}]
)
def test_an_empty_limit_range_has_no_effect(spec: JSON) -> None:
    assert on_pod(pod(sized_container()), {**limits(), "spec": spec}).allowed


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": 5},
        {"limits": ["cpu"]},
        {"limits": "cpu"},
        "x",
        {"limits": {"cpu": "x"}},
        {"requests": {"cpu": []}},
    ],
)
def test_malformed_resources_are_a_bad_request(resources: JSON) -> None:
    status = on_pod(pod({"name": "c", "resources": resources}), BOUND).status
    assert status is not None
    assert status.code == 400
    assert status.message.startswith("spec.containers[0].resources")


@pytest.mark.parametrize("resources", [None, {"limits": None}])
def test_null_amounts_count_as_missing(resources: JSON) -> None:
    found = on_pod(pod({"name": "c", "resources": resources}), limits(DEFAULTS))
    assert found.object["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}


def test_unknown_settings_are_rejected() -> None:
    with pytest.raises(
        ConfigurationError, match='unknown field "podUpdate"; known fields: defaultLimitRanges'
    ):
        on_pod(pod(), configuration={"podUpdate": True})


@given(reviewed=pods(), first=limit_ranges("a"), second=limit_ranges("b"), filled=st.booleans())
def test_a_second_pass_changes_nothing(
    reviewed: JSONObject, first: JSONObject, second: JSONObject, *, filled: bool
) -> None:
    review = in_cluster(pod_review(reviewed), (first, second))
    found = admitted_twice(MUTATING, review, {"defaultLimitRanges": filled})
    items = [
        item
        for limit_range in (first, second)
        for item in limit_range["spec"]["limits"]
        if item["type"] == "Container"
    ]
    defaults = {name for item in items for name in item.get("default", {})}
    for limited in found.object["spec"]["containers"]:
        assert set(limited.get("resources", {}).get("limits", {})) >= defaults
