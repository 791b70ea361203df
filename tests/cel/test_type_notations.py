"""Types and signatures: our notation for declarations, the checker's configuration, and cel-go's notation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.cel.activation import declared_type, mentioned_variables
from pratique.cel.compilation_errors import format_error, parse_type
from pratique.cel.declarations import Overload, function_configurations, type_configuration

SIMPLE = st.sampled_from(("int", "string", "dyn", "kubernetes.Quantity", "google.protobuf.Timestamp"))
GO_TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map("list({})".format),
        st.tuples(inner, inner).map(lambda pair: "map({}, {})".format(*pair)),
        inner.map("optional_type({})".format),
    ),
    max_leaves=6,
)


@given(GO_TYPES)
def test_a_type_in_cel_gos_notation_splits_into_name_and_parameters(text: str) -> None:
    name, parameters = parse_type(text)
    assert (f"{name}({', '.join(parameters)})" if parameters else name) == text
    assert all(parse_type(parameter)[0] for parameter in parameters)


@given(GO_TYPES)
def test_every_declared_type_can_be_configured(text: str) -> None:
    assert type_configuration(declared_type(text))["type_name"]


@pytest.mark.parametrize(
    ("text", "configuration"),
    [
        ("int", {"type_name": "int"}),
        ("~A", {"type_name": "A", "is_type_param": True}),
        ("list<~T>", {"type_name": "list", "params": [{"type_name": "T", "is_type_param": True}]}),
        (
            "map<string, list<net.IP>>",
            {
                "type_name": "map",
                "params": [
                    {"type_name": "string"},
                    {"type_name": "list", "params": [{"type_name": "net.IP"}]},
                ],
            },
        ),
    ],
)
def test_a_type_is_written_as_the_checker_reads_it(text: str, configuration: dict[str, Any]) -> None:
    assert type_configuration(text) == configuration


@pytest.mark.parametrize("text", ["", "list<", "a b", "<int>", "int>", "list(int)"])
def test_a_malformed_type_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a type: "):
        type_configuration(text)


@pytest.mark.parametrize(
    ("signature", "name", "receiver", "arguments"),
    [
        ("now()", "now", None, []),
        ("string.find(string)", "find", "string", ["string"]),
        ("list<int>.sum()", "sum", "list", []),
        ("net.IP.family()", "family", "net.IP", []),
        ("ip.isCanonical(string)", "ip.isCanonical", None, ["string"]),
        ("_<_(int,double)", "_<_", None, ["int", "double"]),
        ("optional.unwrap(list<optional_type<~T>>)", "optional.unwrap", None, ["list"]),
        ("dyn.compare(dyn)", "compare", "dyn", ["dyn"]),
    ],
)
def test_only_a_type_before_the_name_is_a_receiver(
    signature: str, name: str, receiver: str | None, arguments: list[str]
) -> None:
    (function,) = function_configurations((Overload("id", signature, "bool"),))
    (overload,) = function["overloads"]
    assert (function["name"], overload["id"], overload["return"]) == (name, "id", {"type_name": "bool"})
    assert overload.get("target", {}).get("type_name") == receiver
    assert [argument["type_name"] for argument in overload["args"]] == arguments


def test_overloads_of_a_function_are_configured_together() -> None:
    overloads = (
        Overload("a", "f(int)", "int"),
        Overload("b", "g()", "int"),
        Overload("c", "f(string)", "int"),
    )
    functions = function_configurations(overloads)
    assert [(function["name"], len(function["overloads"])) for function in functions] == [("f", 2), ("g", 1)]


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("variables.a > variables.bc", [("a", False), ("bc", False)]),
        ("has(variables.a) && variables.bc > 1", [("a", True), ("bc", False)]),
        ("has( variables . a /**/)", [("a", False)]),
        ("has(variables.`a`)", [("a", True)]),
        ("has(object.a)", [("a", False)]),
        ("'a' == 'abc'", [("a", False)]),
        ("variables.abc", []),
        ("has(variables.a // the first\n)", [("a", True)]),
    ],
)
def test_variables_that_an_expression_may_use_are_found(source: str, fields: list[tuple[str, bool]]) -> None:
    found = mentioned_variables(source, {"bc": "int", "a": "int"})
    assert [(variable.name, variable.is_tested) for variable in found] == fields


@given(st.text("ab\n", max_size=20), st.data())
def test_an_error_points_at_its_offset(source: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(source)))
    first, line, pointer = format_error(source, offset, "wrong").split("\n")
    row, column = (int(number) for number in first.removeprefix("ERROR: <input>:").split(":")[:2])
    assert line == f" | {source.split(chr(10))[row - 1]}"
    assert pointer == f" | {'.' * (column - 1)}^"
    assert sum(len(text) + 1 for text in source.split("\n")[: row - 1]) + column - 1 == offset
