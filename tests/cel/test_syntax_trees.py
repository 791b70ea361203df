"""Syntax trees: decoding the checker's output, at any depth, and errors in broken output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.cel.environments import Environment, type_checker
from pratique.cel.syntax_trees import (
    CallExpr,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapEntry,
    MapLiteral,
    Select,
    SyntaxTree,
    decode_checked_expression,
    numbers,
    read_message,
    signed,
)
from pratique.cel.values import Uint

PARAMS = Environment(has_params=True)


def serialized(source: str) -> bytes:
    checker = type_checker(PARAMS, sorts="sortBy" in source)
    encoded: bytes = checker.compile(source).serialize()
    return encoded


def tree(source: str) -> SyntaxTree:
    return decode_checked_expression(serialized(source))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("null", None),
        ("true", True),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551615u", Uint(2**64 - 1)),
        ("1.5", 1.5),
        ("-0.0", -0.0),
        ("'ä\\n'", "ä\n"),
        ("b'\\xff'", b"\xff"),
        (f"'{'x' * 300}'", "x" * 300),
    ],
)
def test_a_constant_keeps_its_value_and_type(source: str, value: object) -> None:
    root = tree(source).root
    assert isinstance(root, Constant)
    assert root.value == value
    assert type(root.value) is type(value)
    assert str(root.value) == str(value)


def test_nodes_have_the_operands_of_the_source() -> None:
    match tree("has(params.a) && params.b.size() > 1").root:
        case CallExpr(
            function="_&&_", arguments=(Select(operand=Identifier(name="params"), field="a") as test, right)
        ):
            assert test.test_only
        case other:
            pytest.fail(str(other))
    assert isinstance(right, CallExpr)
    size, limit = right.arguments
    assert isinstance(size, CallExpr)
    assert (right.function, size.function, limit) == ("_>_", "size", Constant(limit.number, 1))
    assert "greater_int64" in right.overloads


def test_optional_elements_and_entries_are_marked() -> None:
    elements = tree("[1, ?params.?a, 2, ?params.?b]").root
    assert isinstance(elements, ListLiteral)
    assert elements.optional == {1, 3}
    entries = tree("{'a': 1, ?'b': params.?b}").root
    assert isinstance(entries, MapLiteral)
    assert [entry.optional for entry in entries.entries] == [False, True]
    assert all(isinstance(entry, MapEntry) for entry in entries.entries)


def test_a_macro_of_two_variables_has_both() -> None:
    root = tree("[1].all(i, x, i < x)").root
    assert isinstance(root, Comprehension)
    assert root.variables == ("i", "x")
    assert isinstance(root.items, ListLiteral)
    assert isinstance(root.result, Identifier)
    assert root.result.name == root.accumulator


def test_offsets_are_in_characters_of_the_source() -> None:
    found = tree("'ä' == params.a")
    assert isinstance(found.root, CallExpr)
    left, right = found.root.arguments
    assert [found.offsets()[node.number] for node in (left, found.root, right)] == [0, 4, 13]


NESTED = {
    "exists": ("true", "[1].exists(v{0}, {1})", 30),
    "transformMap": ("1", "{{'a': 1}}.transformMap(k{0}, v{0}, true, {1})", 29),
    "sortBy": ("1", "[1].sortBy(v{0}, {1})[0]", 14),
    "conjunction": ("true", "true && ({1})", 31),
    "ternary": ("true", "true ? ({1}) : false", 31),
    "index": ("0", "[0][{1}]", 30),
}


@pytest.mark.parametrize("name", NESTED)
def test_an_expression_as_deep_as_the_checker_accepts_is_read(name: str) -> None:
    # Generated messages would refuse more than 100 levels: docs/adr/0024-reading-checked-expressions.md.
    source, template, depth = NESTED[name]
    deepest = 0
    for level in range(1, depth + 1):
        source = template.format(level, source)
        try:
            encoded = serialized(source)
        except RuntimeError:
            break
        assert decode_checked_expression(encoded).root.number
        deepest = level
    assert deepest >= depth - 3


def test_a_truncated_expression_is_an_error() -> None:
    encoded = serialized("params.l.map(x, {'a': [x, 1.5, 'ä', 7u]}) == [] || [?params.?b].size() > 300")
    for length in range(1, len(encoded)):
        with pytest.raises(ValueError, match=r"truncated message|unknown kind of expression"):
            decode_checked_expression(encoded[:length])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    try:
        fields = read_message(data)
    except ValueError:
        return
    assert sum(map(len, fields.values())) <= len(data)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_repeated_numbers_are_read_packed_and_unpacked(values: list[int]) -> None:
    packed = b"".join(map(varint, values))
    unpacked = b"".join(b"\x10" + varint(value) for value in values)
    assert numbers(read_message(b"\x12" + varint(len(packed)) + packed), 2) == values
    assert numbers(read_message(unpacked), 2) == values


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_is_read_as_twos_complement(value: int) -> None:
    message = read_message(b"\x18" + varint(value % 2**64))
    assert [signed(number) for number in message[3] if isinstance(number, int)] == [value]


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
