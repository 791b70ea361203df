"""JSON schema validation of custom resources, in the API server's words.

Cases from ``k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation_test.go`` and from a kube-apiserver.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources.correlation import Correlation
from pratique.registry.custom_resources.schema_validation import SchemaValidator, Work
from pratique.registry.custom_resources.structural import structural

_INT_OR_STRING = {"x-kubernetes-int-or-string": True}
_ANY_OF = {**_INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]}
_ALL_OF = {**_INT_OR_STRING, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]}
_NESTED = {"type": "object", "required": ["nested"], "properties": {"nested": {}}}
_NOT_ONE = '<nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). '
_ONE_OF = {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}


def _errors(schema: JSONObject, value: JSON) -> list[str]:
    validator = SchemaValidator({"type": "object", "properties": {"f": schema}})
    return [str(error) for error in validator.errors({"f": value})]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object"}, {}),
        ({"type": "object", "nullable": True}, None),
        ({"nullable": True}, [1]),
        ({}, None),
        (_INT_OR_STRING, 42),
        (_INT_OR_STRING, "foo"),
        ({**_ANY_OF, "nullable": True}, None),
        (_ALL_OF, "foo"),
        ({"type": "integer"}, 5.0),
        ({"type": "number"}, 5),
        ({"type": "integer", "enum": [1, 2]}, 2.0),
        ({"type": "string", "format": "date-time"}, [1]),
        ({"type": "string", "format": "unheard-of"}, "x"),
        ({"type": "integer", "format": "int64"}, 2**40),
        (_ONE_OF, {"a": 1}),
        ({"type": "array", "uniqueItems": True}, [1, 1.0, True]),
    ],
)
def test_values_that_fit_their_schema_have_no_errors(schema: JSONObject, value: JSON) -> None:
    """Formats that are unknown, or that a type does not have, do not count."""
    assert _errors(schema, value) == []


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        ({"type": "object"}, "x", ['f: Invalid value: "string": f in body must be of type object: "string"']),
        ({"type": "object"}, None, ['f: Invalid value: "null": f in body must be of type object: "null"']),
        ({"type": "string"}, 1.2, ['f: Invalid value: "number": f in body must be of type string: "number"']),
        (
            _INT_OR_STRING,
            True,
            ['f: Invalid value: "boolean": f in body must be of type integer,string: "boolean"'],
        ),
        (
            _ANY_OF,
            1.2,
            [
                'f: Invalid value: "number": f in body must be of type integer,string: "number"',
                '<nil>: Invalid value: "": "f" must validate at least one schema (anyOf)',
                'f: Invalid value: "number": f in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in f',
            ],
        ),
        (
            _ALL_OF,
            True,
            [
                'f: Invalid value: "boolean": f in body must be of type integer,string: "boolean"',
                '<nil>: Invalid value: "": "f" must validate at least one schema (anyOf)',
                'f: Invalid value: "boolean": f in body must be of type integer: "boolean"',
                '<nil>: Invalid value: "": "f" must validate all the schemas (allOf). None validated',
            ],
        ),
        (
            {"type": "string", "pattern": "+"},
            "x",
            [
                (
                    'f: Invalid value: "x": f in body should match \'+, but pattern is invalid: error parsing regexp:'
                    " missing argument to repetition operator: `+`'"
                ),
            ],
        ),
        ({"type": "string", "pattern": "^a"}, "b", ["f: Invalid value: \"b\": f in body should match '^a'"]),
        (_NESTED, {}, ["f.nested: Required value"]),
        (
            {"type": "integer", "enum": [1, 2]},
            "x",
            [
                'f: Invalid value: "string": f in body must be of type integer: "string"',
                'f: Unsupported value: "x": supported values: "1", "2"',
            ],
        ),
        (
            {"type": "object", "enum": [{"b": 1, "a": {"d": 2, "c": 3}}]},
            {"f": 1, "e": 2},
            [
                'f: Unsupported value: {"e":2,"f":1}: supported values: "{\\"a\\":{\\"c\\":3,\\"d\\":2},\\"b\\":1}"',
            ],
        ),
        (
            {"type": "object", "maxProperties": 1},
            {"a": 1, "b": 2},
            ["f: Too many: 2: must have at most 1 item"],
        ),
        (
            {"type": "object", "minProperties": 1},
            {},
            ["f: Invalid value: 0: f in body should have at least 1 properties"],
        ),
        ({"type": "array", "maxItems": 2}, [1, 2, 3], ["f: Too many: 3: must have at most 2 items"]),
        (
            {"type": "array", "minItems": 1},
            [],
            ["f: Invalid value: 0: f in body should have at least 1 items"],
        ),
        (
            {"type": "array", "uniqueItems": True},
            [{"a": 1}, {"a": 1}],
            ['f: Invalid value: "": f in body shouldn\'t contain duplicates'],
        ),
        ({"type": "string", "maxLength": 2}, "éèà", ["f: Too long: may not be more than 2 bytes"]),
        (
            {"type": "string", "minLength": 2},
            "é",
            ['f: Invalid value: "é": f in body should be at least 2 chars long'],
        ),
        (
            {"type": "integer", "maximum": 5, "exclusiveMaximum": True},
            5,
            ["f: Invalid value: 5: f in body should be less than 5"],
        ),
        (
            {"type": "number", "minimum": 1000000.5},
            1e6,
            ["f: Invalid value: 1e+06: f in body should be greater than or equal to 1.0000005e+06"],
        ),
        (
            {"type": "integer", "maximum": 5.5},
            6,
            [
                '<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in f',
                "f: Invalid value: 6: f in body should be less than or equal to 5.5",
            ],
        ),
        (
            {"type": "integer", "format": "int32"},
            2**31,
            ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in f'],
        ),
        (
            {"type": "integer", "multipleOf": 5},
            7,
            ["f: Invalid value: 7: f in body should be a multiple of 5"],
        ),
        (
            {"type": "number", "multipleOf": 0.25},
            5,
            ["f: Invalid value: 0: factor MultipleOf declared for f must be positive: 0"],
        ),
        (
            {"type": "number", "multipleOf": 0.1},
            0.25,
            ["f: Invalid value: 0.25: f in body should be a multiple of 0.1"],
        ),
        (
            {"type": "string", "format": "ipv4"},
            5,
            ['f: Invalid value: "int64": f in body must be of type ipv4: "int64"'],
        ),
        (
            {"type": "string", "format": "ipv4"},
            "1.2.3",
            ['f: Invalid value: "1.2.3": f in body must be of type ipv4: "1.2.3"'],
        ),
        (
            _ONE_OF,
            {},
            [
                '<nil>: Invalid value: "": "f" must validate one and only one schema (oneOf). Found none valid',
                "f.a: Required value",
            ],
        ),
        (
            _ONE_OF,
            5,
            [
                'f: Invalid value: "integer": f in body must be of type object: "integer"',
                _NOT_ONE + "Found 2 valid alternatives",
            ],
        ),
        ({"type": "array", "maxItems": -1}, [1], ["f: Too many: 1: has too many items"]),
        (
            {"type": "number", "maximum": 1e20},
            0,
            [f"f: Invalid value: 0: f in body should be less than or equal to {-(2**63)}"],
        ),
        (
            {"type": "integer", "minimum": -1e20},
            0,
            [
                (
                    '<nil>: Invalid value: "": Minimum boundary value must be of type integer (default format) in f'
                ),
            ],
        ),
        (
            {"type": "number", "multipleOf": 1e20},
            0,
            [
                (
                    f"f: Invalid value: {-(2**63)}: factor MultipleOf declared for f must be positive:"
                    f" {-(2**63)}"
                ),
            ],
        ),
        (
            {"not": {"required": ["a"]}},
            {"a": 1},
            ['<nil>: Invalid value: "": "f" must not validate the schema (not)'],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"b": "x", "a": [1]},
            [
                'f.a: Invalid value: "array": f.a in body must be of type integer: "array"',
                'f.b: Invalid value: "string": f.b in body must be of type integer: "string"',
            ],
        ),
    ],
)
def test_errors_are_worded_and_ordered_as_the_api_server_does(
    schema: JSONObject, value: JSON, errors: list[str]
) -> None:
    """Type, combinations, strings, numbers, lists, enumerations and members, in that order."""
    assert _errors(schema, value) == errors


def test_the_alternative_that_matches_most_explains_an_error() -> None:
    """Of two alternatives that fail, the one with more matching parts is reported."""
    schema = {
        "anyOf": [
            {"required": ["a"], "properties": {"b": {"minLength": 9}}},
            {"required": ["a"], "properties": {"b": {}, "c": {}}},
        ]
    }
    assert _errors(schema, {"b": "x", "c": "y"}) == [
        '<nil>: Invalid value: "": "f" must validate at least one schema (anyOf)',
        "f.a: Required value",
    ]


_UPDATED = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 2},
        "list": {"type": "array", "maxItems": 1, "items": {"type": "string", "maxLength": 2}},
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {}, "n": {"type": "integer", "maximum": 1}}},
        },
    },
}


@pytest.mark.parametrize(
    ("value", "old", "errors"),
    [
        ({"text": "long"}, {"text": "long"}, []),
        ({"text": "long"}, {"text": "longer"}, ["text"]),
        ({"text": "long"}, {}, ["text"]),
        ({"list": ["long"]}, {"list": ["long"]}, []),
        ({"list": ["long", "b"]}, {"list": ["long"]}, ["list[0]", "list"]),
        ({"map": [{"name": "b"}, {"name": "a", "n": 5}]}, {"map": [{"name": "a", "n": 5}]}, []),
        ({"map": [{"name": "a", "n": 6}]}, {"map": [{"name": "a", "n": 5}]}, ["map[0].n"]),
        ({"map": [{"name": "b", "n": 5}]}, {"map": [{"name": "a", "n": 5}]}, ["map[0].n"]),
    ],
)
def test_errors_of_unchanged_values_are_dropped(value: JSON, old: JSON, errors: list[str]) -> None:
    """Items are held against stored ones only in lists with keys: ``ratcheting_test.go``."""
    found = SchemaValidator(_UPDATED).errors(value, Correlation(value, old, structural(_UPDATED)))
    assert [str(error.path) for error in found] == errors


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.sampled_from([0.5, 2.0, -1.0])
    | st.sampled_from(["ab", "c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "object", "array"]),
        "nullable": st.booleans(),
        "maximum": st.sampled_from([1, 2.5]),
        "exclusiveMinimum": st.booleans(),
        "minimum": st.integers(0, 3),
        "multipleOf": st.sampled_from([2, 0.5]),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$"]),
        "format": st.sampled_from(["int32", "float", "ipv4", "nothing"]),
        "enum": st.lists(st.sampled_from(["a", 1, 2.0, None]), min_size=1),
        "required": st.lists(st.sampled_from("ab")),
        "minProperties": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "x-kubernetes-int-or-string": st.just(value=True),
    },
)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.tuples(
        _LEAVES,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
                "additionalProperties": inner | st.just(value=False),
                "items": inner,
                "allOf": st.lists(inner, max_size=2),
                "anyOf": st.lists(inner, max_size=2),
                "oneOf": st.lists(inner, max_size=2),
                "not": inner,
            },
        ),
    ).map(lambda parts: parts[0] | parts[1]),
    max_leaves=5,
)


@given(_SCHEMAS, _VALUES)
def test_the_quick_check_accepts_what_has_no_errors(schema: JSONObject, value: JSON) -> None:
    """The predicate and the search for errors are two programs that must agree."""
    validator = SchemaValidator(schema)
    assert validator.accepts(value) is (not validator.validate(value, "f", None, Work(1_000_000)).errors)
