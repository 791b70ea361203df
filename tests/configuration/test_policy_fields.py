"""Validation of policies and bindings, with the API server's messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.configuration.loading import Configurations, load_configurations
from support.validating_policies import EVERYTHING, GROUP, binding, policy

REMOVE = '[JSONPatch{op: "remove", path: "/spec"}]'


def mutating(**spec: Any) -> JSONObject:
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": REMOVE}}
    rule = EVERYTHING | {"operations": ["CREATE"]}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "mutations": [mutation],
            "reinvocationPolicy": "Never",
        }
        | spec,
    }


def mutating_binding(**spec: Any) -> JSONObject:
    document = binding(**spec)
    del document["spec"]["validationActions"]
    return document | {"kind": "MutatingAdmissionPolicyBinding"}


def load(folder: Path, *documents: JSONObject) -> Configurations:
    file = folder / "policies.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return load_configurations([file])


def problem(folder: Path, document: JSONObject) -> str:
    """The only problem of a document, without its position."""
    with pytest.raises(ConfigurationError) as refused:
        load(folder, document)
    text = str(refused.value)
    assert " is invalid: [" not in text, text
    return text.partition('": ')[2].rpartition(" (line ")[0]


def constraints(**changes: Any) -> JSONObject:
    return {"resourceRules": [EVERYTHING], **changes}


def rules(**changes: Any) -> JSONObject:
    return constraints(resourceRules=[EVERYTHING | changes])


def compilation(at: str, source: str, message: str, column: int) -> str:
    shown = f"{source}\n | {'.' * (column - 1)}^"
    quoted = source.replace('"', '\\"')
    return f'{at}: Invalid value: "{quoted}": compilation failed: ERROR: <input>:1:{column}: {message}\n | {shown}'


POLICY_CASES: list[tuple[JSONObject, str]] = [
    (
        {"failurePolicy": "Maybe"},
        'failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
    ),
    ({"failurePolicy": ""}, 'failurePolicy: Unsupported value: "": supported values: "Fail", "Ignore"'),
    ({"matchConstraints": None}, "matchConstraints: Required value"),
    ({"matchConstraints": {}}, "matchConstraints.resourceRules: Required value"),
    (
        {"matchConstraints": constraints(matchPolicy="Other")},
        'matchConstraints.matchPolicy: Unsupported value: "Other": supported values: "Equivalent", "Exact"',
    ),
    (
        {"matchConstraints": rules(operations=[])},
        "matchConstraints.resourceRules[0].operations: Required value",
    ),
    (
        {"matchConstraints": rules(resourceNames=["a/b"])},
        "matchConstraints.resourceRules[0].resourceNames[0]: Invalid value: \"a/b\": may not contain '/'",
    ),
    (
        {"matchConstraints": rules(resourceNames=[".."])},
        "matchConstraints.resourceRules[0].resourceNames[0]: Invalid value: \"..\": may not be '..'",
    ),
    (
        {"matchConstraints": rules(resourceNames=["a", "a"])},
        'matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"',
    ),
    (
        {"matchConstraints": constraints(excludeResourceRules=[EVERYTHING | {"scope": "All"}])},
        (
            'matchConstraints.excludeResourceRules[0].scope: Unsupported value: "All": supported values: "*", '
            '"Cluster", "Namespaced"'
        ),
    ),
    ({"paramKind": {"apiVersion": "v1"}}, "paramKind.kind: Required value"),
    ({"paramKind": {"kind": "A"}}, "paramKind.apiVersion: Required value"),
    (
        {"paramKind": {"apiVersion": "a/b/c", "kind": "A"}},
        'paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
    ),
    (
        {"paramKind": {"apiVersion": "a/", "kind": "A"}},
        'paramKind.apiVersion: Invalid value: "a/": version must be specified',
    ),
    (
        {"paramKind": {"apiVersion": "/", "kind": "A"}},
        'paramKind.apiVersion: Invalid value: "/": version must be specified',
    ),
    ({"matchConditions": [{"name": "a"}]}, "matchConditions[0].expression: Required value"),
    (
        {"matchConditions": [{"name": "a", "expression": "1"}]},
        'matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int',
    ),
    (
        {
            "variables": [{"name": "v", "expression": "1"}],
            "matchConditions": [{"name": "a", "expression": "variables.v"}],
        },
        compilation(
            "matchConditions[0].expression",
            "variables.v",
            "undeclared reference to 'variables' (in container '')",
            1,
        ),
    ),
    (
        {"variables": [{"name": "", "expression": "1"}]},
        "variables[0].name: Required value: name is not specified",
    ),
    (
        {"variables": [{"name": "4ever", "expression": "1"}]},
        'variables[0].name: Invalid value: "4ever": must be a valid CEL identifier',
    ),
    (
        {"variables": [{"name": "namespace", "expression": "1"}]},
        'variables[0].name: Invalid value: "namespace": must be a valid CEL identifier',
    ),
    (
        {"variables": [{"name": "v", "expression": " "}]},
        "variables[0].expression: Required value: expression is not specified",
    ),
    (
        {"variables": [{"name": "v", "expression": "params.a"}]},
        compilation(
            "variables[0].expression", "params.a", "undeclared reference to 'params' (in container '')", 1
        ),
    ),
]
VALIDATION_CASES: list[tuple[JSONObject, str]] = [
    ({"validations": [{}]}, "validations[0].expression: Required value: expression is not specified"),
    (
        {"validations": [{"expression": "object.x"}]},
        'validations[0].expression: Invalid value: "object.x": must evaluate to bool but got dyn',
    ),
    (
        {"validations": [{"expression": "object.x.find('(') == ''"}]},
        (
            "validations[0].expression: Internal error: program instantiation failed: "
            "error parsing regexp: missing closing ): `(`"
        ),
    ),
    (
        {"validations": [{"expression": "variables.a == 1"}]},
        compilation(
            "validations[0].expression",
            "variables.a == 1",
            "undeclared reference to 'variables' (in container '')",
            1,
        ),
    ),
    (
        {
            "variables": [{"name": "v", "expression": "1"}],
            "validations": [{"expression": "variables.a == 1"}],
        },
        compilation("validations[0].expression", "variables.a == 1", "undefined field 'a'", 10),
    ),
    (
        {"validations": [{"expression": "true", "message": " "}]},
        'validations[0].message: Invalid value: " ": must be non-empty if specified',
    ),
    (
        {"validations": [{"expression": "true", "message": "a\nb"}]},
        'validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
    ),
    (
        {"validations": [{"expression": "true", "messageExpression": " "}]},
        'validations[0].messageExpression: Invalid value: " ": must be non-empty if specified',
    ),
    (
        {"validations": [{"expression": "true", "messageExpression": "1"}]},
        'validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int',
    ),
    (
        {"validations": [{"expression": "true", "messageExpression": "authorizer.x"}]},
        compilation(
            "validations[0].messageExpression",
            "authorizer.x",
            "undeclared reference to 'authorizer' (in container '')",
            1,
        ),
    ),
    (
        {"validations": [{"expression": "true", "reason": "Unauthorized"}]},
        (
            'validations[0].reason: Unsupported value: "Unauthorized": supported values: "Forbidden", "Invalid", '
            '"RequestEntityTooLarge"'
        ),
    ),
    (
        {"auditAnnotations": [{"key": "k", "valueExpression": " 1 "}]},
        (
            'auditAnnotations[0].valueExpression: Invalid value: " 1 ": must evaluate to one of [string null_type] but '
            "got int"
        ),
    ),
    (
        {"auditAnnotations": [{"key": "k"}]},
        "auditAnnotations[0].valueExpression: Required value: valueExpression is not specified",
    ),
    (
        {"auditAnnotations": [{"key": "k", "valueExpression": f"'{'a' * 5119}'"}]},
        "auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length",
    ),
    (
        {"auditAnnotations": [{"key": "k", "valueExpression": "'a'"}] * 2},
        'auditAnnotations[1].key: Duplicate value: "k"',
    ),
]


@pytest.mark.parametrize(("spec", "message"), [*POLICY_CASES, *VALIDATION_CASES])
def test_a_validating_policy_is_validated(tmp_path: Path, spec: JSONObject, message: str) -> None:
    assert problem(tmp_path, policy("true", **spec)) == f"spec.{message}"


@pytest.mark.parametrize(("spec", "message"), POLICY_CASES)
def test_a_mutating_policy_is_validated_like_a_validating_one(
    tmp_path: Path, spec: JSONObject, message: str
) -> None:
    constrained = spec.get("matchConstraints")
    if constrained:
        creating = [
            rule | {"operations": rule["operations"] and ["CREATE"]} for rule in constrained["resourceRules"]
        ]
        spec = spec | {"matchConstraints": constrained | {"resourceRules": creating}}
    assert problem(tmp_path, mutating(**spec)) == f"spec.{message}"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"mutations": []}, "mutations: Required value: mutations must contain at least one item"),
        ({"reinvocationPolicy": ""}, "reinvocationPolicy: Required value"),
        (
            {"reinvocationPolicy": "Always"},
            'reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"',
        ),
        (
            {"matchConstraints": rules(operations=["CREATE", "DELETE"])},
            (
                'matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", '
                '"CONNECT", "CREATE", "UPDATE"'
            ),
        ),
        ({"mutations": [{}]}, "mutations[0].patchType: Required value"),
        (
            {"mutations": [{"patchType": "Merge"}]},
            'mutations[0].patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", "JSONPatch"',
        ),
        (
            {"mutations": [{"patchType": "JSONPatch"}]},
            "mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
        ),
        (
            {"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": " "}}]},
            "mutations[0].applyConfiguration.expression: Required value",
        ),
        (
            {
                "mutations": [
                    {
                        "patchType": "JSONPatch",
                        "jsonPatch": {"expression": REMOVE},
                        "applyConfiguration": {"expression": "Object{}"},
                    }
                ]
            },
            (
                'mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when '
                "patchType is JSONPatch"
            ),
        ),
        (
            {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "1"}}]},
            'mutations[0].jsonPatch.expression: Invalid value: "1": must evaluate to list(JSONPatch) but got int',
        ),
        (
            {"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "1"}}]},
            'mutations[0].applyConfiguration.expression: Invalid value: "1": must evaluate to Object but got int',
        ),
    ],
)
def test_mutations_are_validated(tmp_path: Path, spec: JSONObject, message: str) -> None:
    assert problem(tmp_path, mutating(**spec)) == f"spec.{message}"


BINDING_CASES: list[tuple[JSONObject, str]] = [
    ({"policyName": ""}, "policyName: Required value"),
    (
        {"paramRef": {"parameterNotFoundAction": "Deny"}},
        "paramRef: Required value: one of name or selector must be specified",
    ),
    ({"paramRef": {"name": "a"}}, "paramRef.parameterNotFoundAction: Required value"),
    (
        {"paramRef": {"name": "a", "parameterNotFoundAction": "Warn"}},
        'paramRef.parameterNotFoundAction: Unsupported value: "Warn": supported values: "Deny", "Allow"',
    ),
    (
        {"paramRef": {"name": "a%b", "parameterNotFoundAction": "Deny"}},
        "paramRef.name: Invalid value: \"a%b\": may not contain '%'",
    ),
    (
        {"matchResources": {"matchPolicy": ""}},
        'matchResources.matchPolicy: Unsupported value: "": supported values: "Equivalent", "Exact"',
    ),
]


@pytest.mark.parametrize(("spec", "message"), BINDING_CASES)
@pytest.mark.parametrize("make", [binding, mutating_binding])
def test_bindings_of_both_kinds_are_validated(
    tmp_path: Path, make: Any, spec: JSONObject, message: str
) -> None:
    document = make()
    document["spec"] |= spec
    assert problem(tmp_path, document) == f"spec.{message}"


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ((), "validationActions: Required value"),
        (
            ("Block",),
            'validationActions[0]: Unsupported value: "Block": supported values: "Audit", "Deny", "Warn"',
        ),
        (("Deny", "Deny"), 'validationActions[1]: Duplicate value: "Deny"'),
        (
            ("Deny", "Warn"),
            (
                'validationActions: Invalid value: ["Deny","Warn"]: must not '
                "contain both Deny and Warn (repeating the same validation failure information in the API response "
                "and headers serves no purpose)"
            ),
        ),
    ],
)
def test_validation_actions_are_validated(tmp_path: Path, actions: tuple[str, ...], message: str) -> None:
    assert problem(tmp_path, binding(actions=actions)) == f"spec.{message}"


def test_a_param_ref_with_name_and_selector_has_an_error_at_both_fields(tmp_path: Path) -> None:
    ref = {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, binding(paramRef=ref))
    text = "Forbidden: name and selector are mutually exclusive"
    assert f"is invalid: [spec.paramRef.name: {text}, spec.paramRef.selector: {text}]" in str(refused.value)


def test_a_policy_without_effect_has_an_error_at_both_fields(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, policy())
    text = "Required value: validations or auditAnnotations must contain at least one item"
    assert f"is invalid: [spec.validations: {text}, spec.auditAnnotations: {text}]" in str(refused.value)


def test_more_than_twenty_annotations_are_too_many(tmp_path: Path) -> None:
    annotations = [{"key": f"k{place}", "valueExpression": "'a'"} for place in range(21)]
    found = problem(tmp_path, policy(auditAnnotations=annotations))
    assert found.startswith('spec.auditAnnotations: Invalid value: [{"key":"k0","valueExpression":"\'a\'"}')
    assert found.endswith(": must not have more than 20 auditAnnotations")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            policy("true", name="p.static.k8s.io", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
            "spec.paramKind: Forbidden: spec.paramKind is not supported for static manifests",
        ),
        (
            policy("true", name="p.static.k8s.io") | {"apiVersion": f"{GROUP}/v1beta1"},
            f'apiVersion: Unsupported value: "{GROUP}/v1beta1": supported values: "{GROUP}/v1"',
        ),
        (
            binding("p", name="b.static.k8s.io"),
            'spec.policyName: Invalid value: "p": must end with ".static.k8s.io"',
        ),
        (
            binding(
                "p.static.k8s.io",
                name="b.static.k8s.io",
                paramRef={"name": "a", "parameterNotFoundAction": "Deny"},
            ),
            "spec.paramRef: Forbidden: spec.paramRef is not supported for static manifests",
        ),
    ],
)
def test_static_policies_have_no_parameters(tmp_path: Path, document: JSONObject, message: str) -> None:
    assert problem(tmp_path, document) == message


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_all_kinds_are_loaded_with_their_defaults(tmp_path: Path, version: str) -> None:
    ref = {"name": "a"} | ({} if version == "v1alpha1" else {"parameterNotFoundAction": "Deny"})
    documents = [policy("true"), binding(paramRef=ref), mutating(), mutating_binding(matchResources={})]
    found = load(tmp_path, *(document | {"apiVersion": f"{GROUP}/{version}"} for document in documents))
    (validating,), (bound,) = found.validating_policies, found.validating_bindings
    (changing,), (changed,) = found.mutating_policies, found.mutating_bindings
    assert (validating.spec.failure_policy, changing.spec.failure_policy) == ("Fail", "Fail")
    assert bound.spec.param_ref is not None
    assert bound.spec.param_ref.parameter_not_found_action == "Deny"
    for resources in (validating.spec.match_constraints, changed.spec.match_resources):
        assert resources is not None
        assert resources.match_policy == "Equivalent"
        assert resources.namespace_selector is not None
        assert resources.object_selector is not None
        assert all(rule.scope == "*" for rule in resources.resource_rules)


def test_policies_are_sorted_by_name_static_ones_first(tmp_path: Path) -> None:
    names = ["b", "z.static.k8s.io", "a"]
    found = load(tmp_path, *(policy("true", name=name) for name in names))
    assert [policy.name for policy in found.validating_policies] == ["z.static.k8s.io", "a", "b"]


def test_a_name_may_be_used_once_per_kind(tmp_path: Path) -> None:
    assert load(tmp_path, policy("true", name="x"), binding(name="x")).validating_bindings
    with pytest.raises(ConfigurationError, match='duplicate name "x" found in file'):
        load(tmp_path, policy("true", name="x"), policy("true", name="x"))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (policy("true", reinvocationPolicy="Never"), 'unknown field "spec.reinvocationPolicy"'),
        (mutating(validations=[]), 'unknown field "spec.validations"'),
        (mutating_binding() | {"status": {}}, 'unknown field "status"'),
    ],
)
def test_fields_of_other_kinds_are_unknown(tmp_path: Path, document: JSONObject, message: str) -> None:
    assert problem(tmp_path, document) == message


def test_the_status_that_an_api_server_wrote_is_accepted(tmp_path: Path) -> None:
    status = {"observedGeneration": 1, "typeChecking": {}}
    assert load(tmp_path, policy("true") | {"status": status}).validating_policies
