"""The parameters that a policy is evaluated with."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from support.validating_policies import (
    EVERYTHING,
    binding,
    config_map,
    decide,
    denial_text,
    deployment_review,
    policy,
)

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m1", "labels": {"a": "b"}}}


STORE = ObjectStore(
    [
        NAMESPACE,
        NODE,
        config_map("one", a="b"),
        config_map("two", a="b"),
        config_map("three"),
        config_map("one", namespace="other", a="b"),
    ]
)
SEEN = {
    "expression": "false",
    "messageExpression": "params == null ? 'null' : params.kind + ' ' + dyn(params).?metadata.?namespace.orValue('') "
    "+ '/' + params.metadata.name",
}
NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"
CLUSTER_SCOPED: dict[str, Any] = {
    "kind": {"group": "", "version": "v1", "kind": "Node"},
    "resource": {"group": "", "version": "v1", "resource": "nodes"},
    "namespace": "",
}


def seen(ref: Any, of: JSONObject = CONFIG_MAP, **request: Any) -> list[str]:
    """The parameters of each evaluation, or its error."""
    spec = {} if ref is None else {"paramRef": {"parameterNotFoundAction": "Deny"} | ref}
    review = deployment_review(cluster=STORE, **request)
    found = decide(policy(SEEN, paramKind=of), binding(**spec), review=review)
    return [status.message.partition(" denied request: ")[2] for status in found.denials]


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        (None, ["null"]),
        ({"name": "one"}, ["ConfigMap shop/one"]),
        ({"name": "one", "namespace": "other"}, ["ConfigMap other/one"]),
        ({"selector": {"matchLabels": {"a": "b"}}}, ["ConfigMap shop/one", "ConfigMap shop/two"]),
        ({"selector": {}}, ["ConfigMap shop/one", "ConfigMap shop/three", "ConfigMap shop/two"]),
        ({"selector": {}, "namespace": "other"}, ["ConfigMap other/one"]),
        ({"name": "none"}, [f"failed to configure binding: {NOT_FOUND}"]),
        ({"selector": {"matchLabels": {"a": "c"}}}, [f"failed to configure binding: {NOT_FOUND}"]),
        ({"name": "none", "parameterNotFoundAction": "Allow"}, []),
        ({"selector": {"matchLabels": {"a": "c"}}, "parameterNotFoundAction": "Allow"}, []),
    ],
)
def test_a_policy_is_evaluated_with_each_parameter(ref: Any, expected: list[str]) -> None:
    assert seen(ref) == expected


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ({"name": "m1"}, ["Node /m1"]),
        ({"selector": {"matchLabels": {"a": "b"}}}, ["Node /m1"]),
        (
            {"name": "m1", "namespace": "shop"},
            [
                "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            ],
        ),
    ],
)
def test_parameters_can_be_cluster_scoped(ref: Any, expected: list[str]) -> None:
    assert seen(ref, {"apiVersion": "v1", "kind": "Node"}) == expected


@pytest.mark.parametrize("ref", [{"name": "one"}, {"selector": {}}])
def test_namespaced_parameters_need_a_namespace(ref: Any) -> None:
    text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
    assert seen(ref, object=NODE, **CLUSTER_SCOPED) == [f"failed to configure binding: {text}"]
    assert seen(ref | {"namespace": "other"}, object=NODE, **CLUSTER_SCOPED) == ["ConfigMap other/one"]


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ({"apiVersion": "v1", "kind": "Nothing"}, "/v1, Kind=Nothing"),
        ({"apiVersion": "example.com/v1", "kind": "Limit"}, "example.com/v1, Kind=Limit"),
        ({"apiVersion": "extensions/v1beta1", "kind": "Deployment"}, "extensions/v1beta1, Kind=Deployment"),
    ],
)
def test_a_param_kind_that_does_not_exist_is_a_policy_error(kind: JSONObject, named: str) -> None:
    text = f"failed to configure policy: failed to find resource referenced by paramKind: '{named}'"
    documents = [policy("true", paramKind=kind), binding()]
    review = deployment_review(cluster=STORE)
    assert denial_text(*documents, review=review) == f"ValidatingAdmissionPolicy 'p' denied request: {text}"
    open_one = policy("true", paramKind=kind, failurePolicy="Ignore")
    (decision,) = decide(open_one, binding(), review=review).decisions
    assert (decision.outcome, decision.reason) == (OutcomeStatus.FAILED_OPEN, text)


def test_a_policy_error_affects_only_requests_that_the_policy_matches() -> None:
    nowhere = {"resourceRules": [EVERYTHING | {"resources": ["pods"]}]}
    documents = [
        policy("true", paramKind={"apiVersion": "v1", "kind": "X"}, matchConstraints=nowhere),
        binding(),
    ]
    assert decide(*documents).status is None


def test_parameters_have_the_version_of_the_param_kind() -> None:
    stored = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "hpa", "namespace": "shop"},
        "spec": {"maxReplicas": 3},
    }
    kind = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler"}
    text = {"expression": "false", "messageExpression": "params.apiVersion + string(params.spec.maxReplicas)"}
    ref = {"name": "hpa", "parameterNotFoundAction": "Deny"}
    documents = [policy(text, paramKind=kind), binding(paramRef=ref)]
    review = deployment_review(cluster=ObjectStore([NAMESPACE, stored]))
    assert denial_text(*documents, review=review).endswith("denied request: autoscaling/v13")


def test_parameters_are_not_looked_up_without_param_kind() -> None:
    documents = [policy("true"), binding(paramRef={"name": "none", "parameterNotFoundAction": "Deny"})]
    assert decide(*documents).status is None


def test_match_conditions_variables_messages_and_annotations_see_params() -> None:
    checked = policy(
        {"expression": "variables.name != 'one'", "messageExpression": "'not ' + variables.name"},
        paramKind=CONFIG_MAP,
        variables=[{"name": "name", "expression": "string(params.metadata.name)"}],
        matchConditions=[{"name": "named", "expression": "params.metadata.name != 'two'"}],
        auditAnnotations=[{"key": "seen", "valueExpression": "variables.name"}],
    )
    ref = {"selector": {}, "parameterNotFoundAction": "Deny"}
    found = decide(checked, binding(paramRef=ref), review=deployment_review(cluster=STORE))
    (decision,) = found.decisions
    assert decision.reason == "not one"
    assert len(decision.denials) == 1
    assert found.audit_annotations == {"p/seen": "one, three"}


def test_a_policy_whose_conditions_reject_every_parameter_is_skipped_for_the_first_reason() -> None:
    conditions = [
        {"name": f"not{name}", "expression": f"params.metadata.name != '{name}'"} for name in ("one", "two")
    ]
    checked = policy("false", paramKind=CONFIG_MAP, matchConditions=conditions)
    bound = binding(paramRef={"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"})
    found = decide(checked, bound, review=deployment_review(cluster=STORE), explain=True)
    assert [(decision.outcome, decision.reason) for decision in found.decisions] == [
        (OutcomeStatus.SKIPPED, 'matchCondition "notone" is false')
    ]
    assert found.status is None
