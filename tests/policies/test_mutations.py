"""Apply configurations and JSON Patches of mutating policies, applied to objects.

The cases follow ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/{smd,json_patch}_test.go``.
"""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cel.costs import Budget
from pratique.cel.environments import Environment
from pratique.cel.expressions import compile_expression
from pratique.cluster.schemas import schema_of
from pratique.cluster.store import ANY_NAMESPACE
from pratique.policies.mutations import PolicyPatchError, apply_configuration, apply_json_patch

MUTATIONS = Environment(has_authorizer=True, has_patches=True)
KIND = GroupVersionKind("apps", "v1", "Deployment")
SCHEMA = schema_of(KIND, ANY_NAMESPACE)


def deployment(*containers: JSON, **metadata: JSON) -> JSONObject:
    spec = {"replicas": 1, "template": {"spec": {"containers": list(containers)}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def patched(expression: str, stored: JSONObject) -> JSONObject:
    patches = compile_expression(expression, MUTATIONS, "list(JSONPatch)").evaluate(
        {"object": stored}, Budget(10**7)
    )
    return apply_json_patch(patches, stored, KIND, SCHEMA)


def configured(expression: str, stored: JSONObject) -> JSONObject:
    value = compile_expression(expression, MUTATIONS, "Object").evaluate({"object": stored}, Budget(10**7))
    assert SCHEMA is not None
    found: JSONObject = apply_configuration(value, stored, SCHEMA).value
    return found


@pytest.mark.parametrize(
    ("expression", "stored", "containers", "metadata"),
    [
        (
            (
                '[JSONPatch{op: "test", path: "/spec/replicas", value: 100},'
                ' JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]'
            ),
            deployment(),
            [],
            {},
        ),
        (
            (
                '[JSONPatch{op: "test", path: "/spec/replicas", value: 1},'
                ' JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "b"}}]'
            ),
            deployment(),
            [],
            {"labels": {"a": "b"}},
        ),
        (
            (
                '[JSONPatch{op: "add", path: "/metadata/labels", value: {}}, JSONPatch{op: "add", path:'
                ' "/metadata/labels/" + jsonpatch.escapeKey("k8s.io/x~y"), value: "true"}]'
            ),
            deployment(),
            [],
            {"labels": {"k8s.io/x~y": "true"}},
        ),
        (
            '[JSONPatch{op: "copy", from: "/metadata/labels/y", path: "/metadata/labels/x"}]',
            deployment(labels={"y": "1"}),
            [],
            {"labels": {"y": "1", "x": "1"}},
        ),
        (
            (
                '[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value:'
                " Object.spec.template.spec.containers{name: 'x', ports:"
                " [Object.spec.template.spec.containers.ports{containerPort: 8080}]}}]"
            ),
            deployment({"name": "a"}),
            [{"name": "a"}, {"name": "x", "ports": [{"containerPort": 8080}]}],
            {},
        ),
    ],
)
def test_json_patches_are_applied(
    expression: str, stored: JSONObject, containers: JSON, metadata: JSON
) -> None:
    assert patched(expression, stored) == deployment(*containers, **metadata)


def test_the_type_name_of_a_json_patch_value_need_not_match_its_path() -> None:
    expression = '[JSONPatch{op: "add", path: "/spec", value: Object.invalid{replicas: 1}}]'
    assert patched(expression, deployment())["spec"] == {"replicas": 1}


def test_a_patch_that_adds_an_unknown_field_fails_whatever_the_failure_policy() -> None:
    expression = (
        '[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value:'
        " Object.spec.template.spec.containers{name: 'x', ports:"
        " [Object.spec.template.spec.containers.ports{containerPortZ: 8080}]}}]"
    )
    with pytest.raises(RefusalError) as refused:
        patched(expression, deployment({"name": "a", "unknown": 1}))
    field = "spec.template.spec.containers[1].ports[0].containerPortZ"
    assert refused.value.status.code == 500
    assert refused.value.status.message == (
        f'Internal error occurred: strict decoding error: unknown field "{field}"'
    )


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            '[JSONPatch{op: "replace", path: "/spec/template/spec/containers/-", value: {"name": "x"}}]',
            (
                "JSON Patch: replace operation does not apply: doc is missing key:"
                " /spec/template/spec/containers/-: missing value"
            ),
        ),
        (
            '[JSONPatch{op: "add", path: "/spec/x", value: Object.a{b: Object.a.c{}}}]',
            (
                'type mismatch: unexpected type name "Object.a.c", expected "Object.a.b", which matches field name'
                " path from root Object type"
            ),
        ),
        (
            '[JSONPatch{op: "add", path: "/spec/x", value: 1.0 / 0.0}]',
            (
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON:"
                " JSON cannot represent infinite numbers or NaN"
            ),
        ),
    ],
)
def test_a_patch_that_does_not_fit_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(PolicyPatchError) as refused:
        patched(expression, deployment({"name": "a"}))
    assert str(refused.value) == message


def test_apply_configurations_are_merged() -> None:
    expression = (
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers:"
        ' object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, image: "b"})'
        "}}}}"
    )
    stored = deployment({"name": "a", "image": "a", "tty": True})
    assert configured(expression, stored) == deployment({"name": "a", "image": "b", "tty": True})


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            'Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"l": "v"}}}}',
            (
                "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs:"
                " .spec.selector"
            ),
        ),
        (
            "Object{spec: Object.specx{replicas: 1}}",
            (
                'type mismatch: unexpected type name "Object.specx", expected "Object.spec", which matches field name'
                " path from root Object type"
            ),
        ),
        (
            "Object{spec: Object.spec{replicasx: 1}}",
            (
                "error applying patch: failed to convert patch object to typed object: .spec.replicasx: field not"
                " declared in schema"
            ),
        ),
    ],
)
def test_an_apply_configuration_that_does_not_fit_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(PolicyPatchError) as refused:
        configured(expression, deployment())
    assert str(refused.value) == message
