"""Conversions between types, and the parts of timestamps and durations, at their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pratique.cel.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("int('9223372036854775807')", 2**63 - 1),
        ("int('-9223372036854775808')", -(2**63)),
        ("int('+7')", 7),
        ("int(-1.9)", -1),
        ("int(3u)", 3),
        ("int(timestamp('1969-12-31T23:59:59.5Z'))", -1),
        ("uint('18446744073709551615')", 2**64 - 1),
        ("uint(1.9)", 1),
        ("double('1e3')", 1000.0),
        ("double('.5')", 0.5),
        ("double('-Inf')", float("-inf")),
        ("double(18446744073709551615u)", 1.8446744073709552e19),
        ("bool('t') && bool('1') && bool('TRUE') && !bool('f') && !bool('0') && !bool('False')", True),
        ("bytes('ä')", b"\xc3\xa4"),
        ("string(b'\\303\\244')", "ä"),
        ("string(duration('1h30m'))", "5400s"),
        ("string(duration('-1.5s'))", "-1.5s"),
        ("string(timestamp('2024-02-29T12:00:00.250+02:00'))", "2024-02-29T10:00:00.25Z"),
        ("string(timestamp('0001-01-01T00:00:00Z'))", "0001-01-01T00:00:00Z"),
        (
            "string(1e21) + ' ' + string(1e-7) + ' ' + string(100000.0) + ' ' + string(-0.0)",
            "1e+21 1e-07 100000 -0",
        ),
        ("duration('2562047h47m16.854775807s') > duration('0')", True),
        ("timestamp(0) == timestamp('1970-01-01T00:00:00Z')", True),
        (
            "timestamp('2024-01-01T00:00:00.123456789999Z') == timestamp('2024-01-01T00:00:00.123456789Z')",
            True,
        ),
        ("dyn(1) == 1", True),
    ],
)
def test_a_conversion_gives_cel_gos_value(
    expression: str, expected: Any, evaluate: Callable[..., Any]
) -> None:
    assert evaluate(expression) == expected


@pytest.mark.parametrize(
    ("call", "argument", "error"),
    [
        ("int", "9223372036854775808", "type conversion error from 'string' to 'int'"),
        ("int", "1.0", "type conversion error from 'string' to 'int'"),
        ("int", "", "type conversion error from 'string' to 'int'"),
        ("int", "٣", "type conversion error from 'string' to 'int'"),
        ("int", "1" * 2000, "type conversion error from 'string' to 'int'"),
        ("int", 1e19, "integer overflow"),
        ("int", float("nan"), "integer overflow"),
        ("int", True, "no such overload: int(bool)"),
        ("uint", "-1", "type conversion error from 'string' to 'uint'"),
        ("uint", "+1", "type conversion error from 'string' to 'uint'"),
        ("uint", -1, "unsigned integer overflow"),
        ("uint", -0.5, "unsigned integer overflow"),
        ("double", "1e400", "type conversion error from 'string' to 'double'"),
        ("double", "one", "type conversion error from 'string' to 'double'"),
        ("double", True, "no such overload: double(bool)"),
        ("bool", "yes", "type conversion error from 'string' to 'bool'"),
        ("bool", 1, "no such overload: bool(int)"),
        ("bytes", 1, "no such overload: bytes(int)"),
        ("string", [], "no such overload: string(list)"),
        ("string", b"\xff", "invalid UTF-8 in bytes, cannot convert to string"),
        ("duration", "1d1h", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("duration", "1", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("duration", "9223372037s", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("duration", 1, "no such overload: duration(int)"),
        (
            "timestamp",
            "2024-02-30T00:00:00Z",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        ("timestamp", "2024-01-01", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        (
            "timestamp",
            "2024-01-01T00:00:00",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        (
            "timestamp",
            "2024-01-01t00:00:00z",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        (
            "timestamp",
            "2024-01-01T00:00:00+00:60",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        ("timestamp", "0001-01-01T00:00:00+00:01", "timestamp overflow"),
        ("timestamp", 253402300800, "timestamp overflow"),
        ("timestamp", True, "no such overload: timestamp(bool)"),
    ],
)
def test_a_conversion_fails_with_cel_gos_error(
    call: str, argument: Any, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(f"{call}(object)", object=argument)
    assert str(caught.value) == f"expression '{call}(object)' resulted in error: {error}"


@pytest.mark.parametrize(
    ("part", "utc", "east"),
    [
        ("getFullYear", 2024, 2025),
        ("getMonth", 11, 0),
        ("getDayOfYear", 365, 0),
        ("getDayOfMonth", 30, 0),
        ("getDate", 31, 1),
        ("getDayOfWeek", 2, 3),
        ("getHours", 23, 1),
        ("getMinutes", 30, 0),
        ("getSeconds", 15, 15),
        ("getMilliseconds", 250, 250),
    ],
)
def test_a_part_of_a_timestamp_depends_on_the_time_zone(
    part: str, utc: int, east: int, evaluate: Callable[..., Any]
) -> None:
    moment = "timestamp('2024-12-31T23:30:15.250Z')"
    assert evaluate(f"{moment}.{part}()") == utc
    assert evaluate(f"{moment}.{part}('UTC')") == utc
    assert evaluate(f"{moment}.{part}('01:30')") == east
    assert evaluate(f"timestamp('2025-01-01T00:30:15.250Z').{part}('-01:00')") == utc


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("duration('-90m').getHours()", -1),
        ("duration('90m').getMinutes()", 90),
        ("duration('1.5s').getSeconds()", 1),
        ("duration('1.5s').getMilliseconds()", 1500),
    ],
)
def test_a_part_of_a_duration_is_the_whole_number_of_its_unit(
    expression: str, expected: int, evaluate: Callable[..., Any]
) -> None:
    assert evaluate(expression) == expected


@pytest.mark.parametrize(
    ("zone", "error"),
    [
        ("Nowhere/City", "unknown time zone Nowhere/City"),
        ("../etc/passwd", "unknown time zone ../etc/passwd"),
        ("1:x", 'strconv.Atoi: parsing "x": invalid syntax'),
        (":30", 'strconv.Atoi: parsing "": invalid syntax'),
        ("01:60", "timezone offset minutes out of range [0, 59]: 01:60"),
        ("24:00", "timezone offset out of range: 24:00"),
    ],
)
def test_an_invalid_time_zone_is_an_error(zone: str, error: str, evaluate: Callable[..., Any]) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate("timestamp(0).getHours(object)", object=zone)
    assert str(caught.value).endswith(f"resulted in error: {error}")
