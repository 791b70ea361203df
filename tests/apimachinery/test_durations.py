"""Durations as Go parses and prints them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.durations import GoDuration, parse
from pratique.apimachinery.errors import InputError

INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5s", 5_000_000_000),
        ("10s", 10_000_000_000),
        ("1m30s", 90_000_000_000),
        ("300ms", 300_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("-1.5h", -5_400_000_000_000),
        ("2h45m", 9_900_000_000_000),
        ("1us", 1_000),
        ("1\u00b5s", 1_000),
        ("1\u03bcs", 1_000),
        ("0.100000000000000000000h", 360_000_000_000),
        ("0.9223372036854775807h", 3_320_413_933_267),
        ("0.3333333333333333333h", 1_200_000_000_000),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_a_duration_is_read_to_the_nanosecond(text: str, nanoseconds: int) -> None:
    assert parse(text) == GoDuration(nanoseconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("x", 'time: invalid duration "x"'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("10", 'time: missing unit in duration "10"'),
        ("1.", 'time: missing unit in duration "1."'),
        ("10x", 'time: unknown unit "x" in duration "10x"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ('1"', 'time: unknown unit "\\"" in duration "1\\""'),
        ("1\u00e9", 'time: unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"'),
        ("1\t", 'time: unknown unit "\\x09" in duration "1\\x09"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("-9223372036854775809ns", 'time: invalid duration "-9223372036854775809ns"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
        ("1" * 5000 + "s", f'time: invalid duration "{"1" * 5000}s"'),
        ("9223372036854775807s1x", 'time: invalid duration "9223372036854775807s1x"'),
    ],
)
def test_an_invalid_duration_is_refused_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (10_000_000_000, "10s"),
        (1_500_000_000, "1.5s"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_a_duration_prints_as_go_prints_it(nanoseconds: int, text: str) -> None:
    assert str(GoDuration(nanoseconds)) == text


@given(INT64)
def test_a_printed_duration_parses_back(nanoseconds: int) -> None:
    assert parse(str(GoDuration(nanoseconds))) == GoDuration(nanoseconds)


@given(st.text(max_size=12))
def test_arbitrary_text_never_crashes_the_parser(text: str) -> None:
    with contextlib.suppress(InputError):
        assert isinstance(parse(text), GoDuration)


def test_a_duration_converts_to_seconds() -> None:
    assert parse("1m30.25s").seconds == 90.25
    assert GoDuration.of_seconds(90.25) == parse("1m30.25s")
    assert GoDuration.of_seconds(0.1) == parse("100ms")
    assert parse("1s") < parse("1m")
