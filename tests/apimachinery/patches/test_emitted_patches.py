"""Computed patches, applied by our code and by the library."""

from __future__ import annotations

import time
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pratique.apimachinery.diff import diff, identical
from pratique.apimachinery.json_values import JSON, decode, encode
from pratique.apimachinery.patches import COPY_LIMIT, PatchDecodeError, PatchError, apply_patch, decode_patch
from support.strategies.json_values import KEYS, documents, named_items, values
from support.strategies.pods import pods

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
    # What is written of a whole float is an integer, as of Go's.
    sent = decode(encode(after))
    assert identical(decode(encode(apply_patch(before, operations))), sent)
    if operations:
        assert identical(jsonpatch.apply_patch(decode(encode(before)), operations), sent)


@given(PAIRS)
def test_every_patch_applies_and_yields_the_new_object(pair: tuple[JSON, JSON]) -> None:
    check(*pair)


@pytest.mark.long
@settings(max_examples=10_000)
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
def test_patches_at_the_edges_are_applied(before: JSON, after: JSON) -> None:
    check(before, after)
    check(after, before)


def copying(path: str, count: int) -> list[JSON]:
    """Copy a list into itself, so often."""
    return [{"op": "copy", "from": "/l", "path": path}] * count


@pytest.mark.parametrize(
    ("item", "patch"),
    [
        *(("x" * 10, copying("/l/-", count)) for count in (18, 28, 1_000, 10_000)),
        ("x", copying("/l/0", 28)),
        ("\u2028<", copying("/l/-", 28)),
        ({}, copying("/l/-", 28)),
    ],
    ids=["18", "28", "1,000", "10,000", "inwards", "of what Go escapes", "of next to nothing"],
)
def test_a_copy_bomb_is_refused_early(item: JSON, patch: list[JSON]) -> None:
    document = {"l": [item]}
    began, at_work = time.perf_counter(), time.process_time()
    with pytest.raises(
        PatchError, match="Unable to complete the copy, the accumulated size increase"
    ) as refusal:
        apply_patch(document, patch)
    took, worked = time.perf_counter() - began, time.process_time() - at_work
    print(f"refused in {took * 1000:.1f} ms, {worked * 1000:.1f} ms of them at work")  # noqa: T201 - numbers
    grown = int(str(refusal.value).split()[-5].rstrip(","))
    assert COPY_LIMIT < grown <= 2 * COPY_LIMIT + 1_000
    assert document == {"l": [item]}


class Counted(list[Any]):
    """Counts how often it is copied."""

    copies = 0

    def copy(self) -> Counted:
        Counted.copies += 1
        return Counted(self)


def test_a_large_value_is_copied_once_for_many_small_copies() -> None:
    large = Counted([{}, 1])
    patch = [{"op": "copy", "from": source, "path": "/l/-"} for source in ("/l/0", "/l/1", "/o")]
    changed = apply_patch({"l": large, "o": []}, [*patch * 100, {"op": "add", "path": "/l/0/x", "value": 1}])
    assert changed["l"] == [{"x": 1}, 1, *[{}, 1, []] * 100]
    assert large == [{}, 1]
    assert Counted.copies == 1


@pytest.mark.parametrize("unit", [b"[]", b"{}", b"1", b'{"op":"add"}'])
def test_a_patch_of_too_many_tiny_values_is_refused(unit: bytes) -> None:
    raw = b"[" + b",".join([unit] * 600_001) + b"]"
    with pytest.raises(PatchDecodeError, match="the patch holds more than 600000 values"):
        decode_patch(raw)
