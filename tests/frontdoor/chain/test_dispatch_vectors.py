"""Kubernetes' own tables of webhook tests, sent through the front door over HTTP and to webhooks over HTTPS.

``applyDefaults: false`` stands for what is below the loading of files there, and goes in below it here. Their
webhooks answer v1beta1, which is all that they are sent.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ObjectStore
from support.vector_cases import kind, source
from support.webhook_dispatch import Dispatched, DispatchingFrontDoor, behaviour_of, dispatch, open_front_door
from support.webhook_servers import allowed

OF_TABLES = [case for case in kind("reinvocation") if not case["input"]["applyDefaults"]]
CALL_DECISIONS = [case for case in kind("rule") if "webhook" in case["input"]]
PREDICATES = [case for case in kind("rule") if "predicateUnderTest" in case["input"]]


@pytest.fixture(scope="module")
def front_door() -> Iterator[DispatchingFrontDoor]:
    with open_front_door() as opened:
        yield opened


def run(front_door: DispatchingFrontDoor, case: JSONObject, phase: str) -> Dispatched:
    given = case["input"]
    behaviour_documents = given["webhookBehaviour"].values()
    behaviours = {f"/{item['path']}": behaviour_of(item) for item in behaviour_documents}
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", **namespace} for namespace in given["namespaces"]]
    return dispatch(
        front_door, given["request"], given["configurations"], behaviours, phase, objects=namespaces
    )


def check(found: Dispatched, expected: JSONObject) -> None:
    decision = found.decision
    assert decision["allowed"] is expected["allowed"], found.message
    assert (decision["status"] or {}).get("code") == expected.get("statusCode") or expected["allowed"]
    assert expected.get("messageContains", "") in found.message
    assert ("objectLabels" not in expected) or labels_of(decision["object"]) == expected["objectLabels"]
    metric = expected.get("rejectionMetric", "")
    assert samples(metric) <= samples(found.metrics)


def labels_of(value: JSON) -> JSON:
    return value["metadata"]["labels"]


def samples(text: str) -> set[tuple[str, frozenset[tuple[str, str]], float]]:
    """Prometheus samples, whatever the order of their labels."""
    return {
        (sample.name, frozenset(sample.labels.items()), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("case", kind("validating"), ids=source)
def test_validating_webhooks_are_dispatched_as_in_kubernetes(
    front_door: DispatchingFrontDoor, case: JSONObject
) -> None:
    found = run(front_door, case, "validate")
    check(found, case["expected"])
    assert found.decision["auditAnnotations"] == case["expected"]["auditAnnotations"]


@pytest.mark.parametrize("case", kind("mutating"), ids=source)
def test_mutating_webhooks_are_dispatched_as_in_kubernetes(
    front_door: DispatchingFrontDoor, case: JSONObject
) -> None:
    found = run(front_door, case, "mutate")
    check(found, case["expected"])
    assert found.decision["auditAnnotations"] == case["expected"]["auditAnnotations"]


@pytest.mark.parametrize("case", OF_TABLES, ids=source)
def test_webhooks_are_reinvoked_in_a_second_round_as_in_kubernetes(
    front_door: DispatchingFrontDoor, case: JSONObject
) -> None:
    """Their table looks at the plugin after its first run; here the second round follows at once."""
    found = run(front_door, case, "mutate")
    expected = case["expected"]
    check(found, expected)
    annotations = found.decision["auditAnnotations"].items()
    first_round = {key: value for key, value in annotations if "/round_1" not in key}
    assert first_round == expected["auditAnnotations"]
    again = {
        f"{step['configuration']}/{step['name']}/0"
        for step in found.decision["steps"]
        if step["round"] == 1 and step["outcome"] != "skipped"
    }
    for uid, scheduled in expected["scheduledForReinvocation"].items():
        assert (uid in again) is scheduled


def webhook_of(fields: JSONObject) -> JSONObject:
    """A configuration with one webhook that matches everything, except for ``fields``."""
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    webhook = {
        "name": "asked.example.com",
        "clientConfig": {"url": "https://<server>/asked"},
        "rules": [everything],
        "namespaceSelector": {},
        "objectSelector": {},
        "admissionReviewVersions": ["v1"],
    } | fields
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "asked"},
        "webhooks": [webhook],
    }


def asked_of(
    front_door: DispatchingFrontDoor,
    fields: JSONObject,
    request: JSONObject,
    store: ObjectStore | None = None,
) -> list[JSONObject]:
    """The requests that reach a webhook with these fields."""
    document = webhook_of(fields)
    found = dispatch(front_door, request, [document], {"/asked": allowed()}, "validate", store=store)
    assert found.decision["allowed"], found.message
    return [item.review["request"] for item in found.received]


def registered(types: list[JSONObject]) -> ApiResources:
    """The resources of a case's API server, besides the kinds that the test itself adds to the cluster."""
    of_case = [
        ResourceType(
            resource=msgspec.convert(item["resource"], GroupVersionResource),
            subresource=item["subresource"],
            kind=msgspec.convert(item["kind"], GroupVersionKind),
            namespaced=True,
        )
        for item in types
    ]
    return ApiResources([*of_case, *SERVICES])


