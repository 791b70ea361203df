"""Quantities compared with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.quantities import Quantity, QuantityError

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "e3": Fraction(1000), "E-2": Fraction(1, 100),
}  # fmt: skip
MAXIMUM = Fraction(2**63 - 1)


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A quantity as text, and the amount that it is."""
    whole = draw(st.integers(0, 10**12))
    digits = draw(st.text("0123456789", max_size=6))
    sign = draw(st.sampled_from(["", "-", "+"]))
    suffix = draw(st.sampled_from(sorted(SUFFIXES)))
    number = f"{whole}.{digits}" if digits else str(whole)
    amount = (whole + (Fraction(int(digits), 10 ** len(digits)) if digits else 0)) * SUFFIXES[suffix]
    billionths = Fraction(-(-amount * 10**9 // 1), 10**9)
    held = min(billionths, MAXIMUM) if suffix.endswith("i") else billionths
    return f"{sign}{number}{suffix}", -held if sign == "-" else held


def amount_of(quantity: Quantity) -> Fraction:
    return quantity.number * Fraction(10) ** quantity.scale


@given(written())
def test_a_quantity_is_read_exactly_to_the_billionth(case: tuple[str, Fraction]) -> None:
    text, amount = case
    assert amount_of(Quantity.parse(text)) == amount


@given(written())
def test_the_canonical_form_is_equal_and_stable(case: tuple[str, Fraction]) -> None:
    quantity = Quantity.parse(case[0])
    canonical = str(quantity)
    assert amount_of(Quantity.parse(canonical)) == amount_of(quantity)
    assert str(Quantity.parse(canonical)) == canonical
    assert "." not in canonical


@given(written(), written())
def test_quantities_order_by_amount(first: tuple[str, Fraction], second: tuple[str, Fraction]) -> None:
    left, right = Quantity.parse(first[0]), Quantity.parse(second[0])
    assert left.compare(right) == (first[1] > second[1]) - (first[1] < second[1])
    assert (left == right) == (first[1] == second[1])
    assert left != right or hash(left) == hash(right)


@given(written(), written())
def test_sums_and_differences_are_exact(first: tuple[str, Fraction], second: tuple[str, Fraction]) -> None:
    left, right = Quantity.parse(first[0]), Quantity.parse(second[0])
    assert amount_of(left + right) == first[1] + second[1]
    assert amount_of(left - right) == first[1] - second[1]


@pytest.mark.parametrize(
    ("text", "integer"),
    [("50", 50), ("50k", 50_000), ("1Ki", 1024), ("0.5", None), ("1.0", None), ("9" * 30, None), ("-3", -3)],
)
def test_integers_are_those_that_kubernetes_returns(text: str, integer: int | None) -> None:
    assert Quantity.parse(text).as_integer() == integer


@pytest.mark.parametrize(
    ("text", "scale", "units"), [("1.1", 0, 2), ("-1.1", 0, -2), ("1500m", -3, 1500), ("2k", 3, 2)]
)
def test_rounding_is_away_from_zero(text: str, scale: int, units: int) -> None:
    assert Quantity.parse(text).ceiling(scale) == units


def test_floats_are_close_and_overflow_to_infinity() -> None:
    assert Quantity.parse("50.703k").as_float() == pytest.approx(50_703.0)
    assert Quantity.parse("-1e400").as_float() == float("-inf")


@pytest.mark.parametrize("text", ["9" * 2_000, "1e99999999999", "1" * 1_000_000 + "x"])
def test_quantities_that_would_exhaust_memory_are_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@given(written(), st.sampled_from([-3, 0, 3]))
def test_rounding_up_adds_less_than_a_unit(case: tuple[str, Fraction], scale: int) -> None:
    text, amount = case
    unit = Fraction(10) ** scale
    rounded = amount_of(Quantity.parse(text).rounded_up(scale))
    assert 0 <= abs(rounded) - abs(amount) < unit
    assert rounded % unit == 0
