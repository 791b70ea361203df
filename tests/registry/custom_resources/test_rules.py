"""Validation rules of custom resources, in the API server's words.

Cases from ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation_test.go`` and from a kube-apiserver.
"""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources.correlation import Correlation
from pratique.registry.custom_resources.field_references import FieldReferenceError, resolve_field
from pratique.registry.custom_resources.rule_compilation import uses_old_self
from pratique.registry.custom_resources.rules import RuleResults, rule_validator
from pratique.registry.custom_resources.structural import structural


def _evaluate(schema: JSONObject, value: JSON, old: JSON = None) -> RuleResults:
    read = structural({"type": "object", "properties": {"f": schema}})
    validator = rule_validator(read, read, is_root=True)
    assert validator is not None
    new, stored = {"f": value}, None if old is None else {"f": old}
    return validator.validate(new, stored, None if stored is None else Correlation(new, stored, read))


def _with_rule(schema: JSONObject, rule: str, **more: object) -> JSONObject:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


_TEXT = {"type": "string"}
_INTEGER = {"type": "integer"}
_OBJECT = {
    "type": "object",
    "properties": {"a": _INTEGER, "b-c": _INTEGER, "t": {**_TEXT, "format": "date-time"}},
}
_FLAGS = {"type": "array", "items": _with_rule(_TEXT, "self != 'x'")}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (_with_rule(_INTEGER, "self > 1"), 2),
        (_with_rule(_OBJECT, "self.a == self.b__dash__c"), {"a": 1, "b-c": 1}),
        (_with_rule(_OBJECT, "self.t > timestamp('2020-01-01T00:00:00Z')"), {"t": "2021-01-01T00:00:00Z"}),
        (_with_rule({"type": "number"}, "self == 5.0"), 5),
        (_with_rule({**_TEXT, "format": "duration"}, "self == duration('48h')"), "2 days"),
        (_with_rule({**_TEXT, "format": "byte"}, "self == b'ab'"), "YWI="),
        (_with_rule({**_TEXT, "format": "date"}, "self.getFullYear() == 2024"), "2024-02-29"),
        (_with_rule({"x-kubernetes-int-or-string": True}, "type(self) == string || self < 5"), 4),
        (_with_rule(_INTEGER, "self == oldSelf"), 2),
        (_with_rule(_INTEGER, "oldSelf.orValue(2) == self", optionalOldSelf=True), 2),
        (_with_rule(_INTEGER, "self > 1"), None),
        (_FLAGS, ["a"]),
    ],
)
def test_values_that_keep_their_rules_are_accepted(schema: JSONObject, value: JSON) -> None:
    """Values have the types of their formats; a rule about a change is not asked about a new value, or about null."""
    assert _evaluate(schema, value).errors == []


@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        (_with_rule(_INTEGER, "self > 1"), 1, "f: Invalid value: 1: failed rule: self > 1"),
        (_with_rule(_INTEGER, "self > 1", message=" too few "), 1, "f: Invalid value: 1: too few"),
        (
            _with_rule(_INTEGER, "self > 1", messageExpression="'got ' + string(self)"),
            1,
            "f: Invalid value: 1: got 1",
        ),
        (
            _with_rule(_INTEGER, "self > 1", message="too few", messageExpression="' '"),
            1,
            "f: Invalid value: 1: too few",
        ),
        (
            _with_rule(_INTEGER, "self > 1", message="too few", messageExpression="string(1 / (self - 1))"),
            1,
            "f: Invalid value: 1: too few",
        ),
        (_with_rule(_OBJECT, "self.a > 1", message="no"), {"a": 1}, "f: Invalid value: no"),
        (_with_rule(_OBJECT, "self.a > 1", message="no", fieldPath=".a"), {"a": 1}, "f.a: Invalid value: no"),
        (
            _with_rule(_OBJECT, "self.a > 1", message="no", reason="FieldValueForbidden"),
            {"a": 1},
            "f: Forbidden: no",
        ),
        (
            _with_rule(_OBJECT, "self.a > 1", message="no", reason="FieldValueRequired", fieldPath=".b-c"),
            {"a": 1},
            "f.b-c: Required value: no",
        ),
        (_with_rule(_TEXT, "self == 'a'", reason="FieldValueDuplicate"), "b", 'f: Duplicate value: "b"'),
        (_FLAGS, ["a", "x"], "f[1]: Invalid value: \"x\": failed rule: self != 'x'"),
        (
            _with_rule(_OBJECT, "self.a > 1"),
            {},
            'f: Invalid value: "object": no such key: a evaluating rule: self.a > 1',
        ),
        (
            _with_rule({"x-kubernetes-int-or-string": True, "type": ""}, "self < 5"),
            "x",
            (
                "f: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator,"
                " function or macro signature for rule: self < 5"
            ),
        ),
        (
            _with_rule(_INTEGER, "self + 'x' == 'x'"),
            1,
            (
                'f: Invalid value: "integer": rule compile error: compilation failed: ERROR: <input>:1:6: found no'
                " matching overload for '_+_' applied to '(int, string)'\n | self + 'x' == 'x'\n | .....^"
            ),
        ),
        (
            _with_rule(_INTEGER, "self"),
            1,
            'f: Invalid value: "integer": rule compile error: cel expression must evaluate to a bool',
        ),
        (
            _with_rule(_OBJECT, "self.t > timestamp('2020-01-01T00:00:00Z')", message="old"),
            {"t": ["x"]},
            'f: Invalid value: "object": invalid data, expected string, got []interface {} evaluating rule: old',
        ),
        (
            {"type": "object", "additionalProperties": _with_rule(_INTEGER, "self > 1")},
            {"k": 1},
            "f[k]: Invalid value: 1: failed rule: self > 1",
        ),
    ],
)
def test_errors_of_rules_are_worded_as_the_api_server_does(
    schema: JSONObject, value: JSON, error: str
) -> None:
    """The message of the rule, or of its expression if that gives one; objects and lists are not shown."""
    assert [str(found) for found in _evaluate(schema, value).errors] == [error]


