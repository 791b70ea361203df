"""Numbers as Go's ``encoding/json`` and the API server read and write them."""

from __future__ import annotations

import json
import math
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.go_formats import go_text
from pratique.apimachinery.json_reading import read_document
from pratique.apimachinery.json_values import JSON, decode, encode, float_text, may_hold_floats
from pratique.apimachinery.yaml_values import read_values

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)

# What Go 1.24 has made of each text: the value of an ``any`` of sigs.k8s.io/json, and what encoding/json writes of it.
READ = [
    ("9223372036854775807", 2**63 - 1, "9223372036854775807"),
    ("9223372036854775808", 9.223372036854775808e18, "9223372036854776000"),
    ("-9223372036854775809", -9.223372036854775808e18, "-9223372036854776000"),
    ("18446744073709551615", 1.8446744073709552e19, "18446744073709552000"),
    ("100000000000000000000", 1e20, "100000000000000000000"),
    ("123456789012345680000", 1.2345678901234568e20, "123456789012345680000"),
    ("1e20", 1e20, "100000000000000000000"),
    ("1e21", 1e21, "1e+21"),
    ("1.5e300", 1.5e300, "1.5e+300"),
    ("1e100", 1e100, "1e+100"),
    ("0.000001", 1e-6, "0.000001"),
    ("0.0000001", 1e-7, "1e-7"),
    ("4.9e-324", 5e-324, "5e-324"),
    ("1e-400", 0.0, "0"),
    ("1.0", 1.0, "1"),
    ("0.1e1", 1.0, "1"),
    ("-0", 0, "0"),
    ("-0.0", -0.0, "-0"),
]


def same(value: JSON, other: JSON) -> bool:
    return type(value) is type(other) and value == other


@pytest.mark.parametrize(("text", "value", "written"), READ)
def test_a_number_is_read_and_written_as_go_does(text: str, value: float, written: str) -> None:
    for raw in (text.encode(), b'{"a":[%s]}' % text.encode()):
        read = decode(raw)
        number = read if raw == text.encode() else read["a"][0]
        assert same(number, value)
        assert encode(read) == raw.replace(text.encode(), written.encode())
        assert read_document(raw).data == read
    assert same(decode(text), value)  # of a str, too


@pytest.mark.parametrize("text", ["1E400", "-1e400", "9" * 310, "-" + "9" * 400])
def test_a_number_beyond_float64_is_refused(text: str) -> None:
    for raw in (text, f'{{"a":[{text}]}}'):
        with pytest.raises(msgspec.DecodeError, match="Number out of range"):
            decode(raw)


@given(FLOATS)
def test_every_float_round_trips(value: float) -> None:
    text = float_text(value)
    assert struct.pack("d", float(text)) == struct.pack("d", value)
    assert float(json.loads(text)) == value
    assert (
        decode(text) == value or abs(value) > 2**53
    )  # as an integer its digits count, and not what they stand for
    exponent = text.partition("e")[2]
    plain = value == 0 or 1e-6 <= abs(value) < 1e21
    assert bool(exponent) is not plain
    assert not exponent.startswith(("-0", "+0"))


# Go writes -0.0 as -0, and reads that as the integer 0.
POSITIVE_ZERO = FLOATS.filter(lambda value: value != 0 or math.copysign(1, value) > 0)
VALUES = st.recursive(
    INT64
    | POSITIVE_ZERO
    | st.text(max_size=3)
    | st.sampled_from(["1.5", ",1.5,", "nginx:1.27", ":1e5", None, True]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


SHORT_DECIMALS = st.builds(round, st.floats(-1e9, 1e9), st.integers(0, 9))


@given(FLOATS | SHORT_DECIMALS | st.floats(-1e-5, 1e-5) | st.integers(-(10**20), 10**20).map(float))
def test_a_float_in_a_document_is_written_as_go_writes_it(value: float) -> None:
    text = float_text(value)
    assert encode({"a": value, "b": [value]}).decode() == f'{{"a":{text},"b":[{text}]}}'


@given(VALUES)
def test_encoding_is_stable(value: JSON) -> None:
    written = encode(value)
    assert encode(decode(written)) == written
    assert all(as_go_writes(number) for number in numbers_in(written))


def numbers_in(written: bytes) -> list[str]:
    found: list[str] = []
    json.loads(written, parse_float=found.append, parse_int=found.append)
    return found


def as_go_writes(number: str) -> bool:
    whole = number.lstrip("-").isdigit()
    return (whole and -(2**63) <= int(number) < 2**63) or number == float_text(float(number))


@given(FLOATS | INT64 | st.integers(0, 2**64 - 1))
def test_yaml_numbers_equal_those_of_its_json(value: JSON) -> None:
    text = repr(value)
    (document,) = read_values(f"a: {text}\nb: [{text}]\n".encode())
    expected = decode(float_text(value) if isinstance(value, float) else text)
    assert same(document.value["a"], expected)
    assert same(document.value["b"][0], expected)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        *((1.0, "1"), (1.5, "1.5"), (100000.0, "100000"), (1e6, "1e+06"), (1234567.0, "1.234567e+06")),
        *((12345678.5, "1.23456785e+07"), (1e20, "1e+20"), (1e-4, "0.0001"), (1e-5, "1e-05"), (0.0, "0")),
        *(
            (123456789.0, "1.23456789e+08"),
            (-2.5e-7, "-2.5e-07"),
            (1e100, "1e+100"),
            (math.pi, "3.141592653589793"),
        ),
    ],
)
def test_a_float_is_printed_as_go_prints_it(value: float, printed: str) -> None:
    assert go_text(value) == printed


@given(st.recursive(FLOATS | st.text(), st.lists, max_leaves=5))
def test_floats_of_long_texts_are_found_as_well(value: object) -> None:
    written = msgspec.json.encode([value])
    long = msgspec.json.encode(["x" * 70_000, value])
    assert may_hold_floats(long) >= may_hold_floats(written)
    assert encode(["x" * 70_000, value])[70_004:-1] == encode([value])[1:-1]
