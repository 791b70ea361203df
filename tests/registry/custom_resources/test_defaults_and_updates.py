# ruff: noqa: ISC004 - messages are longer than lines
"""Defaults in the schemas of definitions, and what established definitions may keep, as a kube-apiserver has it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import trustme

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources import pruning
from pratique.registry.custom_resources.structural import structural
from pratique_frontdoor.chain.decisions import Decision
from support.manifest_decisions import decide_manifest
from support.object_refusals import causes

TEXT: JSONObject = {"type": "string"}
NAMES = {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"}


def definition(schema: JSONObject, version: JSONObject | None = None, **spec: Any) -> JSONObject:
    own = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        **(version or {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": NAMES, "versions": [own], **spec},
    }


# Defaults


def structure(properties: JSONObject, **keywords: Any) -> JSONObject:
    return {"type": "object", "properties": properties, **keywords}


def default(value: Any, **keywords: Any) -> JSONObject:
    return structure({"b": {"default": value, **keywords}})


def embedded(metadata: JSONObject, **properties: JSONObject) -> JSONObject:
    extensions = {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    return structure({"pod": structure({"metadata": metadata, **properties}, **extensions)})


NOT_IN_META = "must result in valid metadata: "
NO_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (default(1, type="integer", format="1Gi"), []),
        (default(1, type="integer", anyOf=[{"format": "1Gi"}]),
         ['.properties[b].default: Invalid value: "": "" must validate at least one schema (anyOf)',
          '.properties[b].default: Invalid value: "int64":  in body must be of type 1Gi: "int64"']),
        (default(1.5, **{"x-kubernetes-int-or-string": True}), []),
        (default([1], type="array", items=TEXT),
         ['.properties[b].default.[0]: Invalid value: "integer": [0] in body must be of type string: "integer"']),
        (default({"kind": "a"}, type="string"),
         ['.properties[b].default: Invalid value: {"kind":"a"}: must not have unknown fields',
          '.properties[b].default: Invalid value: "object":  in body must be of type string: "object"']),
        (structure({"a": TEXT}, default={"a": "b"}),
         [".default.apiVersion: Required value", ".default.kind: Required value"]),
        (structure({"a": TEXT}, default={"apiVersion": "v1", "kind": "Ship", "a": "b"}), []),
        (embedded(structure({"name": {**TEXT, "default": "A_B"}})), []),
        (embedded(structure({"name": {**TEXT, "maxLength": 3, "default": "long"}})),
         [".properties[pod].properties[metadata].properties[name].default: Too long: may not be more than 3 bytes"]),
        (embedded({"type": "object", "default": {"name": 7}, "properties": {"name": {"type": "integer"}}}),
         ['.properties[pod].properties[metadata].default: Invalid value: {"name":7}: ' + NOT_IN_META + 'metadata:'
          ' Invalid value: {"name":7}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type'
          ' string']),
        (embedded(structure({"finalizers": {"type": "array", "items": {**TEXT, "default": "a b"}}})),
         ['.properties[pod].properties[metadata].properties[finalizers].items.default: Invalid value: "a b": '
          f'{NOT_IN_META}metadata.finalizers: Invalid value: "a b": {NO_NAME}']),
        (embedded({"type": "object"}, apiVersion={**TEXT, "default": "a/b/c"}, kind={**TEXT, "default": "Pod"}),
         [f'.properties[pod].properties[apiVersion].default: Invalid value: "a/b/c": {NOT_IN_META}apiVersion: Invalid'
          ' value: "a/b/c": unexpected GroupVersion string: a/b/c']),
    ],
)  # fmt: skip
def test_defaults_are_held_against_their_schemas_and_surroundings(
    schema: JSONObject, expected: list[str]
) -> None:
    found = [text for text in causes(definition(schema)) if not text.startswith("warning: ")]
    assert [text.removeprefix("spec.validation.openAPIV3Schema") for text in found] == expected


def test_a_list_that_may_be_an_integer_has_no_rules_of_items() -> None:
    rules = {"x-kubernetes-validations": [{"rule": "self.size() > 1"}]}
    items = {"type": "array", "x-kubernetes-int-or-string": True, "items": {**TEXT, **rules}, **rules}
    (found,) = causes(definition(structure({"l": items})))
    assert found == (
        "spec.validation.openAPIV3Schema.properties[l].items.x-kubernetes-validations: Internal error: failed to"
        " convert to declType for CEL validation rules"
    )


def test_a_definition_that_keeps_unknown_fields_has_no_defaults() -> None:
    kept = definition(default("a", type="string"), preserveUnknownFields=True)
    first, second = causes(kept)
    assert first.endswith(": must be false in order to use defaults in the schema")
    assert second.startswith("spec.preserveUnknownFields: Invalid value: true: cannot set to true")


# Updates of established definitions


def pem(kind: str) -> bytes:
    return f"-----BEGIN {kind}-----\nAAE=\n-----END {kind}-----\n".encode()


AUTHORITY = trustme.CA().cert_pem.bytes()
BUNDLE = "spec.conversion.webhookClientConfig.caBundle: Invalid value: "


def converted(bundle: bytes) -> JSONObject:
    client = {"url": "https://example.com/convert", "caBundle": base64.b64encode(bundle).decode()}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    return definition(structure({}), conversion={"strategy": "Webhook", "webhook": webhook})


def established(written: JSONObject) -> JSONObject:
    conditions = [{"type": "Established", "status": "True"}]
    return {**written, "status": {"conditions": conditions, "acceptedNames": NAMES, "storedVersions": ["v1"]}}


@pytest.mark.parametrize(
    ("before", "bundle", "problem"),
    [
        (AUTHORITY, AUTHORITY, ""),
        (AUTHORITY, b"", ""),
        (AUTHORITY, pem("CERTIFICATE") + AUTHORITY, ""),
        (AUTHORITY, b"x", "unable to parse bytes as PEM block"),
        (AUTHORITY, pem("A"), "no valid certificate authority data seen"),
        (AUTHORITY, pem("CERTIFICATE"), "failed to parse certificate: x509: malformed certificate"),
        (b"", b"x", "unable to parse bytes as PEM block"),
        (b"y", b"x", ""),
    ],
)
def test_an_established_definition_keeps_an_authority_that_can_be_read(
    before: bytes, bundle: bytes, problem: str
) -> None:
    found = causes(converted(bundle), established(converted(before)))
    shown = base64.b64encode(bundle).decode()
    assert found == ([f'{BUNDLE}"{shown}": unable to load root certificates: {problem}'] if problem else [])


def test_a_new_definition_may_have_any_authority() -> None:
    assert causes(converted(b"x")) == []


def selectable(number: int) -> JSONObject:
    schema = structure({"spec": structure({f"f{index}": TEXT for index in range(number)})})
    return definition(
        schema, {"selectableFields": [{"jsonPath": f".spec.f{index}"} for index in range(number)]}
    )


def test_a_definition_may_keep_more_selectable_fields_than_there_may_be() -> None:
    too_many = "spec.selectableFields: Too many: 9: must have at most 8 items"
    assert causes(selectable(9)) == [too_many]
    assert causes(selectable(9), established(selectable(9))) == []
    assert causes(selectable(9), established(selectable(10))) == [too_many]


# Many defaults


def filled(defaults: int, items: int) -> Decision:
    """The decision on a list of empty objects, each of which gets so many defaults."""
    members: JSONObject = {f"m{number}": {**TEXT, "default": "x"} for number in range(defaults)}
    schema = structure({"list": {"type": "array", "items": structure(members)}})
    ship: JSONObject = {
        "apiVersion": "example.com/v1",
        "kind": "Ship",
        "metadata": {"name": "a", "namespace": "shop"},
        "list": [{} for _ in range(items)],
    }
    return decide_manifest(ship, definitions=[definition(schema)])


def test_an_object_that_defaults_would_make_larger_than_any_stored_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruning, "MAXIMUM_DEFAULTS", 1000)
    assert filled(10, 100).allowed
    status = filled(10, 101).status
    assert status is not None
    assert (status.code, status.reason) == (413, "RequestEntityTooLarge")
    assert status.message == (
        "Request entity too large: defaults of its definition add more than 1000 values"
    )


@pytest.mark.parametrize("value", [["a"] * 50, {f"k{number}": {"a": 1} for number in range(25)}])
def test_the_values_within_a_default_count(value: JSON, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = structural(structure({"b": {"default": value}}))
    monkeypatch.setattr(pruning, "MAXIMUM_DEFAULTS", 51)
    assert pruning.with_defaults({}, schema) == {"b": value}
    monkeypatch.setattr(pruning, "MAXIMUM_DEFAULTS", 50)
    with pytest.raises(pruning.TooManyDefaultsError):
        pruning.with_defaults({}, schema)
