"""YAML scalars as Kubernetes resolves them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery import yaml_values

TAG = "tag:yaml.org,2002:"


@pytest.mark.parametrize("text", ["y", "Y", "yes", "Yes", "YES", "true", "TRUE", "on", "On", "ON"])
def test_every_spelling_of_yes_is_true(text: str) -> None:
    assert yaml_values.resolve(text) is True


@pytest.mark.parametrize("text", ["n", "N", "no", "No", "NO", "false", "False", "off", "Off", "OFF"])
def test_every_spelling_of_no_is_false(text: str) -> None:
    assert yaml_values.resolve(text) is False


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_every_spelling_of_null_is_null(text: str) -> None:
    assert yaml_values.resolve(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("1_000", 1000),
        ("1__0_", 10),
        ("010", 8),
        ("-010", -8),
        ("0o17", 15),
        ("0O17", 15),
        ("0x1F", 31),
        ("0X1f", 31),
        ("+0x1f", 31),
        ("0b101", 5),
        ("-0b11", -3),
        ("0b-1", -1),
        ("0b+1", 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551615", 2**64 - 1),
        ("0xffffffffffffffff", 2**64 - 1),
        ("08", 8.0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        (".5", 0.5),
        (".5_0", 0.5),
        ("5.", 5.0),
        ("18446744073709551616", 18446744073709551616.0),
        ("+9223372036854775808", 9223372036854775808.0),
        ("07777777777777777777777777", 7777777777777777777777777.0),
    ],
)
def test_a_number_is_read_as_go_reads_it(text: str, number: float) -> None:
    value = yaml_values.resolve(text)
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize(
    "text",
    [
        "2001-01-01",
        "2001-12-14t21:59:43.10-05:00",
        "12:30",
        "190:20:30",
        "tRue",
        "_1",
        "._5",
        "0x",
        "0b2",
        "0o8",
        "1e",
        "1e999",
        "-",
        "+",
        ".",
        "..",
        "1.2.3",
        "100m",
        "1Gi",
        "<<",
        "=",
        "0x1ffffffffffffffff",
        "0b" + "1" * 80,
        "0b-" + "1" * 80,
    ],
)
def test_every_other_scalar_is_a_string(text: str) -> None:
    assert yaml_values.resolve(text) == text


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("str", "5", "5"),
        ("str", "", ""),
        ("timestamp", "2001-01-01", "2001-01-01"),
        ("int", "0x10", 16),
        ("float", "5", 5.0),
        ("float", "1.5", 1.5),
        ("bool", "yes", True),
        ("null", "~", None),
        ("binary", "aGk=", "hi"),
        ("binary", "aG\nk=", "hi"),
    ],
)
def test_a_tag_sets_the_type_of_a_scalar(tag: str, text: str, value: object) -> None:
    found = yaml_values.resolve_tagged(TAG + tag, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("tag", "text", "message"),
    [
        (f"{TAG}int", "x", "cannot decode `x` as a !!int"),
        (f"{TAG}bool", "1", "cannot decode `1` as a !!bool"),
        (f"{TAG}float", "x", "cannot decode `x` as a !!float"),
        (f"{TAG}binary", "a", "!!binary value contains invalid base64 data"),
        (f"{TAG}set", "a", "the tag !!set is not supported; leave it out"),
        ("!Ref", "a", "the tag !Ref is not supported; leave it out"),
    ],
)
def test_a_tag_that_does_not_match_is_refused(tag: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        yaml_values.resolve_tagged(tag, text)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("a", "a"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (1.10, "1.1"),
        (1e20, "1e+20"),
        (100000.5, "100000.5"),
        (1234567.5, "1.2345675e+06"),
        (0.0001, "0.0001"),
        (1e-5, "1e-05"),
        (1e39, ".inf"),
        (-1e300, "-.inf"),
        (1e-46, "0"),
        (math.inf, ".inf"),
        (-math.inf, "-.inf"),
        (math.nan, ".nan"),
    ],
)
def test_a_key_becomes_a_string_as_in_go(value: object, key: str) -> None:
    assert yaml_values.key_text(value) == key


@pytest.mark.parametrize("value", [None, [], {}, 2**63])
def test_a_key_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a key must be text, a number or a boolean"):
        yaml_values.key_text(value)


@given(st.text(alphabet="0123456789_+-.eExXoObBaf", max_size=12))
def test_a_number_like_scalar_is_a_number_or_itself(text: str) -> None:
    value = yaml_values.resolve(text)
    assert value is None or value == text or isinstance(value, int | float)
