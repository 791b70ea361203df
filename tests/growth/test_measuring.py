"""The guard finds what is not linear, names it, and finds nothing in what is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from growth.measuring import Clock, superlinear


def pairwise_search(size: int) -> list[int]:
    """Look for each of some numbers in a slice of a list."""
    numbers = list(range(size // 32))
    return [number for number in numbers if number in numbers[:number]]


def single_search(size: int) -> list[int]:
    """Look for them in a set."""
    numbers = list(range(size * 8))
    known = set(numbers)
    return [number for number in numbers if number in known]


def work(piece: Callable[[int], list[int]]) -> Callable[[int, Clock], None]:
    def done(size: int, clock: Clock) -> None:
        with clock("linear"):
            single_search(size)
        with clock("planted"):
            piece(size)

    return done


def test_a_quadratic_function_is_found_and_named() -> None:
    (found,) = superlinear(work(pairwise_search))
    assert found.piece == "planted"
    assert "pairwise_search (tests/growth/test_measuring.py:" in str(found) or "<listcomp>" in str(found)


@pytest.mark.parametrize("piece", [single_search, sorted])
def test_linear_work_is_not_found(piece: Callable[[int], list[int]]) -> None:
    assert (
        superlinear(work(lambda size: piece(size) if piece is single_search else sorted(range(size)))) == []
    )
