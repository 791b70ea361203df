"""Large texts in portions: what is let pass is what the closer look at the whole lets pass."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostile_texts import HARMLESS, HOSTILE
from pratique.json_limits import MOST_LEVELS, MOST_NODES, WHOLE_BYTES, JsonLimitError, check_large
from pratique.json_marks import has_more_levels, structure
from pratique.json_members import MemberFaultError, check_members
from pratique.json_portions import check_portions, outline

if TYPE_CHECKING:
    from pratique.json_portions import Stretch
    from pratique.json_values import JSON

PLAIN = st.text(max_size=30) | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none()
STRINGS = st.text(max_size=3).map(lambda text: text * 60) | st.sampled_from(
    ["1" * 90, '"\\' * 40, "é😀" * 30]
)
NAMES = st.sampled_from(["a", "b", "c:", "d" * 40, 'e"', "f\\", "é", "request", "object"]) | st.text(
    max_size=5
)
VALUES = st.recursive(
    PLAIN | STRINGS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(NAMES, inner, max_size=8),
    max_leaves=60,
)
SIZES = st.sampled_from([30, 50, 100, 300])
"""Of portions, so that a short text has many."""
MARKS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b'"a":',
    b'"a":1,',
    b'"<":1,',
    b',">":null',
    b"null,",
    b" ",
]
ODD = [
    b"\\",
    b'\\"',
    b"9223372036854775808",
    b"1e400",
    b"NaN",
    b"\\u0000",
    b"\\u003a",
    b"\\ud83d",
    b"\xff",
    b'"x",' * 20,
]


def in_portions(raw: bytes, size: int) -> list[Stretch] | None:
    found = outline(raw, MOST_NODES, MOST_LEVELS, size)
    return None if found is None or found.is_too_deep else check_portions(raw, found.portions)


def is_sound(raw: bytes) -> bool:
    """Whether the closer look at the whole lets it pass."""
    try:
        check_members(raw)
    except (MemberFaultError, msgspec.DecodeError):
        return False
    return not has_more_levels(structure(raw), MOST_LEVELS)


def written(value: JSON, *, ascii_only: bool, indent: int | None) -> bytes:
    return json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")


@given(VALUES, SIZES, st.booleans(), st.sampled_from([None, 1]), st.data())
def test_what_portions_let_pass_the_whole_lets_pass(
    value: JSON,
    size: int,
    ascii_only: bool,  # noqa: FBT001 - what hypothesis chooses
    indent: int | None,
    data: st.DataObject,
) -> None:
    raw = written(value, ascii_only=ascii_only, indent=indent)
    for _ in range(data.draw(st.integers(0, 2))):
        begin = data.draw(st.integers(0, len(raw)))
        end = begin + data.draw(st.integers(0, 3))
        raw = raw[:begin] + data.draw(st.sampled_from(MARKS + ODD)) + raw[end:]
    try:
        str(raw, "utf-8")
    except UnicodeDecodeError:
        return
    if in_portions(raw, size) is not None:
        assert is_sound(raw)


@given(
    st.lists(st.dictionaries(st.sampled_from("abcd"), PLAIN, min_size=1), min_size=1), SIZES, st.booleans()
)
@example([{"a": "é" * 500, "aa": "😀" * 500, "b": "\\" * 500, "c": '"' * 500, "d": "x" * 500}], 300, True)
def test_of_honest_texts_portions_are_enough(
    items: list[JSON],
    size: int,
    ascii_only: bool,  # noqa: FBT001 - what hypothesis chooses
) -> None:
    raw = written({"request": {"object": {"items": items}}}, ascii_only=ascii_only, indent=None)
    assert in_portions(raw, max(size, 300)) is not None


@given(VALUES, VALUES, NAMES, SIZES)
def test_a_member_is_seen_twice_however_far_apart(value: JSON, between: JSON, name: str, size: int) -> None:
    first = json.dumps({name: value, "between": [between, "x" * 400]})
    raw = f"[{first[:-1]},{json.dumps(name)}:1}}]".encode("utf-8", "surrogatepass")
    assert in_portions(raw, size) is None


@given(VALUES, VALUES, SIZES)
def test_stretches_are_inside_of_what_they_are_said_to_be(value: JSON, other: JSON, size: int) -> None:
    review = {
        "request": {"uid": "u", "object": {"spec": value}, "oldObject": {"spec": other}},
        "spare": [value],
    }
    raw = json.dumps(review).encode("utf-8", "surrogatepass")
    begins = {"object": raw.index(b'"object": {"spec"'), "oldObject": raw.rindex(b'"oldObject": {"spec"')}
    ends = {"object": begins["oldObject"], "oldObject": raw.rindex(b'"spare"')}
    for stretch in in_portions(raw, size) or ():
        outer, name = stretch.path
        assert outer == "request"
        assert begins[name] < stretch.begin.byte < stretch.end.byte < ends[name]


FAR = b'{"far":["%s"],"in":' % (b'x","' * (WHOLE_BYTES // 4))


@pytest.mark.parametrize(("raw", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_wrong_far_behind_is_told_in_the_same_words(raw: bytes, problem: str) -> None:
    what, comma, byte = problem.partition(" byte ")
    expected = f"{what}{comma}{int(byte) + len(FAR)}" if comma else what
    with pytest.raises((JsonLimitError, msgspec.DecodeError, UnicodeDecodeError)) as refusal:
        check_large(FAR + raw + b"}")
    assert "is not JSON" in expected or str(refusal.value) == expected


@pytest.mark.parametrize("raw", HARMLESS.values(), ids=HARMLESS)
def test_what_only_looks_hostile_is_let_pass_far_behind(raw: bytes) -> None:
    if raw != HARMLESS["200 levels"]:
        check_large(FAR + raw + b"}")


@given(st.text("[]{}", max_size=60), st.integers(0, 12))
def test_levels_are_counted_as_one_would(marks: str, most: int) -> None:
    deepest = level = 0
    for mark in marks:
        level += 1 if mark in "[{" else -1
        deepest = max(deepest, level)
    assert has_more_levels(marks.encode(), most) is (deepest > most)
