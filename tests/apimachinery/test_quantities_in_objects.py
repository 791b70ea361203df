"""Quantities in objects: parsing, refusing, rounding and printing."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.quantities import Quantity, QuantityError, QuantityFormat

POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
FACTORS = {suffix: Fraction(10) ** power for suffix, power in POWERS.items()} | {
    suffix: Fraction(2) ** power for suffix, power in BINARY.items()
}
NUMBERS = st.integers(-(10**6), 10**6)
# Three decimals of the finest suffix would be finer than anything that a quantity holds.
TEXTS = st.builds(
    "{}.{}{}".format, NUMBERS, st.integers(0, 999), st.sampled_from(sorted(set(FACTORS) - {"n", "u"}))
)


def amount(text: str) -> Fraction:
    """What a text means, worked out another way."""
    suffix = text.lstrip("+-.0123456789")
    return Fraction(text.removesuffix(suffix)) * FACTORS[suffix]


def value(quantity: Quantity) -> Fraction:
    return quantity.number * Fraction(10) ** quantity.scale


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"), ("0Gi", "0"), ("1", "1"), ("1.5", "1500m"), ("0.1", "100m"), ("100m", "100m"), ("1000m", "1"),
        ("1000", "1k"), ("1500", "1500"), ("1e3", "1e3"), ("1E3", "1e3"), ("12e2", "1200"), ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"), ("1025Mi", "1025Mi"), ("0.5Ki", "512"), ("1Ki", "1Ki"), ("-1.5", "-1500m"), ("+2", "2"),
        (".5", "500m"), ("5.", "5"), ("0.1Mi", "104857600m"), ("2000Mi", "2000Mi"), ("1E", "1E"), ("1Ei", "1Ei"),
    ],
)  # fmt: skip
def test_a_quantity_prints_in_canonical_form(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "quantities must match the regular expression"),
        ("one", "quantities must match the regular expression"),
        ("1 Gi", "quantities must match the regular expression"),
        (".", "unable to parse numeric part of quantity"),
        ("1Kib", "quantities must match the regular expression"),
        ("1K", "unable to parse quantity's suffix"),
        ("1ki", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
    ],
)
def test_an_invalid_quantity_is_refused_in_kubernetes_words(text: str, fault: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        Quantity.parse(text)
    assert str(refusal.value).startswith(fault)


@pytest.mark.parametrize(
    ("held", "canonical"),
    [("1Gi", "1Gi"), (" 2 ", "2"), (2, "2"), (0.5, "500m"), (1e22, "10e21"), (None, "0")],
)
def test_json_quantities_are_strings_numbers_or_null(held: JSON, canonical: str) -> None:
    assert str(Quantity.from_json(held)) == canonical


@pytest.mark.parametrize("held", [True, [], {}, "", "x", float("inf")])
def test_other_json_values_are_no_quantities(held: JSON) -> None:
    with pytest.raises(QuantityError):
        Quantity.from_json(held)


def test_a_number_with_too_many_digits_is_refused() -> None:
    with pytest.raises(QuantityError, match="unable to parse numeric part of quantity"):
        Quantity.from_json(10**5000)


@pytest.mark.parametrize(
    ("text", "scale", "rounded"),
    [
        ("1500u", -3, "2m"),
        ("1500u", -6, "1500u"),
        ("-1500u", -3, "-2m"),
        ("1m", 0, "1"),
        ("1.2Gi", 0, "1288490189"),
    ],
)
def test_a_quantity_rounds_up_to_whole_units(text: str, scale: int, rounded: str) -> None:
    assert str(Quantity.parse(text).rounded_up(scale)) == rounded


@given(TEXTS, st.sampled_from([-3, 0, 3]))
def test_rounding_up_adds_less_than_a_unit(text: str, scale: int) -> None:
    unit = Fraction(10) ** scale
    rounded = value(Quantity.parse(text).rounded_up(scale))
    assert 0 <= abs(rounded) - abs(amount(text)) < unit
    assert rounded % unit == 0


def test_a_sum_keeps_the_format_of_its_first_term() -> None:
    assert str(Quantity.parse("512Mi") + Quantity.parse("512M")) == "1024288Ki"
    assert (Quantity.parse("1") + Quantity.parse("1Gi")).format is QuantityFormat.DECIMAL_SI
    assert (Quantity.parse("0") + Quantity.parse("1Gi")).format is QuantityFormat.BINARY_SI
