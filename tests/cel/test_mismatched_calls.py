"""Calls of functions with other arguments than they have; the words are those of a kube-apiserver of 1.37.2."""

from __future__ import annotations

import re

import pytest

from pratique.cel.environments import Environment, type_checker
from pratique.cel.errors import CompilationError
from pratique.cel.expressions import compile_expression
from pratique.cel.mismatched_calls import substitute

_RULE = Environment(is_rule=True, variables=(("self", "list<int>"),))
_FUNCTIONS = frozenset({"slice", "sets.contains"})


@pytest.mark.parametrize(
    ("source", "function", "applied_to"),
    [
        ("[1].slice(0) == []", "slice", "list(int).(int)"),
        ("self.slice(0, 1, 2) == []", "slice", "list(int).(int, int, int)"),
        ("dyn(1).slice(0) == []", "slice", "dyn.(int)"),
        ("slice([1], 0, 1) == []", "slice", "(list(int), int, int)"),
        ("'a'.trim(1) == ''", "trim", "string.(int)"),
        ("'a'.size(1) == 1", "size", "string.(int)"),
        ("size() == 1", "size", "()"),
        ("sets.contains([1])", "sets.contains", "(list(int))"),
        ("format.dns1123Label(1)", "format.dns1123Label", "(int)"),
        ("optional.none().orValue() == 1", "orValue", "optional_type(dyn).()"),
        ("self.sortBy(x, x).flatten() == []", "flatten", "list(int).()"),
        ("'a'.trim(1, 2, 3, 4, 5, 6) == ''", "trim", "string.(int, int, int, int, int, int)"),
        ("[[1]].sortBy(x, x) == []", "@sortByAssociatedKeys", "list(list(int)).(list(list(int)))"),
    ],
)
def test_no_overload_matches_another_number_of_arguments(source: str, function: str, applied_to: str) -> None:
    with pytest.raises(CompilationError) as error:
        compile_expression(source, _RULE)
    lines = str(error.value).split("\n")
    assert lines[0].endswith(f": found no matching overload for '{function}' applied to '{applied_to}'")
    assert lines[1:2] == [f" | {source}"]
    assert len(lines) == 3


@pytest.mark.parametrize(
    "source", ["foo(1)", "self.foo(1)", "foo.bar(1)", "self.____a(1)", "______________a()"]
)
def test_a_function_that_does_not_exist_is_undeclared(source: str) -> None:
    with pytest.raises(CompilationError, match="undeclared reference to"):
        compile_expression(source, _RULE)


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ("dyn(1).slice()", ["1:13"]),
        ("dyn(1).orValue()", ["1:15"]),
        ("dyn(1).slice(dyn(0)) && [1].slice(1) == []", ["1:13", "1:34"]),
        ("dyn(1).slice(null) == []", ["1:13"]),
    ],
)
def test_a_call_with_nothing_but_values_of_any_type_stays_undeclared(source: str, places: list[str]) -> None:
    with pytest.raises(CompilationError) as error:
        compile_expression(source, _RULE)
    assert re.findall(r"<input>:(\d+:\d+): undeclared reference to '\w+'", str(error.value)) == places


def test_an_expression_that_compiles_makes_no_other_checker() -> None:
    environment = Environment(is_rule=True, variables=(("self", "list<string>"),))
    before = type_checker.cache_info().misses
    compile_expression("self.all(x, x.trim() != '')", environment)
    assert type_checker.cache_info().misses == before + 1


def test_other_errors_of_the_expression_stay() -> None:
    with pytest.raises(CompilationError) as error:
        compile_expression("[1].slice(0) == [] && 'slice(' + 1 == a", _RULE)
    found = [line.partition("<input>:1:")[2] for line in str(error.value).split("\n") if "ERROR" in line]
    assert found == [
        "10: found no matching overload for 'slice' applied to 'list(int).(int)'",
        "32: found no matching overload for '_+_' applied to '(string, int)'",
        "39: undeclared reference to 'a' (in container '')",
    ]


def test_errors_of_sorted_lists_stay_beside_others() -> None:
    with pytest.raises(CompilationError) as error:
        compile_expression("self.slice(0) == [] && self.sortBy(x, x).flatten() == []", _RULE)
    assert re.findall(r"'(\w+)' applied to '([^']*)'", str(error.value)) == [
        ("slice", "list(int).(int)"),
        ("flatten", "list(int).()"),
    ]


def test_what_is_no_call_of_a_function_keeps_its_name() -> None:
    errors = "ERROR: <input>:1:1: undeclared reference to 'slice' (in container '')"
    assert substitute("slice == 1", errors, _FUNCTIONS) is None
    assert (
        substitute(
            "slice", "ERROR: <input>:9:9: undeclared reference to 'slice' (in container '')", _FUNCTIONS
        )
        is None
    )
