"""Quantities in objects: parsing, refusing, rounding and printing."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.quantities import Quantity, QuantityError, QuantityFormat


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
        ("-Ei", "unable to parse numeric part of quantity"),
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


def test_a_sum_keeps_the_format_of_its_first_term() -> None:
    assert str(Quantity.parse("512Mi") + Quantity.parse("512M")) == "1024288Ki"
    assert (Quantity.parse("1") + Quantity.parse("1Gi")).format is QuantityFormat.DECIMAL_SI
    assert (Quantity.parse("0") + Quantity.parse("1Gi")).format is QuantityFormat.BINARY_SI
