"""Mutating policies change objects.

Many cases are those of ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating``: ``dispatcher_test.go``,
``compilation_test.go`` and ``plugin_test.go``.
"""

from __future__ import annotations

from typing import Any

import pytest

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.patches import apply_patch
from pratique.cluster.store import ObjectStore
from pratique.registry.defaults.defaulting import with_defaults
from support.admissions import pod_review
from support.mutating_policies import (
    applied,
    bound,
    failure_messages,
    labelled,
    mutate,
    mutating,
    mutating_policies_of,
    patched,
)
from support.role_bindings import binding, role
from support.validating_policies import EVERYTHING, config_map, deployment, deployment_review, match_condition

ADD_100 = applied("Object{spec: Object.spec{replicas: object.spec.replicas + 100}}")
ADD_10 = patched('[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas + 10}]')
DESIRED = [{"name": "desired", "expression": "10"}]


def replicas_of(expression: str) -> JSONObject:
    return patched(f'[JSONPatch{{op: "replace", path: "/spec/replicas", value: {expression}}}]')


@pytest.mark.parametrize(
    ("mutations", "spec", "replicas"),
    [
        ([ADD_100], {}, 101),
        ([ADD_100, ADD_10], {}, 111),
        ([ADD_10, ADD_100], {}, 111),
        ([replicas_of("variables.desired + 1")], {"variables": DESIRED}, 11),
        ([applied("Object{spec: Object.spec{replicas: variables.desired + 1}}")], {"variables": DESIRED}, 11),
        (
            [replicas_of("request.kind.group == 'apps' && request.kind.kind == 'Deployment' ? 7 : 0")],
            {},
            7,
        ),
        ([replicas_of("namespaceObject.metadata.name == 'shop' ? 8 : 0")], {}, 8),
        ([replicas_of("oldObject == null ? 9 : 0")], {}, 9),
    ],
)
def test_mutations_are_made_one_after_another(
    mutations: list[JSONObject], spec: dict[str, Any], replicas: int
) -> None:
    review = deployment_review(deployment(1))
    found = mutate(mutating(*mutations, **spec), bound(), review=review)
    assert found.document.data == deployment(replicas)
    (decision,) = found.decisions
    assert decision.outcome is OutcomeStatus.MUTATED
    assert decision.operations == ({"op": "replace", "path": "/spec/replicas", "value": replicas},)
    assert (decision.changed, decision.ran, found.dirty, found.refusal) == (True, True, True, None)
    assert review.object == deployment(1)


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        ('{"value": Object{field: "fieldValue"}.field}', {"value": "fieldValue"}),
        (
            '{"set": string(has(Object{field: "x"}.field)), "unset": string(has(Object{}.field))}',
            {"set": "true", "unset": "false"},
        ),
        (
            '{"empty": string(Object{} == Object{}), "different": string(Object{a: "x"} == Object{a: "y"})}',
            {"empty": "true", "different": "false"},
        ),
    ],
)
def test_expressions_see_the_object_before_the_mutation(value: str, labels: JSON) -> None:
    found = mutate(
        mutating(patched(f'[JSONPatch{{op: "add", path: "/metadata/labels", value: {value}}}]')), bound()
    )
    assert found.document.data == deployment(labels=labels)


def test_a_json_patch_value_may_be_built_from_any_object_type() -> None:
    mutation = patched('[JSONPatch{op: "add", path: "/spec", value: Object.invalid{replicas: 1}}]')
    assert mutate(mutating(mutation), bound()).document.data == deployment(1)


def test_variables_see_the_previous_mutation() -> None:
    variables = [{"name": "more", "expression": "object.spec.replicas * 2"}]
    policy = mutating(replicas_of("variables.more"), replicas_of("variables.more"), variables=variables)
    assert mutate(policy, bound(), review=deployment_review(deployment(3))).document.data == deployment(12)


@pytest.mark.parametrize(("user", "replicas"), [("ann", 10), ("bob", 0)])
def test_expressions_may_call_the_authorizer(user: str, replicas: int) -> None:
    roles = [
        role("r", verbs=["create"], resources=["endpoints"]),
        binding("rb", "ClusterRole/r", "User/ann"),
    ]
    mutation = replicas_of("authorizer.group('').resource('endpoints').check('create').allowed() ? 10 : 0")
    store = ObjectStore(roles, assume_namespaces=True)
    review = deployment_review(cluster=store, userInfo={"username": user})
    assert mutate(mutating(mutation), bound(), review=review).document.data == deployment(replicas)


