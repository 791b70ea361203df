"""The limits on JSON, by the fast path and the full check."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_reading import (
    LARGE_BYTES,
    InvalidMemberError,
    JsonLimitError,
    check_members,
    read_document,
)
from pratique.apimachinery.json_values import JSON
from support.hostile_json import HARMLESS, HOSTILE
from support.strategies.json_values import values

FAR = b'{"far":"%s","in":' % (b"x" * LARGE_BYTES)
"""Makes a large text of a small one, which is looked at in another way."""


def large(raw: bytes) -> bytes:
    return FAR + raw + b"}"


def complaint(raw: bytes) -> str:
    try:
        read_document(raw)
    except JsonLimitError as error:
        return str(error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "is not JSON"
    return ""


@pytest.mark.parametrize(("raw", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_with_reason_and_position(raw: bytes, problem: str) -> None:
    assert complaint(raw) == problem


@pytest.mark.parametrize(("raw", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_a_large_hostile_text_is_refused_in_the_same_words(raw: bytes, problem: str) -> None:
    what, comma, byte = problem.partition(" byte ")
    expected = f"{what}{comma}{int(byte) + len(FAR)}" if comma else what
    assert complaint(large(raw)) == expected


@pytest.mark.parametrize("raw", HARMLESS.values(), ids=HARMLESS)
def test_a_text_that_only_looks_hostile_is_read(raw: bytes) -> None:
    assert read_document(raw).data == json.loads(raw)
    if raw != HARMLESS["200 levels"]:
        assert read_document(large(raw)).data["in"] == json.loads(raw)


@pytest.mark.parametrize(
    ("levels", "passes"), [(1, True), (60, True), (199, True), (200, True), (201, False)]
)
@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_two_hundred_levels_are_allowed_and_one_more_is_not(levels: int, passes: bool, pair: str) -> None:  # noqa: FBT001 - a table's column
    opening = {"[": "[", "{": '{"a":'}[pair[0]]
    raw = opening * (levels - 1) + pair + pair[1] * (levels - 1)
    assert (complaint(raw.encode()) == "") is passes


@pytest.mark.parametrize("levels", [1_000, 100_000, 3_000_000])
@pytest.mark.parametrize("closed", [True, False])
def test_endless_depth_does_not_crash(levels: int, closed: bool) -> None:  # noqa: FBT001 - a table's column
    assert complaint(b'{"a":' * levels + b"1" + b"}" * levels * closed).startswith(
        ("is nested", "holds more")
    )


def test_an_empty_text_is_the_null_document() -> None:
    assert read_document(b"").is_null
    assert read_document(b"null").is_null


TEXTS = st.text(max_size=6) | st.sampled_from([":", '"', '":', "\\", "\\u003a", "[", "}", ",", "0" * 19])
TEXTUAL = st.recursive(
    TEXTS | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | values(2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(TEXTUAL, st.booleans(), st.sampled_from([None, 1]))
def test_any_json_encoding_of_a_value_is_read_as_that_value(
    value: JSON,
    ascii_only: bool,  # noqa: FBT001 - what hypothesis chooses
    indent: int | None,
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    nul = any("\0" in name for name in names_of(value))
    assert complaint(raw).partition(",")[0] == ("holds a member whose name has a NUL" if nul else "")
    if not nul:
        assert read_document(raw).data == value


@given(TEXTUAL, TEXTS, st.sampled_from(["", "x", "X"]))
def test_a_duplicate_member_is_always_found(value: JSON, name: str, disguise: str) -> None:
    twin = escaped(name, disguise) if disguise else json.dumps(name)
    raw = f'[{{{json.dumps(name)}:{json.dumps(value)},"-:-":2,{twin}:1}}]'.encode()
    assert complaint(raw).startswith("holds a member")


def escaped(text: str, hexadecimal: str = "x") -> str:
    """Write a text in escapes alone, with small or with capital digits."""
    codes = text.encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(codes[at : at + 2]) for at in range(0, len(codes), 2))
    written = "".join(f"\\u{unit:04{hexadecimal}}" for unit in units)
    return f'"{written}"'


NAMED = [":", "a:b", "/", '"', "\\", "é", "\u2028", "\U0001f600", "\uffff:", "k"]
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda name: json.dumps(name, ensure_ascii=False),
    "as Python does": json.dumps,
    "small": escaped,
    "capital": lambda name: escaped(name, "X"),
    "slashes": lambda name: json.dumps(name).replace("/", "\\/"),
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("first", SPELLINGS)
@pytest.mark.parametrize("second", SPELLINGS)
def test_a_member_name_is_the_same_in_every_escaping(first: str, second: str, name: str) -> None:
    pair = SPELLINGS[first](name), SPELLINGS[second](name)
    for colons in ("", *(f'"-":{escaped(":" * many, case)},' for many in (1, 2, 3) for case in "xX")):
        raw = f"{{{colons}{pair[0]}:1,{pair[1]}:2}}".encode()
        assert complaint(raw).startswith("holds a member twice")


PIECES = [
    *(
        '"a"',
        '"b"',
        '"\\u0061"',
        '"a:"',
        '"a\\u003a"',
        '"a\\u003A"',
        '"\\u0000"',
        '"\\ud83d\\uDE00"',
        '"\\uD800"',
    ),
    *("1", "1.0", "-0", "1e400", "9" * 19, "9" * 400, "100000000000000000000", "null", "NaN"),
    *("{", "}", "[", "]", ",", ":", " "),
]


def looked_at_closely(raw: bytes) -> str:
    """What the slow way alone says."""
    try:
        check_members(raw)
    except InvalidMemberError as error:
        return str(error)
    except msgspec.DecodeError:
        return "is not JSON"
    return ""


MEMBERS = st.lists(st.tuples(st.sampled_from(PIECES[:8]), st.sampled_from([*PIECES[:8], *PIECES[9:17]])))


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join)
    | MEMBERS.map(lambda members: "{" + ",".join(map(":".join, members)) + "}")
)
def test_the_fast_path_agrees_with_the_full_check(text: str) -> None:
    assert complaint(text.encode()) == looked_at_closely(text.encode())


def names_of(value: JSON) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in names_of(item)]
    if isinstance(value, dict):
        return [*value, *(name for member in value.values() for name in names_of(member))]
    return []
