"""What is sent as a patch, held against the object that it has to yield, by our reader and by another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pratique.differences import diff, identical
from pratique.json_values import decode, encode
from pratique.patches import COPY_LIMIT, PatchDecodeError, PatchError, apply_patch, decode_patch
from strategies.json_values import KEYS, documents, named_items, values
from strategies.pods import pods

if TYPE_CHECKING:
    from pratique.json_values import JSON

NAMES = (
    KEYS
    | st.text(max_size=3)
    | st.sampled_from(["~0", "~01", "/", "//", "~/", "example.com/x", "1", "-1", "00"])
)
OBJECTS = st.dictionaries(NAMES, values(6), max_size=5)
NESTED = st.dictionaries(NAMES, OBJECTS | st.lists(OBJECTS | values(3), max_size=4), max_size=4)
PAIRS = st.one_of(*(st.tuples(kind, kind) for kind in (NESTED, documents(), named_items(), pods())))


def check(before: JSON, after: JSON) -> None:
    if type(before) is not type(after):
        return
    # As it travels: through JSON, and read by the one who applies it.
    operations = decode_patch(encode(diff(before, after)))
    assert {operation["op"] for operation in operations} <= {"add", "remove", "replace"}
    assert identical(apply_patch(before, operations), after)
    if operations:
        assert identical(jsonpatch.apply_patch(decode(encode(before)), operations), after)


@settings(max_examples=500)
@given(PAIRS)
def test_every_patch_applies_and_yields_the_new_object(pair: tuple[JSON, JSON]) -> None:
    check(*pair)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(PAIRS)
def test_ten_thousand_patches_apply_and_yield_the_new_object(pair: tuple[JSON, JSON]) -> None:
    check(*pair)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"metadata": {"annotations": {"example.com/x": "1"}}}),
        ({"metadata": {}}, {"metadata": {"labels": {"a~b": "", "a/b": "", "": ""}}}),
        (
            {"metadata": {"annotations": {"a/b": "1", "a~1b": "2"}}},
            {"metadata": {"annotations": {"a~1b": "1"}}},
        ),
        ({"l": []}, {"l": [1]}),
        ({"l": [1, 2]}, {"l": [1, 2, 3]}),
        ({"l": [1, 2, 3]}, {"l": []}),
        ({"l": [[], [[]]]}, {"l": [[[]], []]}),
        ({"": {"": {"": 1}}}, {"": {"": {"": 2}}}),
        ({"-": [1], "0": {"-": 1}}, {"-": [1, 2], "0": {"-": 2}}),
    ],
)
def test_the_corners_are_all_right(before: JSON, after: JSON) -> None:
    check(before, after)
    check(after, before)


COPIES = [{"op": "copy", "from": "/l", "path": "/l/-"} for _ in range(30)]


@pytest.mark.parametrize("count", [18, 28, 1_000, 10_000])
def test_a_bomb_of_copies_goes_off_early_and_small(count: int) -> None:
    document = {"l": ["x" * 10]}
    with pytest.raises(
        PatchError, match="Unable to complete the copy, the accumulated size increase"
    ) as refusal:
        apply_patch(document, (COPIES * (count // 30 + 1))[: max(count, 18)])
    grown = int(str(refusal.value).split()[-5].rstrip(","))
    assert COPY_LIMIT < grown <= 2 * COPY_LIMIT + 1_000
    assert document == {"l": ["x" * 10]}


@pytest.mark.parametrize("unit", [b"[]", b"{}", b"1", b'{"op":"add"}'])
def test_a_patch_of_next_to_nothing_without_end_is_not_read(unit: bytes) -> None:
    raw = b"[" + b",".join([unit] * 600_001) + b"]"
    with pytest.raises(PatchDecodeError, match="the patch holds more than 600000 values"):
        decode_patch(raw)
