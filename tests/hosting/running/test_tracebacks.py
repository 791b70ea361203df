"""Errors, told without their texts."""

from __future__ import annotations

import pytest

from pratique.telemetry.logs import describe_error
from support.services.controllers import SECRET


def fall(depth: int) -> None:
    if depth == 0:
        raise ValueError(SECRET)
    fall(depth - 1)


def caught(depth: int) -> Exception:
    with pytest.raises(ValueError, match=SECRET) as error:
        fall(depth)
    return error.value


def test_an_error_is_logged_by_type_and_locations_innermost_first() -> None:
    description = describe_error(caught(1))
    assert description.startswith("ValueError < fall (running/test_tracebacks.py:")
    assert description.index("fall") < description.index("caught")
    assert SECRET not in description


def test_a_deep_recursion_is_logged_briefly() -> None:
    assert len(describe_error(caught(500)).split(" < ")) <= 14


def test_the_cause_of_an_error_is_logged_too() -> None:
    error = RuntimeError(SECRET)
    error.__cause__ = caught(0)
    assert "RuntimeError; because of ValueError < fall" in describe_error(error)


def test_errors_that_cause_each_other_are_described_without_looping() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert describe_error(first).startswith("ValueError; because of KeyError")