@pytest.mark.parametrize(
    ("schema", "value", "old", "errors", "warnings"),
    [
        (_with_rule(_INTEGER, "self == oldSelf"), 2, 1, 1, 0),
        (_with_rule(_INTEGER, "self == oldSelf"), 2, 2, 0, 0),
        (
            _with_rule(_INTEGER, "oldSelf.hasValue() && self == oldSelf.value()", optionalOldSelf=True),
            2,
            None,
            1,
            0,
        ),
        (_with_rule(_INTEGER, "self > 5"), 1, 1, 0, 1),
        (_with_rule(_INTEGER, "self > 5"), 1, 2, 1, 0),
        (_FLAGS, ["x"], ["x"], 0, 1),
        (_FLAGS, ["x", "a"], ["x"], 1, 0),
    ],
)
def test_updates_are_held_against_the_stored_value(
    schema: JSONObject, value: JSON, old: JSON, errors: int, warnings: int
) -> None:
    """What an unchanged value breaks is a warning, except if the rule is about the change."""
    results = _evaluate(schema, value, old)
    assert (len(results.errors), len(results.warnings)) == (errors, warnings)


def test_items_of_keyed_lists_are_compared_with_the_stored_items_of_their_keys() -> None:
    """The order of the items does not matter."""
    item = {"type": "object", "properties": {"k": _TEXT, "v": _with_rule(_INTEGER, "self >= oldSelf")}}
    schema = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    old = [{"k": "a", "v": 1}, {"k": "b", "v": 5}]
    assert not _evaluate(schema, [{"k": "b", "v": 6}, {"k": "c", "v": 0}], old).errors
    assert [str(error.path) for error in _evaluate(schema, [{"k": "b", "v": 4}], old).errors] == ["f[0].v"]


_NAMES = {**_TEXT, "maxLength": 9}
_SET = {"type": "array", "x-kubernetes-list-type": "set", "items": _NAMES}
_BY_NAME = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": _NAMES, "v": _INTEGER}},
}
_LISTS = {
    "type": "object",
    "properties": {
        "set": _SET,
        "map": _BY_NAME,
        "list": {"type": "array", "items": _NAMES},
        "inner": {"type": "object", "additionalProperties": _SET},
        "parts": {**_SET, "items": {"type": "object", "properties": {"a": _NAMES}}},
    },
}
_STORED_LISTS = {
    "set": ["a", "b"],
    "map": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    "list": ["a", "b"],
    "inner": {"x": ["a", "b"]},
}
_TURNED_LISTS = {
    "set": ["b", "a"],
    "map": [{"k": "b", "v": 2}, {"k": "a", "v": 1}],
    "list": ["b", "a"],
    "inner": {"x": ["b", "a"]},
}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("self.set == oldSelf.set", True),
        ("self.set != oldSelf.set", False),
        ("self.list == oldSelf.list", False),
        ("self.set == oldSelf.list", True),
        ("oldSelf.list == self.set", False),
        ("self.map == oldSelf.map", True),
        ("self.inner == oldSelf.inner", True),
        ("[self.set] == [oldSelf.set]", True),
        ("dyn(self.set) == dyn(oldSelf.set)", True),
        ("(self.set.size() > 1 ? self.set : self.list) == oldSelf.set", True),
        ("self.set.map(x, x) == oldSelf.set", False),
        ("self.set + ['z', 'a'] == ['a', 'b', 'z']", True),
        ("self.set + ['z', 'a', 'z'] == ['z', 'b', 'a']", True),
        ("(self.set + oldSelf.set).size() == 2", True),
        ("(self.list + oldSelf.list).size() == 4", True),
        ("self.map + oldSelf.map.filter(x, x.v > 1) == oldSelf.map", True),
        ("(self.map + oldSelf.map).size() == 2", True),
        ("self.map == self.map.filter(x, x.v > 1)", False),
    ],
)
def test_sets_and_maps_are_compared_and_added_by_their_items(rule: str, holds: bool) -> None:  # noqa: FBT001
    found = _evaluate(_with_rule(_LISTS, rule), _TURNED_LISTS, _STORED_LISTS)
    assert [str(error) for error in found.errors] == (
        [] if holds else [f"f: Invalid value: failed rule: {rule}"]
    )


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("self == oldSelf", False),
        ("self == self.filter(x, x.v > 1)", False),
        ("(self + oldSelf).size() == 2", True),
        ("self + oldSelf == oldSelf + self", True),
        ("self.filter(x, x.v > 1) == oldSelf.filter(x, x.v > 1)", True),
    ],
)
def test_a_key_with_a_dash_is_not_found_where_lists_are_compared(rule: str, holds: bool) -> None:  # noqa: FBT001
    items = {"type": "object", "properties": {"a-b": _NAMES, "v": _INTEGER}}
    keyed = {**_BY_NAME, "items": items, "x-kubernetes-list-map-keys": ["a-b"]}
    value = [{"a-b": "a", "v": 1}, {"a-b": "b", "v": 2}]
    old = value if "oldSelf" in rule else None  # what has not changed is not held against other rules
    assert (not _evaluate(_with_rule(keyed, rule), value, old).errors) is holds