SERVICES = (
    ResourceType(
        resource=GroupVersionResource("", "v1", "services"),
        kind=GroupVersionKind("", "v1", "Service"),
        namespaced=True,
    ),
    ResourceType(
        resource=GroupVersionResource("discovery.k8s.io", "v1", "endpointslices"),
        kind=GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice"),
        namespaced=True,
    ),
)


@pytest.mark.parametrize("case", CALL_DECISIONS, ids=source)
def test_webhooks_are_called_for_what_they_match_as_in_kubernetes(
    front_door: DispatchingFrontDoor, case: JSONObject
) -> None:
    given, expected = case["input"], case["expected"]
    fields = dict(given["webhook"])
    if "matchConditionOutcome" in given:
        # Theirs is a stand-in that takes any text; this expression comes to the same.
        outcome = str(given["matchConditionOutcome"]["matches"]).lower()
        fields["matchConditions"] = [{"name": "stand-in", "expression": outcome}]
    store = ObjectStore(resources=registered(given["equivalentResources"]))
    received = asked_of(front_door, fields, given["request"], store)
    assert len(received) == int(expected["call"])
    for request in received:
        assert request["kind"] == expected["kind"]
        assert request["resource"] == expected["resource"]
        assert request.get("subResource", "") == expected["subresource"]
        assert request["requestKind"] == given["request"]["kind"]
        assert request["requestResource"] == given["request"]["resource"]


@pytest.mark.parametrize("case", PREDICATES, ids=source)
def test_rules_match_as_in_kubernetes(front_door: DispatchingFrontDoor, case: JSONObject) -> None:
    received = asked_of(front_door, {"rules": [case["input"]["rule"]]}, case["input"]["request"])
    assert len(received) == int(case["expected"]["match"])


@pytest.mark.parametrize("case", kind("objectSelector"), ids=source)
def test_object_selectors_match_as_in_kubernetes(front_door: DispatchingFrontDoor, case: JSONObject) -> None:
    given = case["input"]
    request = {
        "operation": given["operation"],
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "object": given["object"],
        "oldObject": given["oldObject"],
    }
    received = asked_of(front_door, {"objectSelector": given["objectSelector"]}, request)
    assert len(received) == int(case["expected"]["match"])


@pytest.mark.parametrize("case", kind("namespaceSelector"), ids=source)
def test_namespace_selectors_use_the_same_labels_as_kubernetes(
    front_door: DispatchingFrontDoor, case: JSONObject
) -> None:
    labels = case["expected"]["labelsUsedForSelector"]
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}
        for name, metadata in case["input"]["knownNamespaces"].items()
    ]
    others = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in labels.items()]
    for selector, calls in (({"matchLabels": labels}, 1), ({"matchExpressions": others}, 0)):
        received = asked_of(
            front_door,
            {"namespaceSelector": selector},
            case["input"]["request"],
            ObjectStore(namespaces),
        )
        assert len(received) == calls
