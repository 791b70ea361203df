"""Dispatching policies of both kinds: bindings, versions and parameters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pratique.apimachinery.json_values import Document
from pratique.policies.activation import UNLIMITED
from pratique.policies.compilation import compile_bindings, compile_policy
from pratique.policies.dispatcher import Invocation, Misconfigured, PolicyDispatcher, Unmatched
from support.validating_policies import EVERYTHING, binding, deployment, deployment_review, loaded, policy

HPA: dict[str, Any] = {
    "kind": {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"},
    "resource": {"group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers"},
}


def steps(policy_document: Any, binding_document: Any, dispatcher: PolicyDispatcher) -> list[Any]:
    found = loaded(policy_document, binding_document)
    compiled, _ = compile_policy(found.validating_policies[0])
    return list(dispatcher.dispatch(compiled, compile_bindings(found.validating_bindings)))


@pytest.mark.parametrize(
    ("mutates", "text"),
    [
        (False, "failed to configure binding: failed to convert object version: "),
        (True, "failed to configure policy: "),
    ],
)
def test_a_failed_conversion_is_blamed_on_the_policy_or_the_binding(mutates: bool, text: str) -> None:  # noqa: FBT001
    rule = EVERYTHING | {"apiGroups": ["autoscaling"], "apiVersions": ["v1"]}
    review = deployment_review({"metadata": {"name": "web"}}, **HPA)
    (step,) = steps(
        policy("true", matchConstraints={"resourceRules": [rule]}),
        binding(),
        PolicyDispatcher(review, mutates=mutates),
    )
    assert isinstance(step, Misconfigured)
    assert step.text.startswith(text)
    assert "failed to convert" not in step.text.removeprefix(text)


def test_a_binding_whose_parameters_do_not_exist_is_unmatched() -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    ref = {"name": "none", "parameterNotFoundAction": "Allow"}
    (step,) = steps(
        policy("true", paramKind=kind), binding(paramRef=ref), PolicyDispatcher(deployment_review())
    )
    assert isinstance(step, Unmatched)
    assert step.reason == "no params found for policy binding with `Allow` parameterNotFoundAction"


def test_policies_that_match_by_the_same_version_share_activations() -> None:
    dispatcher = PolicyDispatcher(deployment_review())
    seen = [steps(policy("true"), binding(), dispatcher)[0] for _ in range(2)]
    assert all(isinstance(entry, Invocation) for entry in seen)
    assert seen[0].activations is seen[1].activations


def test_activations_of_a_changed_object_show_the_change() -> None:
    (step,) = steps(policy("true"), binding(), PolicyDispatcher(deployment_review()))
    changed = msgspec.structs.replace(
        step.activations.review, object_document=Document.from_data(deployment(replicas=9))
    )
    activation, _ = step.activations.changed(changed).for_expressions(
        None, {}, UNLIMITED, has_authorizer=True
    )
    assert activation["object"]["spec"]["replicas"] == 9
    assert activation["namespaceObject"]["metadata"]["name"] == "shop"