def test_sets_of_objects_cannot_be_compared() -> None:
    rule, value = "self.parts == self.parts", {"parts": [{"a": "x"}]}
    (error,) = _evaluate(_with_rule(_LISTS, rule), value).errors
    assert str(error) == (
        'f: Invalid value: "object": listSet operations are only supported on lists of scalar values evaluating rule:'
        f" {rule}"
    )


_NO_INTEGER = 'f: Invalid value: "object": invalid data, expected int, got float64 evaluating rule'


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ({"a": 3, "b-c": 1}, []),
        ({"a": 3.0, "b-c": 1}, [f"{_NO_INTEGER}: self.a > 2"]),
        ({"a": 3, "b-c": 1.0}, []),
    ],
)  # fmt: skip
def test_a_float_is_no_integer_to_rules(value: JSON, errors: list[str]) -> None:
    found = _evaluate(_with_rule(_OBJECT, "self.a > 2"), value).errors
    assert [str(error) for error in found] == errors


def test_rules_of_an_object_stop_when_the_budget_is_used_up() -> None:
    """One error says so, and rules after it are not evaluated."""
    heavy = "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))"
    schema = {
        "type": "array",
        "items": _INTEGER,
        "x-kubernetes-validations": [{"rule": heavy}] * 40 + [{"rule": "false"}],
    }
    errors = _evaluate(schema, list(range(34))).errors
    assert [str(error) for error in errors] == [
        (
            'f: Invalid value: "array": validation failed due to running out of cost budget, no further validation'
            " rules will be run"
        ),
    ]


def test_a_rule_that_costs_too_much_stops_the_others() -> None:
    """The limit of one rule is below the budget of the object."""
    heavy = "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))"
    errors = _evaluate(_with_rule({"type": "array", "items": _INTEGER}, heavy), list(range(80))).errors
    assert [str(error) for error in errors] == [
        (
            "f: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation"
            f" rules will be run due to call cost exceeds limit for rule: {heavy}"
        ),
    ]


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("self == oldSelf", True),
        ("has(oldSelf.a)", True),
        ("self.oldSelf == 1", False),
        ("self == 'oldSelf'", False),
        ("self.a // oldSelf", False),
        ("self == r'\\' || self == oldSelf", True),
    ],
)
def test_rules_about_changes_are_known_by_their_variable(source: str, uses: bool) -> None:  # noqa: FBT001
    """Neither fields nor texts of that name count."""
    assert uses_old_self(source) is uses


_REFERENCED = structural(
    {
        "properties": {
            "a": {"properties": {"b.c": {}}},
            "m": {"additionalProperties": {"properties": {"x": {}}}},
        }
    }
)


@pytest.mark.parametrize(
    ("reference", "path"),
    [(".a", "a"), (".a['b.c']", "a.b.c"), ("['a']", "a"), (".m['k'].x", "m[k].x"), (".m.k", "m[k]")],
)
def test_references_to_fields_are_resolved(reference: str, path: str) -> None:
    """``TestValidFieldPath``."""
    assert resolve_field(reference, _REFERENCED)[0] == path


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("a", "expected [ or . but got: a"),
        (".x", "does not refer to a valid field"),
        (".a[b]", "expected single quoted string but got b"),
        (".a['b.c'", "unexpected end of JSON path"),
        (".a['b\\z']", "invalid string literal: invalid escape char \\z"),
        (".a.", "unexpected end of JSON path"),
    ],
)
def test_references_to_nothing_are_refused(reference: str, problem: str) -> None:
    """In the words of ``ValidFieldPath``."""
    with pytest.raises(FieldReferenceError) as caught:
        resolve_field(reference, _REFERENCED)
    assert str(caught.value) == problem