def test_each_parameter_is_an_invocation() -> None:
    store = ObjectStore(
        [
            config_map("two", {"b": "2"}, on="yes"),
            config_map("one", {"a": "1"}, on="yes"),
            config_map("off", {}),
        ],
        assume_namespaces=True,
    )
    policy = mutating(
        applied("Object{metadata: Object.metadata{annotations: params.data}}"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    ref = {"selector": {"matchLabels": {"on": "yes"}}, "parameterNotFoundAction": "Deny"}
    found = mutate(policy, bound(paramRef=ref), review=deployment_review(cluster=store))
    assert found.document.data == deployment(annotations={"a": "1", "b": "2"})
    assert [decision.key for decision in found.decisions] == ["p/b/shop/one", "p/b/shop/two"]
    assert [len(decision.operations) for decision in found.decisions] == [1, 1]


def test_a_parameter_is_found_by_its_name() -> None:
    store = ObjectStore([config_map("cm1", {"key": "10"})], assume_namespaces=True)
    policy = mutating(
        applied("Object{spec: Object.spec{replicas: object.spec.replicas + int(params.data['key'])}}"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    ref = {"name": "cm1", "namespace": "shop", "parameterNotFoundAction": "Deny"}
    review = deployment_review(deployment(1), cluster=store)
    assert mutate(policy, bound(paramRef=ref), review=review).document.data == deployment(11)


def test_a_binding_without_parameters_does_nothing_under_allow() -> None:
    policy = mutating(ADD_100, paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    ref = {"name": "none", "parameterNotFoundAction": "Allow"}
    review = deployment_review(cluster=ObjectStore())
    found = mutate(policy, bound(paramRef=ref), review=review, explain=True)
    (decision,) = found.decisions
    assert decision.outcome is OutcomeStatus.SKIPPED
    assert decision.reason.startswith("no params found")
    assert (found.refusal, found.dirty, found.document) == (None, False, review.object_document)


PRODUCTION = match_condition('object.metadata.?labels["environment"].orValue("") == "production"')


def test_match_conditions_see_the_mutations_of_earlier_policies() -> None:
    documents = [
        mutating(labelled("environment", "'production'"), name="p1"),
        mutating(labelled("invoked", "'true'"), name="p2", matchConditions=PRODUCTION),
        *(bound(name, name=name) for name in ("p1", "p2")),
    ]
    labels = {"environment": "production", "invoked": "true"}
    assert mutate(*documents).document.data == deployment(labels=labels)


def test_match_conditions_do_not_see_the_mutations_of_later_policies() -> None:
    documents = [
        mutating(labelled("invoked", "'true'"), name="p1", matchConditions=PRODUCTION),
        mutating(labelled("environment", "'production'"), name="p2"),
        *(bound(name, name=name) for name in ("p1", "p2")),
    ]
    found = mutate(*documents, explain=True)
    assert found.document.data == deployment(labels={"environment": "production"})
    skipped, mutated = found.decisions
    assert (skipped.outcome, skipped.reason) == (OutcomeStatus.SKIPPED, 'matchCondition "only" is false')
    assert (skipped.ran, mutated.ran) == (False, True)
    assert [decision.policy for decision in mutate(*documents).decisions] == ["p2"]


@pytest.mark.parametrize(("conditions", "label"), [([], "same"), (match_condition("true"), None)])
def test_conditions_make_the_object_a_value_of_go(conditions: list[JSONObject], label: str | None) -> None:
    """As in an API server, which refuses then to compare parts of it with other types."""
    policy = mutating(
        labelled("spec", "variables.spec == 'x' ? 'x' : 'same'"),
        variables=[{"name": "spec", "expression": "object.spec"}],
        matchConditions=conditions,
    )
    found = mutate(policy, bound())
    assert found.document.data["metadata"].get("labels", {}).get("spec") == label
    assert ("no such overload" in "".join(failure_messages(found))) is bool(conditions)


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}


def test_labels_are_gone_with_the_last_one() -> None:
    """So that the next patch does not find them, as in an API server."""
    complete = with_defaults(GroupVersionKind("", "v1", "Pod"), POD)
    removed = patched('[JSONPatch{op: "remove", path: "/metadata/labels/app"}]')
    replaced = patched('[JSONPatch{op: "replace", path: "/metadata/labels/app", value: "again"}]')
    found = mutate(mutating(removed, replaced), bound(), review=pod_review(complete))
    assert "labels" not in found.document.data["metadata"]
    assert len(failure_messages(found)) == 1


def test_what_a_mutation_adds_gets_the_defaults_that_the_object_has() -> None:
    complete = with_defaults(GroupVersionKind("", "v1", "Pod"), POD)
    side = '[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "s", image: "s"}}]'
    pulled = labelled("pull", "object.spec.containers[1].?imagePullPolicy.orValue('none')")
    found = mutate(mutating(patched(side), pulled), bound(), review=pod_review(complete))
    assert found.document.data["metadata"]["labels"]["pull"] == "Always"
    plain = mutate(mutating(patched(side), pulled), bound(), review=pod_review(POD))
    assert plain.document.data["metadata"]["labels"]["pull"] == "none"


def test_selectors_see_the_object_as_received() -> None:
    selector = {"matchLabels": {"environment": "production"}}
    constraints = {"resourceRules": [EVERYTHING | {"operations": ["CREATE"]}], "objectSelector": selector}
    documents = [
        mutating(labelled("environment", "'production'"), name="p1"),
        mutating(labelled("invoked", "'true'"), name="p2", matchConstraints=constraints),
        *(bound(name, name=name) for name in ("p1", "p2")),
    ]
    found = mutate(*documents, explain=True)
    assert found.document.data == deployment(labels={"environment": "production"})
    assert [decision.outcome.value for decision in found.decisions] == ["mutated", "skipped"]


def test_policies_and_bindings_run_in_name_order_static_ones_first() -> None:
    names = ["b", "a", "z.static.k8s.io", "y.static.k8s.io"]
    order = applied(
        'Object{metadata: Object.metadata{annotations: {"order": object.metadata.?annotations["order"].orValue("")'
        ' + "%s"}}}'
    )
    documents = []
    for name in names:
        text = order["applyConfiguration"]["expression"] % name[0]
        static = ".static.k8s.io" if "static" in name else ""
        documents += [mutating(applied(text), name=name)]
        documents += [bound(name, name=f"{name[0]}{place}{static}") for place in (2, 1)]
    found = mutate(*documents)
    assert found.document.data["metadata"]["annotations"] == {"order": "yyzzaabb"}
    assert [decision.binding[:2] for decision in found.decisions] == [
        "y1",
        "y2",
        "z1",
        "z2",
        "a1",
        "a2",
        "b1",
        "b2",
    ]


def test_items_of_a_list_are_merged_by_their_names() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"initContainers": [{"name": "own", "image": "a"}], "containers": []},
    }
    mutation = applied(
        "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'more', image: 'b'},"
        " Object.spec.initContainers{name: 'own', image: 'c'}]}}"
    )
    review = pod_review(pod)
    found = mutate(mutating(mutation), bound(), review=review)
    containers = found.document.data["spec"]["initContainers"]
    assert sorted((container["name"], container["image"]) for container in containers) == [
        ("more", "b"),
        ("own", "c"),
    ]
    assert apply_patch(review.object, found.decisions[0].operations) == found.document.data


def test_a_json_patch_whose_test_fails_has_no_effect() -> None:
    mutation = patched(
        '[JSONPatch{op: "test", path: "/spec/replicas", value: 100},'
        ' JSONPatch{op: "remove", path: "/spec/replicas"}]'
    )
    review = deployment_review()
    found = mutate(mutating(mutation), bound(), review=review)
    (decision,) = found.decisions
    assert (decision.outcome, decision.changed, decision.ran) == (OutcomeStatus.UNCHANGED, False, True)
    assert (found.dirty, found.document.data) == (True, review.object)


def test_a_json_patch_may_remove_api_version_and_kind() -> None:
    mutation = patched(
        '[JSONPatch{op: "remove", path: "/kind"}, JSONPatch{op: "remove", path: "/apiVersion"}]'
    )
    found = mutate(mutating(mutation), bound())
    assert found.document.data == deployment()
    assert found.decisions[0].outcome is OutcomeStatus.UNCHANGED


def test_a_delete_is_never_mutated() -> None:
    broken = mutating(ADD_100, matchConditions=match_condition("object.none == 1"))
    request: dict[str, Any] = {"operation": "DELETE", "object": None, "oldObject": deployment()}
    found = mutate(broken, bound(), review=deployment_review(**request), explain=True)
    assert (found.decisions, found.refusal, found.dirty) == ((), None, False)


def test_a_request_without_object_is_not_mutated() -> None:
    request: dict[str, Any] = {"operation": "CONNECT", "object": None}
    found = mutate(mutating(ADD_100), bound(), review=deployment_review(**request))
    (decision,) = found.decisions
    assert (decision.outcome, decision.ran) == (OutcomeStatus.UNCHANGED, True)
    assert (found.dirty, found.document.is_null, found.refusal) == (False, True, None)


def test_unbound_policies_are_not_evaluated() -> None:
    policies, review = mutating_policies_of(mutating(ADD_100), bound("other")), deployment_review()
    assert not policies
    assert policies.admit(review).document is review.object_document
    assert mutating_policies_of(mutating(ADD_100), bound())


def test_policies_do_not_see_requests_for_policies() -> None:
    request: dict[str, Any] = {
        "kind": {"group": "admissionregistration.k8s.io", "version": "v1", "kind": "MutatingAdmissionPolicy"},
        "resource": {
            "group": "admissionregistration.k8s.io",
            "version": "v1",
            "resource": "mutatingadmissionpolicies",
        },
    }
    review = deployment_review(mutating(ADD_100), **request)
    for explain in (False, True):
        assert mutate(mutating(ADD_100), bound(), review=review, explain=explain).decisions == ()
