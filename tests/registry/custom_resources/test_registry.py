"""Custom resources from decoding to validation: cases as a kube-apiserver of 1.37.2 answered them."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.registry.custom_resources.registry import CustomResourceRegistry
from pratique.registry.strict_decoding import StrictDecodingError

_SPEC = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": {"type": "string", "pattern": "^[a-z]+$"},
        "crew": {"type": "integer", "default": 2},
        "inner": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
    "x-kubernetes-validations": [{"rule": "self.crew < 5", "message": "too many"}],
}


def _registry(**version: object) -> CustomResourceRegistry:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}}
    definition: JSONObject = {
        "metadata": {"name": "ships.lab.example.com"},
        "spec": {
            "group": "lab.example.com",
            "scope": "Namespaced",
            "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}],
        },
    }
    return CustomResourceRegistry(definition, "v1")


def _ship(spec: JSON, **metadata: object) -> JSONObject:
    return {
        "apiVersion": "lab.example.com/v1",
        "kind": "Ship",
        "metadata": {"name": "x", "namespace": "default", **metadata},
        "spec": spec,
    }


def _errors(written: JSONObject, old: JSONObject | None = None) -> list[str]:
    registry = _registry()
    decoded = registry.with_defaults(registry.decode(Document.from_data(written)))
    return [str(error) for error in registry.judge(decoded, old).errors]


_NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the"
    " existing errors to complete validation"
)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            _ship({"port": "oslo", "flag": 1, "inner": {"metadata": {"tags": 1}}}, owner="x"),
            (
                'strict decoding error: unknown field "metadata.owner", unknown field "spec.flag",'
                ' unknown field "spec.inner.metadata.tags"'
            ),
        ),
        (
            _ship({}, name=1),
            "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string",
        ),
        (
            _ship({}, ownerReferences=[{"uid": 1}]),
            "json: cannot unmarshal number into Go struct field OwnerReference.ownerReferences.uid of type types.UID",
        ),
        (_ship({"inner": {"kind": None}}), "spec.inner.kind: Invalid value: null: must be a string"),
        (
            _ship({"inner": {"metadata": {"labels": []}}}),
            (
                'spec.inner.metadata: Invalid value: {"labels":[]}: json: cannot unmarshal array into Go struct field'
                " ObjectMeta.labels of type map[string]string"
            ),
        ),
        ({**_ship({}), "kind": 1}, ".kind accessor error: 1 is of the type int64, expected string"),
    ],
)
def test_objects_that_cannot_be_decoded_are_refused(written: JSONObject, message: str) -> None:
    """Unknown fields of metadata come first, then those of the schema, then those of embedded metadata."""
    with pytest.raises(StrictDecodingError) as caught:
        _registry().decode(Document.from_data(written))
    assert str(caught.value) == message


def test_objects_are_decoded_without_nulls_and_with_defaults() -> None:
    """Empty fields of metadata disappear, as ObjectMeta leaves them out."""
    registry = _registry()
    written = _ship({"port": "oslo", "inner": None}, labels=None, generation=0)
    decoded = registry.with_defaults(registry.decode(Document.from_data(written)))
    assert decoded == _ship({"port": "oslo", "crew": 2})
    assert registry.with_defaults(decoded) is decoded


@pytest.mark.parametrize(
    ("written", "errors"),
    [
        (_ship({"port": "oslo"}), []),
        (_ship({"port": "oslo", "crew": 5}), ["spec: Invalid value: too many"]),
        (_ship({}), ["spec.port: Required value", _NOT_CHECKED]),
        (
            _ship({"port": "", "crew": 5}),
            [
                "spec.port: Invalid value: \"\": spec.port in body should match '^[a-z]+$'",
                "spec: Invalid value: too many",
            ],
        ),
        (
            _ship({"port": "oslo"}, name=""),
            ["metadata.name: Required value: name or generateName is required", _NOT_CHECKED],
        ),
        (
            _ship({"port": "oslo", "inner": {"kind": "", "spec": 1}}),
            [
                "spec.inner.apiVersion: Required value",
                'spec.inner.kind: Invalid value: "": must not be empty',
                _NOT_CHECKED,
            ],
        ),
        (
            {**_ship({}), "apiVersion": "lab.example.com/v2"},
            ['apiVersion: Invalid value: "lab.example.com/v2": must be lab.example.com/v1'],
        ),
    ],
)
def test_objects_are_validated_in_the_order_of_the_api_server(written: JSONObject, errors: list[str]) -> None:
    """Type, metadata, schema, embedded resources, lists, and rules only if nothing is missing or of the wrong type."""
    assert _errors(written) == errors


def test_rules_that_an_unchanged_value_breaks_become_warnings() -> None:
    """What was stored before there was the rule may stay."""
    registry, stored = _registry(), _ship({"port": "oslo", "crew": 9}, resourceVersion="1")
    findings = registry.judge({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}, stored)
    assert list(findings.errors) == []
    assert list(findings.warnings) == ["spec: Invalid value: too many"]


def test_replicas_of_a_scale_must_be_integers_within_bounds() -> None:
    """``ValidateScaleSpec``."""
    scale = {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.port"}
    registry = _registry(subresources={"scale": scale})
    errors = registry.judge(_ship({"port": "oslo", "crew": -1}), None).errors
    assert [str(error) for error in errors] == [
        ".spec.crew: Invalid value: -1: should be a non-negative integer"
    ]


def test_new_finalizers_without_a_domain_are_warned_of() -> None:
    """``validateKubeFinalizerName``."""
    ship = _ship({"port": "oslo", "crew": 1}, finalizers=["mine", "a.b/c", "orphan"])
    advice = (
        "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
    )
    assert list(_registry().judge(ship, None).warnings) == [f'metadata.finalizers: "mine": {advice}']


def test_a_version_that_a_definition_does_not_have_is_an_error() -> None:
    """The definition is named."""
    with pytest.raises(InputError, match="no version v2"):
        CustomResourceRegistry({"metadata": {"name": "a.b"}, "spec": {"versions": [{"name": "v1"}]}}, "v2")
