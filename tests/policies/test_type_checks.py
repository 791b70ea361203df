"""Type checking of policies, with the API server's messages.

The tables follow ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking_test.go``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.store import ObjectStore
from pratique.configuration.admissionregistration import (
    NamedRuleWithOperations,
    PolicyConfiguration,
    PolicyKind,
    ValidatingAdmissionPolicySpec,
)
from pratique.policies.type_checking import ExpressionWarning, check_types, kinds_to_check

_FILE = Path(__file__).parents[1] / "data" / "cel" / "type_checks.jsonl"
ANSWERS = [tuple(json.loads(line).values()) for line in _FILE.read_text("utf-8").splitlines()]

DEPLOYMENTS = ("apps", "v1", "deployments")
PODS = ("", "v1", "pods")
CONFIG_MAPS = ("", "v1", "configmaps")
WIDGETS = ("example.com", "v1", "widgets")
WIDGET_KIND = {"apiVersion": "example.com/v1", "kind": "Widget"}
TEXT: JSON = {"type": "string"}
NUMBER: JSON = {"type": "integer"}


def rule(group: str, version: str, *resources: str) -> JSONObject:
    return {"apiGroups": [group], "apiVersions": [version], "operations": ["*"], "resources": list(resources)}


def warned(
    *expressions: str | JSONObject,
    at: tuple[tuple[str, ...], ...] = (WIDGETS,),
    crd: JSON = None,
    **spec: Any,
) -> list[ExpressionWarning]:
    """The warnings of a policy that matches resources; ``crd`` is the schema of Widgets, if they exist."""
    written = {
        "matchConstraints": {"resourceRules": [rule(*item) for item in at]},
        "validations": [{"expression": item} if isinstance(item, str) else item for item in expressions],
        **spec,
    }
    configured = PolicyConfiguration(
        PolicyKind.VALIDATING, "p", msgspec.convert(written, ValidatingAdmissionPolicySpec)
    )
    return check_types(configured, ObjectStore([] if crd is None else [definition(crd)]))


def definition(schema: JSON) -> JSONObject:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def of(**properties: JSON) -> JSONObject:
    """The schema of an object."""
    return {"type": "object", "properties": properties}


def variables(**expressions: str) -> list[JSONObject]:
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]


@pytest.mark.parametrize(("expression", "warning"), ANSWERS, ids=[expression for expression, _ in ANSWERS])
def test_warnings_are_those_of_the_api_server(expression: str, warning: str) -> None:
    expected = [ExpressionWarning("spec.validations[0].expression", warning)] if warning else []
    assert warned(expression, at=(DEPLOYMENTS,)) == expected


@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        ([], []),
        ([DEPLOYMENTS], ["apps/v1, Kind=Deployment"]),
        ([DEPLOYMENTS, PODS], ["/v1, Kind=Pod", "apps/v1, Kind=Deployment"]),
        ([DEPLOYMENTS, DEPLOYMENTS], ["apps/v1, Kind=Deployment"]),
        ([("apps", "v1", "*")], []),
        ([("", "v1", "pods/*")], []),
        ([("", "v1", "pods/status")], []),
        ([("", "v1", "pods/status", "pods", "*")], ["/v1, Kind=Pod"]),
        ([DEPLOYMENTS, ("apps", "*", "deployments")], ["apps/v1, Kind=Deployment"]),
        ([("*", "v1", "pods"), ("a*", "v1", "deployments")], []),
        ([("apps", "v1beta1", "deployments")], []),
        ([("apps", "v1", "unknown", "daemonsets")], ["apps/v1, Kind=DaemonSet"]),
        ([("apps", "v1", "Deployment")], ["apps/v1, Kind=Deployment"]),
        ([("", "v1", "events")], ["/v1, Kind=Event", "events.k8s.io/v1, Kind=Event"]),
    ],
)
def test_the_kinds_that_rules_name_are_checked(rules: list[tuple[str, ...]], kinds: list[str]) -> None:
    written = msgspec.convert([rule(*item) for item in rules], list[NamedRuleWithOperations])
    assert list(map(str, kinds_to_check(written, built_in_resources()))) == kinds


CORE = (
    "configmaps", "endpoints", "limitranges", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes",
    "pods", "podtemplates", "replicationcontrollers", "resourcequotas", "secrets", "services",
)  # fmt: skip


def test_after_ten_kinds_of_one_rule_no_further_rule_is_checked() -> None:
    rules = msgspec.convert(
        [rule("", "v1", *reversed(CORE)), rule(*DEPLOYMENTS)], list[NamedRuleWithOperations]
    )
    kinds = kinds_to_check(rules, built_in_resources())
    assert {kind.kind.lower().removesuffix("s") for kind in kinds} == {
        name.removesuffix("s") for name in CORE[:10]
    }


def test_each_rule_may_name_ten_kinds() -> None:
    rules = msgspec.convert(
        [rule("", "v1", *CORE[:9]), rule("apps", "v1", "deployments")], list[NamedRuleWithOperations]
    )
    assert len(kinds_to_check(rules, built_in_resources())) == 10
    rules = msgspec.convert(
        [rule("", "v1", *CORE[:6]), rule("", "v1", *CORE[6:])], list[NamedRuleWithOperations]
    )
    assert len(kinds_to_check(rules, built_in_resources())) == 13


@pytest.mark.parametrize(
    ("schema", "expressions", "told"),
    [
        (None, ["object.foo == 'bar'"], {}),
        (of(foo=TEXT), ["object.foo == 'bar'"], {}),
        (of(bar=TEXT), ["object.foo == 'bar'"], {0: "undefined field 'foo'"}),
        (of(foo=NUMBER), ["object.foo == 'bar'"], {0: "found no matching overload for '_==_' applied to '(int, str"}),
        (of(foo=TEXT), ["object.foo == 'bar'", "object.bar == 'foo'"], {1: "undefined field 'bar'"}),
        (of(foo=TEXT), ["authorizer.group('').resource('endpoints').check('create').allowed()"], {}),
        (of(foo=TEXT), ["authorizer.allowed()"], {0: "'allowed' applied to 'kubernetes.authorization.Authorizer.()'"}),
        (of(free={"type": "object", "additionalProperties": True}), ["has(object.free)"], {}),
        (of(open={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
         ["object.open.x"], {0: "undefined field 'x'"}),
        (of(any={"x-kubernetes-preserve-unknown-fields": True}), ["object.any"], {0: "undefined field 'any'"}),
        (of(at=of(**{"a-b": TEXT, "in": TEXT})), ["object.at.a__dash__b == object.at.__in__"], {}),
        (of(at={"type": "object", "additionalProperties": of(x=NUMBER)}),
         ["object.at['a'].x == 1", "object.at['a'] == 1"], {1: "applied to '(Widget.at.@elem, int)'"}),
        (of(port={"x-kubernetes-int-or-string": True}), ["object.port == 1 || object.port == '1'"], {}),
        (of(day={"type": "string", "format": "date"}), ["object.day == 1"], {0: "applied to '(timestamp, int)'"}),
        (of(), ["object.metadata.name == 1"], {0: "applied to '(string, int)'"}),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, ["has(object.spec)"],
         {0: "undefined field 'spec'"}),
    ],
)  # fmt: skip
def test_schemas_of_custom_resources_are_known(
    schema: JSON, expressions: list[str], told: dict[int, str]
) -> None:
    found = warned(*expressions, crd=schema)
    assert [entry.field_ref for entry in found] == [f"spec.validations[{index}].expression" for index in told]
    for warning, text in zip(found, told.values(), strict=True):
        assert warning.warning.startswith("example.com/v1, Kind=Widget: ERROR: <input>:1:")
        assert text in warning.warning


def test_an_expression_has_a_warning_for_each_kind_it_does_not_fit() -> None:
    (found,) = warned("has(object.spec.replicas)", "true", at=(PODS, DEPLOYMENTS, CONFIG_MAPS))
    assert found.warning == (
        "/v1, Kind=ConfigMap: ERROR: <input>:1:11: undefined field 'spec'\n"
        " | has(object.spec.replicas)\n | ..........^\n"
        "\n"
        "/v1, Kind=Pod: ERROR: <input>:1:4: undefined field 'replicas'\n"
        " | has(object.spec.replicas)\n | ...^\n"
    )


def test_message_expressions_are_checked_and_may_have_any_type() -> None:
    validation = {"expression": "object.foo", "messageExpression": "object.foo + 114514"}
    (found,) = warned(validation, crd=of(foo=TEXT))
    assert found.field_ref == "spec.validations[0].messageExpression"
    assert "'_+_' applied to '(string, int)'" in found.warning


def test_old_object_has_the_type_of_object() -> None:
    found = warned("oldObject.foo == object.foo", "oldObject == object", "oldObject.bar", crd=of(foo=TEXT))
    assert [entry.field_ref for entry in found] == ["spec.validations[2].expression"]


def test_match_conditions_and_annotations_are_not_checked() -> None:
    spec: dict[str, Any] = {
        "matchConditions": [{"name": "a", "expression": "object.bar"}],
        "auditAnnotations": [{"key": "a", "valueExpression": "object.bar"}],
    }
    assert warned("true", crd=of(foo=TEXT), **spec) == []


@pytest.mark.parametrize(
    ("kind", "expression", "told"),
    [
        (WIDGET_KIND, "params.bar", "undefined field 'bar'"),
        (WIDGET_KIND, "params.foo == 1", "applied to '(string, int)'"),
        (WIDGET_KIND, "params == null || params.foo == object.foo", ""),
        (WIDGET_KIND, "params == object", "applied to '(Widget, Widget)'"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "params.data.limit == 1", "applied to '(string, int)'"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "params.spec", "undefined field 'spec'"),
        ({"apiVersion": "v1", "kind": "Unknown"}, "params.what.ever == 1", ""),
        ({"apiVersion": "a/b/c", "kind": "Unknown"}, "params", "undeclared reference to 'params'"),
        (None, "params.x", "undeclared reference to 'params'"),
    ],
)
def test_parameters_have_the_type_of_their_kind(kind: JSON, expression: str, told: str) -> None:
    found = warned(expression, crd=of(foo=TEXT), paramKind=kind)
    assert bool(found) == bool(told)
    assert told in "".join(entry.warning for entry in found)


@pytest.mark.parametrize(
    ("known", "expression", "told"),
    [
        ({"works": "true"}, "variables.works", ""),
        ({"works": "true"}, "variables.nonExisting", "undefined field 'nonExisting'"),
        ({}, "variables.x", "undefined field 'x'"),
        ({"name": "'something'"}, "variables.name == object.foo", "'_==_' applied to '(string, int)'"),
        ({"foo": "object.foo"}, "variables.foo == 'x'", "'_==_' applied to '(int, string)'"),
        ({"name": "object.foo == 'str'"}, "variables.name == object.foo", ""),
        (
            {"later": "object.none", "name": "variables.later"},
            "variables.name == 1 && variables.name == 'x'",
            "",
        ),
        ({"all": "object"}, "variables.all.nothing == 1", ""),
        ({"list": "[object]"}, "variables.list == 1", "applied to '(list(dyn), int)'"),
    ],
)
def test_variables_are_typed_by_the_schema(known: dict[str, str], expression: str, told: str) -> None:
    found = warned(expression, crd=of(foo=NUMBER), variables=variables(**known))
    assert bool(found) == bool(told)
    assert told in "".join(entry.warning for entry in found)


def test_a_policy_without_rules_is_not_checked() -> None:
    assert warned("object.nothing", matchConstraints=None) == []
    assert warned("object.nothing", matchConstraints={}) == []
