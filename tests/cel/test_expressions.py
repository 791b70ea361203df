"""Compiling and evaluating expressions: values, errors and their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pratique.cel.environments import MATCH_CONDITION_ENVIRONMENT, Environment
from pratique.cel.errors import CompilationError, EvaluationError
from pratique.cel.expressions import compile_expression

POD = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}], "replicas": 3},
}


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.containers.all(c, c.image.endsWith(':1'))",
        "object.spec.containers.exists(c, c.name == 'b')",
        "object.spec.containers.exists_one(c, c.name == 'b')",
        "object.spec.containers.map(c, c.name) == ['a', 'b']",
        "object.spec.containers.map(c, c.name == 'b', c.image) == ['b:1']",
        "object.spec.containers.filter(c, c.name != 'a').size() == 1",
        "object.spec.containers.all(c, object.spec.containers.exists(d, d.name == c.name))",
        "object.metadata.labels.all(key, key == 'app')",
        "object.metadata.labels.exists(k, v, k == v.replace('web', 'app'))",
        "object.spec.containers.transformList(i, c, string(i) + c.name) == ['0a', '1b']",
        "object.metadata.labels.transformMap(k, v, v + '!') == {'app': 'web!'}",
        "has(object.spec.replicas) && !has(object.spec.paused) && !has(object.metadata.name.x)",
        "object.spec.?paused.orValue(false) == false && object[?'x'].hasValue() == false",
        "object.spec.containers[?5] == optional.none() && object.spec.containers[?0].name.value() == 'a'",
        "object.missing == 1 || true",
        "true || object.missing == 1",
        "!(false && object.missing == 1)",
        "[0, 1].exists(x, 1 / x == 1)",
        "![0, 1].all(x, 1 / x == 2)",
        "object.spec.replicas > 2.5 && object.spec.replicas == 3",
        "'app' in object.metadata.labels && !('x' in object.metadata.labels) && 3 in [object.spec.replicas]",
        "oldObject == null && object != null && object == object",
        "(object.spec.replicas > 1 ? object : oldObject).metadata.name == 'web'",
        "params == null",
    ],
)
def test_an_expression_over_an_object_is_true(expression: str, evaluate: Callable[..., Any]) -> None:
    assert evaluate(expression, object=POD, oldObject=None, params=None) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("object.foo", "no such key: foo"),
        ("object.spec.foo.bar == 1", "no such key: foo"),
        ("object.metadata.name.foo", "no such key: foo"),
        ("oldObject.foo", "no such key: foo"),
        ("object['foo']", "no such key: foo"),
        ("object[5]", "no such key: 5"),
        ("object.spec.containers[5]", "index out of bounds: 5"),
        ("object.spec.containers['a']", "unsupported index type 'string' in list"),
        ("object.spec.replicas / 0", "division by zero"),
        ("object.spec.replicas % 0", "modulus by zero"),
        ("object.spec.replicas + 'a'", "no such overload"),
        ("object.metadata + 1", "no such overload: _+_"),
        ("object.spec.replicas.startsWith('a')", "no such overload: startsWith(int, string)"),
        ("object.metadata.name.isSorted()", "no such overload: isSorted(string)"),
        ("!object.spec.replicas", "no such overload"),
        ("object.spec.replicas ? 1 : 2", "no such overload"),
        ("object.spec.replicas || false", "no such overload"),
        ("object.spec.replicas.all(x, true)", "got 'types.Int', expected iterable type"),
        ("object.spec.replicas.all(i, x, true)", "unsupported comprehension range type: types.Int"),
        ("object.spec.replicas < 'a'", "no such overload"),
        ("9223372036854775807 + object.spec.replicas", "integer overflow"),
        ("int(object.metadata.name)", "type conversion error from 'string' to 'int'"),
        ("params.foo", "no such attribute(s): params"),
        ("{object.metadata: 1}.size() == 1", "unsupported key type: map"),
    ],
)
def test_evaluation_errors_use_cel_gos_words(
    expression: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression, object=POD, oldObject=None)
    assert str(caught.value) == f"expression '{expression}' resulted in error: {error}"


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (
            "object.x == foo",
            "1:13: undeclared reference to 'foo' (in container '')\n | object.x == foo\n | ............^",
        ),
        (
            "true &&\n  a.b.c == 1",
            "ERROR: <input>:2:3: undeclared reference to 'a' (in container '')\n |   a.b.c == 1\n | ..^",
        ),
        (
            "[Wrong{a: '}', b: Nested.x{}, c: nothing}, foo]",
            (
                "1:7: undeclared reference to 'Wrong' (in container '')\n"
                " | [Wrong{a: '}', b: Nested.x{}, c: nothing}, foo]\n | ......^\n"
                "ERROR: <input>:1:44: undeclared reference to 'foo'"
            ),
        ),
        ("Wrong.a{} == 1", "1:8: undeclared reference to 'Wrong.a' (in container '')"),
        (
            "1 < 'asdf'",
            "1:3: found no matching overload for '_<_' applied to '(int, string)'\n | 1 < 'asdf'\n | ..^",
        ),
        ("request.foo", "ERROR: <input>:1:8: undefined field 'foo'\n | request.foo\n | .......^"),
        ("request.uid == ''", "undefined field 'uid'"),
        ("request.kind.resource == ''", "undefined field 'resource'"),
        ("namespaceObject.metadata.ownerReferences", "undefined field 'ownerReferences'"),
        ("request.name == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("params == null", "undeclared reference to 'params'"),
        ("variables.x", "undeclared reference to 'variables'"),
        ("jsonpatch.escapeKey('a')", "undeclared reference to 'jsonpatch'"),
        ("object.reverse2()", "undeclared reference to 'reverse2'"),
        ("'a'.reverse()", "found no matching overload for 'reverse' applied to 'string.()'"),
        ("math.abs(1) == 1", "undeclared reference to 'math'"),
        ("object.x =", "Syntax error: token recognition error at: '='"),
        ("[1, 'a'].size() == 2", "ERROR: <input>:1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'x'}.size() == 2", "expected type 'int' but found 'string'"),
        (
            "'a'.matches('(')",
            "ERROR: <input>:1:13: invalid matches argument\n | 'a'.matches('(')\n | ............^",
        ),
        ("duration('x') == duration('1s')", "ERROR: <input>:1:10: invalid duration argument"),
        ("timestamp('x') == timestamp('y')", "invalid timestamp argument"),
        ("[1].flatten() == [1]", "found no matching overload for 'flatten' applied to 'list(int).()'"),
        (
            "!" * 3 + "(" * 40 + "true" + ")" * 40,
            "ERROR: <input>:-1:0: expression recursion limit exceeded: 32",
        ),
    ],
)
def test_compilation_errors_use_the_api_servers_words(expression: str, error: str) -> None:
    with pytest.raises(CompilationError) as caught:
        compile_expression(expression, MATCH_CONDITION_ENVIRONMENT, "bool")
    text = str(caught.value)
    assert text.startswith("compilation failed: ERROR: <input>:")
    assert error in text


def test_a_compilation_error_does_not_end_at_a_nul(evaluate: Callable[..., Any]) -> None:
    with pytest.raises(CompilationError) as caught:
        compile_expression("'a\0b' == \0 1", MATCH_CONDITION_ENVIRONMENT, "bool")
    assert str(caught.value) == (
        "compilation failed: ERROR: <input>:1:10: Syntax error: token recognition error at: '\0'"
        "\n | 'a\0b' == \0 1\n | .........^"
    )
    assert evaluate("'a\0b' == 'a\\x00b'") is True


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("6", "int"),
        ("'a'", "string"),
        ("object.x", "dyn"),
        ("[1]", "list(int)"),
        ("{'a': object}", "map(string, dyn)"),
        ("null", "null_type"),
        ("request", "kubernetes.AdmissionRequest"),
        ("optional.of(1u)", "optional_type(uint)"),
        ("type(1.0)", "type(double)"),
        ("timestamp('2024-01-01T00:00:00Z')", "google.protobuf.Timestamp"),
        ("[duration('1s')]", "list(google.protobuf.Duration)"),
    ],
)
def test_a_condition_must_be_a_bool(expression: str, found: str) -> None:
    with pytest.raises(CompilationError, match="must evaluate to bool") as caught:
        compile_expression(expression, MATCH_CONDITION_ENVIRONMENT, "bool")
    assert str(caught.value) == f"must evaluate to bool but got {found}"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("has(object)", "1:5: invalid argument to has() macro"),
        ("object.l.map(1, 2)", "1:14: argument is not an identifier"),
        ("object.l.filter(x.y, true)", "1:18: argument is not an identifier"),
        ("object.l.all(x.y, true)", "1:15: argument must be a simple name"),
        ("object.l.exists_one(1, true)", "1:21: argument must be a simple name"),
        ("object.l.all(i, 1, true)", "1:17: argument must be a simple name"),
        ("object.l.transformMap(1, v, 1)", "1:23: argument must be a simple name"),
        ("optional.of(1).optMap(1, 1)", "1:23: optMap() variable name must be a simple identifier"),
        ("'\\U00110000' == ''", "1:1: invalid unicode code point"),
        ("'\\ud800' == ''", "1:1: invalid unicode code point"),
        ("b'\\u1234' == b''", "1:1: unable to unescape string"),
        ("{} == []", "1:4: found no matching overload for '_==_' applied to '(map(dyn, dyn), list(dyn))'"),
        ("{a: 1}", "1:2: undeclared reference to 'a' (in container '')"),
        ("object?.a", "1:10: Syntax error: mismatched input '<EOF>' expecting ':'"),
        (
            "1.all(x, true)",
            "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
    ],
)
def test_what_does_not_compile_is_refused_in_kubernetes_words(expression: str, message: str) -> None:
    with pytest.raises(CompilationError) as caught:
        compile_expression(expression, MATCH_CONDITION_ENVIRONMENT)
    place = int(message.split(":")[1])
    shown = f"{expression}\n | {'.' * (place - 1)}^"
    assert str(caught.value) == f"compilation failed: ERROR: <input>:{message}\n | {shown}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("[1, 2].exists_one(i, x, x == 1)", True),
        ("[1, 1].exists_one( i , x , x == 1)", False),
        ("{'a': 1}.exists_one(k, v, k == 'a' && v == 1)", True),
        ("[1].exists_one(x, [x, 1, 2].size() > 1)", True),
        ("[1].exists_one(x, x == 1) && '.exists_one(i, x, 1)'.size() == 20", True),
    ],
)
def test_exists_one_takes_one_variable_or_two(expression: str, expected: object, evaluate: Any) -> None:
    assert evaluate(expression) is expected


def test_an_error_shows_exists_one_as_written() -> None:
    with pytest.raises(CompilationError, match=r"\| \[1\].exists_one\(i, x, x == 'a'\)"):
        compile_expression("[1].exists_one(i, x, x == 'a')", MATCH_CONDITION_ENVIRONMENT)


def test_an_expression_may_be_required_to_have_one_of_several_types() -> None:
    with pytest.raises(CompilationError, match=r"must evaluate to one of \[string null_type\] but got int"):
        compile_expression("1", MATCH_CONDITION_ENVIRONMENT, "string", "null_type")


def test_a_literal_that_cannot_be_converted_fails_at_compilation() -> None:
    with pytest.raises(CompilationError, match="program instantiation failed: type conversion error"):
        compile_expression("int('x') == 1", MATCH_CONDITION_ENVIRONMENT, "bool")


def test_an_environment_may_declare_further_variables(evaluate: Callable[..., Any]) -> None:
    environment = Environment(variables=(("limits", "map<string,int>"),))
    assert evaluate("limits.cpu + limits['memory']", environment, limits={"cpu": 1, "memory": 2}) == 3


def test_evaluation_never_changes_the_object(evaluate: Callable[..., Any]) -> None:
    before = {"l": [1, 2], "m": {"a": 1}}
    evaluate("(object.l + [3]).map(x, x * 2) + object.l.filter(x, x > 1)", object=before)
    evaluate("object.m.transformMap(k, v, v + 1)", object=before)
    evaluate("object.l.sortBy(x, -x)", object=before)
    assert before == {"l": [1, 2], "m": {"a": 1}}
