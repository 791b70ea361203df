"""Random expressions evaluate as in Google's C++ runtime."""

from __future__ import annotations

from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped] # its stubs lack py.typed
from hypothesis import given
from hypothesis import strategies as st

from pratique.cel.costs import Budget
from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError, EvaluationError
from pratique.cel.expressions import compile_expression

OBJECT: dict[str, Any] = {
    "i": 3,
    "z": 0,
    "b": True,
    "s": "web",
    "e": "",
    "d": 1.5,
    "l": [1, 2, 3],
    "names": ["a", "web", ""],
    "m": {"a": 1, "web": 2},
    "n": None,
}
VARIABLES = (("object", "dyn"), ("x", "dyn"), ("y", "dyn"))
THEIRS = cel.NewEnv(variables={name: cel.Type.DYN for name, _ in VARIABLES})
OURS = Environment(variables=tuple(variable for variable in VARIABLES if variable[0] != "object"))

leaves = st.sampled_from(
    ["1", "0", "-2", "'a'", "'web'", "''", "true", "false", "null", "1.5", "[]", "[1, 2]", "x", "y",
     *(f"object.{name}" for name in OBJECT), "object.missing", "object.l[0]", "object.l[7]", "object.m['a']"]
).map("dyn({})".format)  # fmt: skip


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"])
    macro = st.sampled_from(["all", "exists", "exists_one", "map", "filter"])
    variable = st.sampled_from(["x", "y"])
    return st.one_of(
        st.builds("dyn({} {} {})".format, inner, binary, inner),
        st.builds("dyn({} ? {} : {})".format, inner, inner, inner),
        st.builds("dyn(!{})".format, inner),
        st.builds("dyn(size({}))".format, inner),
        st.builds("dyn({}.{}({}, {}))".format, inner, macro, variable, inner),
        st.builds("dyn({}.startsWith({}))".format, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}}}.k".format, inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("dyn(string({}))".format, inner),
        st.builds("dyn(has(object.m.{}))".format, st.sampled_from(["a", "q"])),
    )


def theirs(source: str) -> Any:
    """The result of Google's runtime: a value or an error."""
    try:
        compiled = THEIRS.compile(source)
    except RuntimeError as error:
        raise CompilationError(str(error)) from None
    value = compiled.eval(data={"object": OBJECT, "x": 5, "y": "v"})
    if value.type() == cel.Type.ERROR:
        raise EvaluationError(str(value.value()))
    return value.plain_value()


_NO_KEY = "No matching overloads found : @in"
"""What cannot be a map's key is an error to ``in`` there; to cel-go, and so here, it is in no map."""


@given(st.recursive(leaves, _larger, max_leaves=8))
def test_our_evaluator_and_the_c_runtime_agree_on_values_and_errors(source: str) -> None:
    try:
        expected = theirs(source)
    except CompilationError:
        return
    except EvaluationError as error:
        expected = error
    try:
        compiled = compile_expression(source, OURS)
    except CompilationError as error:
        # Kubernetes refuses literals of mixed types and invalid literals, which the C++ checker accepts.
        assert "expected type" in str(error) or "program instantiation failed" in str(error)  # noqa: PT017
        return
    try:
        found = compiled.evaluate({"object": OBJECT, "x": 5, "y": "v"}, Budget(10**6))
    except EvaluationError as error:
        assert isinstance(expected, EvaluationError), (source, expected, error)  # noqa: PT017
        return
    if isinstance(expected, EvaluationError) and str(expected).endswith(_NO_KEY):
        return
    assert (type(found), found) == (type(expected), expected), source
