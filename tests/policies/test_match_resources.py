"""The requests that policies and bindings match."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pratique.admission.matching import MatchContext, MatchedResource, RequestKey
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ObjectStore
from pratique.configuration.admissionregistration import MatchResources
from pratique.policies.matching import Mismatch, PolicySettingError, ResourceMatcher
from support.admissions import review_of
from support.validating_policies import EVERYTHING, binding, decide, deployment_review, policy
from support.vector_cases import kind, source

NAMESPACES = ResourceType(
    resource=GroupVersionResource("", "v1", "namespaces"),
    kind=GroupVersionKind("", "v1", "Namespace"),
    namespaced=False,
)


def registered(types: list[JSONObject]) -> ApiResources:
    """The resources that the API server of a case serves."""
    of_case = [
        ResourceType(
            resource=msgspec.convert(type_name["resource"], GroupVersionResource),
            subresource=type_name["subresource"],
            kind=msgspec.convert(type_name["kind"], GroupVersionKind),
            namespaced=True,
        )
        for type_name in types
    ]
    return ApiResources([*of_case, NAMESPACES])


def matched(resources: JSONObject, review: Review) -> MatchedResource | Mismatch:
    return ResourceMatcher.compile(msgspec.convert(resources, MatchResources)).match(MatchContext(review))


@pytest.mark.parametrize("case", kind("matchResources"), ids=source)
def test_requests_match_as_in_kubernetes(case: JSONObject) -> None:
    given, expected = case["input"], case["expected"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    store = ObjectStore([namespace], resources=registered(given["equivalentResources"]))
    review = review_of(given["request"] | {"subResource": given["request"]["subresource"]}, store)
    if "errorContains" in expected:
        with pytest.raises(PolicySettingError, match=expected["errorContains"]):
            matched(given["matchResources"], review)
        return
    found = matched(given["matchResources"], review)
    assert isinstance(found, MatchedResource) is expected["matches"]
    for member, wanted in expected.items():
        if member != "matches":
            assert msgspec.to_builtins(getattr(found, member)) == wanted
    asked = RequestKey.of(review)
    matcher = ResourceMatcher.compile(msgspec.convert(given["matchResources"], MatchResources))
    assert matcher.may_match(asked, store.resources) or isinstance(found, Mismatch)


SELECTORS: JSONObject = {"namespaceSelector": {}, "objectSelector": {}}


@pytest.mark.parametrize("missing", ["namespace", "object"])
def test_a_missing_selector_is_an_error_for_every_request(missing: str) -> None:
    resources = SELECTORS | {f"{missing}Selector": None}
    with pytest.raises(PolicySettingError) as raised:
        matched(resources, deployment_review())
    assert str(raised.value) == (
        f"a nil {missing} selector was passed, please ensure selectors are initialized properly"
    )


@pytest.mark.parametrize(
    ("resources", "reason"),
    [
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, "objectSelector matches the labels of neither"),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, "namespaceSelector does not match the labels"),
        ({"excludeResourceRules": [EVERYTHING]}, "excludeResourceRules match"),
        (
            {"resourceRules": [EVERYTHING | {"operations": ["DELETE"]}]},
            "no rule matches: operations [DELETE]",
        ),
        ({"resourceRules": [EVERYTHING | {"resourceNames": ["other"]}]}, "no rule names the object"),
    ],
)
def test_the_reason_says_why_a_request_does_not_match(resources: JSONObject, reason: str) -> None:
    found = matched(SELECTORS | resources, deployment_review())
    assert isinstance(found, Mismatch)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize("field", ["resourceRules", "excludeResourceRules"])
def test_a_rule_for_another_version_sees_the_object_in_that_version(field: str) -> None:
    rule = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["*"]}
    rule["resources"] = ["horizontalpodautoscalers"]
    constraints = {"resourceRules": [EVERYTHING], field: [rule]}
    request: dict[str, Any] = {
        "kind": {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"},
        "resource": {"group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers"},
    }
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    }
    seen = {
        "expression": "false",
        "messageExpression": "[string(object.apiVersion), request.kind.version, request.resource.version, "
        "request.requestKind.version, request.requestResource.version].join(' ')",
    }
    review = deployment_review(document, **request)
    equivalent = decide(policy(seen, matchConstraints=constraints), binding(), review=review)
    exact = policy(seen, matchConstraints={**constraints, "matchPolicy": "Exact"})
    if field == "resourceRules":
        assert equivalent.decisions[0].reason == "autoscaling/v1 v1 v1 v2 v2"
        assert not decide(exact, binding(), review=review).decisions
    else:
        assert not equivalent.decisions
        assert decide(exact, binding(), review=review).decisions[0].reason == "autoscaling/v2 v2 v2 v2 v2"


def test_match_conditions_see_the_requested_resource() -> None:
    rule = {
        "apiGroups": ["events.k8s.io"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["events"],
    }
    condition = {"name": "c", "expression": "request.resource.group == '' && request.kind.group != ''"}
    text = "'saw ' + request.resource.group + ' of ' + request.requestResource.resource"
    checked = policy(
        {"expression": "false", "messageExpression": text},
        matchConstraints={"resourceRules": [rule]},
        matchConditions=[condition],
    )
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "shop"},
        "involvedObject": {},
    }
    request: dict[str, Any] = {
        "kind": {"group": "", "version": "v1", "kind": "Event"},
        "resource": {"group": "", "version": "v1", "resource": "events"},
    }
    found = decide(checked, binding(), review=deployment_review(event, **request))
    assert [decision.reason for decision in found.decisions] == ["saw events.k8s.io of events"]


def request_for(group: str, resource: str) -> dict[str, Any]:
    return {
        "resource": {"group": group, "version": "v1", "resource": resource},
        "kind": {"group": group, "version": "v1", "kind": "Whatever"},
        "namespace": "",
    }


@pytest.mark.parametrize(
    ("group", "resource", "asked"),
    [
        ("authentication.k8s.io", "tokenreviews", ()),
        ("authorization.k8s.io", "subjectaccessreviews", ()),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", ("p.static.k8s.io",)),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", ("p.static.k8s.io",)),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            ("p.static.k8s.io", "o", "p"),
        ),
    ],
)
@pytest.mark.parametrize("explain", [False, True])
def test_only_static_policies_see_requests_for_policies_and_none_see_virtual_resources(
    group: str, resource: str, asked: tuple[str, ...], *, explain: bool
) -> None:
    names = ("p", "p.static.k8s.io", "o")
    documents = [policy("false", name=name) for name in names]
    bindings = [binding(name, name=f"b-{name}") for name in names]
    review = deployment_review({"metadata": {}}, **request_for(group, resource))
    found = decide(*documents, *bindings, review=review, explain=explain)
    assert tuple(decision.policy for decision in found.decisions) == asked


def test_a_binding_only_narrows_what_its_policy_matches() -> None:
    elsewhere = {"resourceRules": [EVERYTHING | {"resources": ["pods"]}]}
    here = {"objectSelector": {"matchLabels": {"tier": "web"}}}
    documents = [
        policy("false"),
        binding(name="a", matchResources=elsewhere),
        binding(name="b", matchResources=here),
        binding(name="c"),
    ]
    found = decide(*documents, explain=True)
    outcomes = [(decision.binding, decision.outcome) for decision in found.decisions]
    assert outcomes == [
        ("a", OutcomeStatus.SKIPPED),
        ("b", OutcomeStatus.SKIPPED),
        ("c", OutcomeStatus.DENIED),
    ]
    assert [decision.binding for decision in decide(*documents).decisions] == ["c"]


def test_static_bindings_and_static_policies_bind_only_each_other() -> None:
    documents = [policy("false", name="p.static.k8s.io"), binding("p.static.k8s.io", name="b")]
    assert not decide(*documents).decisions
    assert decide(*documents, binding("p.static.k8s.io", name="b.static.k8s.io")).status


def test_an_unbound_policy_and_a_binding_without_policy_have_no_effect() -> None:
    assert decide(policy("false")).status is None
    assert decide(policy("false", name="other"), binding()).status is None
