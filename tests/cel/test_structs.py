"""``Object{…}`` and ``JSONPatch{…}``, which mutations construct.

The cases follow ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{compilation_test,patch/*_test}.go``.
"""

from __future__ import annotations

from typing import Any

import pytest

from pratique.cel.costs import Budget
from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError, EvaluationError
from pratique.cel.expressions import compile_expression
from pratique.cel.structs import Struct, to_json, to_object

MUTATIONS = Environment(has_authorizer=True, has_patches=True)
OBJECT = {"spec": {"replicas": 1}, "names": ["a", "b"], "metadata": {}}


def evaluated(source: str, *types: str) -> Any:
    return compile_expression(source, MUTATIONS, *types).evaluate({"object": OBJECT}, Budget(10_000_000))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("Object{}", {}),
        ("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", {"spec": {"replicas": 2}}),
        ("Object { spec : Object.spec { } }", {"spec": {}}),
        ("Object{a: [Object.a{b: 'Object.c{d: 1}'}]} // Object.e{", {"a": [{"b": "Object.c{d: 1}"}]}),
        ("Object{a: object.names.map(n, Object.a{name: n})}", {"a": [{"name": "a"}, {"name": "b"}]}),
        ("Object{?a: object.?missing, ?b: optional.of(1)}", {"b": 1}),
        ("has(object.missing) ? Object{} : Object{a: 1}", {"a": 1}),
        ("Object.a_b{c: Object.a.b{}}", {"c": {}}),
        ("Object{big: 9007199254740993, data: b'a', at: timestamp('2024-01-01T00:00:00Z')}",
         {"big": 9007199254740993, "data": "YQ==", "at": "2024-01-01T00:00:00Z"}),
    ],
)  # fmt: skip
def test_expressions_construct_objects(source: str, value: object) -> None:
    assert to_object(evaluated(source)) == value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("Object{field: 'x'}.field", "x"),
        ("has(Object{field: 'x'}.field)", True),
        ("has(Object{}.field)", False),
        ("Object{} == Object{}", True),
        ("Object{field: 'x'} == Object{field: 'y'}", False),
        ("dyn(Object{}) == dyn(Object.spec{})", False),
        ("JSONPatch{op: 'add'}.op", "add"),
        ("JSONPatch{}.path", ""),
        ("has(JSONPatch{path: ''}.path)", False),
        ("has(JSONPatch{value: 1}.value)", True),
        ("has(JSONPatch{}.value)", False),
        ("JSONPatch{op: 'add', value: 1} == JSONPatch{op: 'add', value: 1}", True),
        ("JSONPatch{op: 'add', value: '1'} == JSONPatch{op: 'add', value: 1}", False),
        ("type(Object{}) == type(Object.spec{})", False),
    ],
)
def test_structs_can_be_selected_from_and_compared(source: str, value: object) -> None:
    assert evaluated(source) == value


def test_selecting_a_missing_field_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="no such key: b"):
        evaluated("Object{a: 1}.b")


@pytest.mark.parametrize(
    ("source", "types", "told"),
    [
        ("'foo'", ("Object",), "must evaluate to Object but got string"),
        ("Object.spec.metadata{}", ("Object",), "must evaluate to Object but got Object.spec.metadata"),
        ("[Object{}]", ("list(JSONPatch)",), "must evaluate to list(JSONPatch) but got list(Object)"),
        (
            "[JSONPatch{op: 1}]",
            (),
            (
                "compilation failed: ERROR: <input>:1:14: expected type of field 'op' is 'string' but provided type"
                " is 'int'\n | [JSONPatch{op: 1}]\n | .............^"
            ),
        ),
        (
            "[JSONPatch{nope: 1}]",
            (),
            (
                "compilation failed: ERROR: <input>:1:16: undefined field 'nope'\n | [JSONPatch{nope: 1}]"
                "\n | ...............^"
            ),
        ),
        (
            "[Object.spec{}, Object.status{}]",
            (),
            (
                "compilation failed: ERROR: <input>:1:17: expected type 'Object.spec' but found 'Object.status'"
                "\n | [Object.spec{}, Object.status{}]\n | ................^"
            ),
        ),
    ],
)
def test_unknown_types_and_fields_fail_compilation_with_their_names_as_written(
    source: str, types: tuple[str, ...], told: str
) -> None:
    with pytest.raises(CompilationError) as refused:
        evaluated(source, *types)
    assert str(refused.value) == told


def test_string_fields_of_a_json_patch_must_be_strings() -> None:
    with pytest.raises(EvaluationError, match="unexpected type int for JSONPatchType 'op' field"):
        evaluated("JSONPatch{op: dyn(1)}")


def test_only_mutations_may_construct_structs() -> None:
    with pytest.raises(CompilationError, match="undeclared reference to 'Object'"):
        compile_expression("Object{}", Environment())


def test_constructing_a_struct_costs_what_it_costs_in_kubernetes() -> None:
    budget = Budget(100)
    compile_expression("Object{a: Object.a{}}", MUTATIONS).evaluate({}, budget)
    assert budget.remaining == 100 - 2 * 40


def test_a_type_name_must_match_the_path_of_the_field_that_holds_it() -> None:
    value = evaluated("Object{spec: Object.specx{a: [Object.specx.a{}], b: {'k': Object.spec.b{}}}}")
    assert list(value.misnamed()) == [
        (
            'unexpected type name "Object.specx", expected "Object.spec", which matches field name path from root'
            " Object type"
        ),
        (
            'unexpected type name "Object.specx.a", expected "Object.spec.a", which matches field name path from root'
            " Object type"
        ),
    ]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("9007199254740993", "9007199254740993"),
        ("42u", 42),
        ("duration('90s')", "90s"),
        ("[1.5, 2.0]", [1.5, 2.0]),
        ("{1: true}", {"1": True}),
        ("Object.a{b: null}", {"b": None}),
    ],
)
def test_patch_values_write_large_integers_as_strings(source: str, value: object) -> None:
    assert to_json(evaluated(source)) == value


@pytest.mark.parametrize("source", ["1.0 / 0.0", "type(1)", "{1.5: 1}"])
def test_a_value_that_json_cannot_hold_is_an_error(source: str) -> None:
    with pytest.raises(EvaluationError):
        to_json(evaluated(source))


def test_structs_may_be_elements_and_map_values() -> None:
    assert Struct("Object", {"a": 1}) == Struct("Object", {"a": 1})
