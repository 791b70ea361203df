"""How a ledger encodes usage, and how it detects texts that it did not write."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.quantities import Quantity
from pratique.controllers.quota.ledger import (
    decode_usage,
    encode_usage,
    has_valid_checksum,
    increases,
    sum_usage,
)
from support.quota_ledgers import amounts

USAGE = {"pods": "3", "requests.cpu": "500m", "limits.memory": "1Gi"}

USAGES = st.dictionaries(
    st.sampled_from(["pods", "requests.cpu", "limits.memory", "count/jobs.batch"]),
    st.integers(0, 10**18).map(lambda milli: Quantity(milli, -3)),
)


@given(usage=USAGES)
def test_usage_reads_back_as_it_was_written(usage: dict[str, Quantity]) -> None:
    written = encode_usage(usage)
    assert has_valid_checksum(written)
    assert decode_usage(written) == usage
    assert encode_usage(decode_usage(written)) == written


def test_equal_usage_gives_equal_texts() -> None:
    same = {"limits.memory": "1024Mi", "requests.cpu": "0.5", "pods": "3000m"}
    assert encode_usage(amounts(**USAGE)) == encode_usage(amounts(**same))


@given(position=st.integers(0), character=st.sampled_from('0a9\0\x7fZ{}":,é'))
def test_any_other_character_is_detected(position: int, character: str) -> None:
    written = encode_usage(amounts(**USAGE))
    place = position % len(written)
    changed = written[:place] + character + written[place + 1 :]
    if changed == written:
        return
    assert not has_valid_checksum(changed)
    with pytest.raises(msgspec.DecodeError):
        decode_usage(changed)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, -1])
def test_a_truncated_text_is_detected(length: int) -> None:
    assert not has_valid_checksum(encode_usage(amounts(**USAGE))[:length])


@pytest.mark.parametrize("stored", [None, 3, b"3", "", "{}", '00000000{"pods":"3"}', "\ud800"])
def test_what_no_ledger_wrote_has_no_valid_checksum(stored: object) -> None:
    assert not has_valid_checksum(stored)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {"pods": "1"}, {"pods": "1"}),
        ({"pods": "1"}, {"pods": "3"}, {"pods": "2"}),
        ({"pods": "1"}, {"pods": "1"}, {}),
        ({"pods": "3"}, {"pods": "1"}, {}),
        ({"pods": "3"}, {}, {}),
        ({"cpu": "1", "pods": "2"}, {"cpu": "1500m", "pods": "1"}, {"cpu": "500m"}),
    ],
)
def test_only_increases_are_recorded_in_a_charge(
    old: dict[str, str], new: dict[str, str], expected: dict[str, str]
) -> None:
    assert increases(amounts(**old), amounts(**new)) == amounts(**expected)


@given(usages=st.lists(USAGES, max_size=4))
def test_sums_are_exact_and_lose_no_resource(usages: list[dict[str, Quantity]]) -> None:
    total = sum_usage(usages)
    assert total.keys() == {name for usage in usages for name in usage}
    for name, amount in total.items():
        exact = sum((usage[name].number for usage in usages if name in usage), start=Quantity(0).number)
        assert amount.number == exact
