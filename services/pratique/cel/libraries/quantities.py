"""Quantities: ``quantity(text)``, comparisons and arithmetic.

Source: ``k8s.io/apiserver/pkg/cel/library/quantity.go``. :mod:`pratique.cel.libraries.semvers` implements
``isGreaterThan``, ``isLessThan`` and ``compareTo`` for quantities, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from pratique.apimachinery.quantities import Quantity, QuantityError, QuantityFormat
from pratique.cel.activation import Frame
from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.strings import require_types
from pratique.cel.values import Value


class QuantityValue(msgspec.Struct, frozen=True):
    """A quantity as a CEL value."""

    cel_type: ClassVar[str] = "kubernetes.Quantity"
    quantity: Quantity

    def compare(self, other: QuantityValue) -> int:
        """Compare two quantities: -1, 0 or 1."""
        return self.quantity.compare(other.quantity)


def _quantity(_: Frame, text: Value) -> QuantityValue:
    require_types((str,), text)
    try:
        return QuantityValue(Quantity.parse(text))
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _is_quantity(_: Frame, text: Value) -> bool:
    require_types((str,), text)
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _quantity_property(read: Callable[[Quantity], Value]) -> Callable[[Frame, Value], Value]:
    def run(_: Frame, value: Value) -> Value:
        require_types((QuantityValue,), value)
        return read(value.quantity)

    return run


def _as_integer(quantity: Quantity) -> int:
    amount = quantity.as_integer()
    if amount is None:
        raise EvaluationError("cannot convert value to integer")
    return amount


def _arithmetic(
    combine: Callable[[Quantity, Quantity], Quantity],
) -> Callable[[Frame, Value, Value], QuantityValue]:
    def run(_: Frame, left: Value, right: Value) -> QuantityValue:
        if type(left) is not QuantityValue:
            raise NoSuchOverloadError
        if type(right) is int:
            return QuantityValue(
                combine(left.quantity, Quantity(right, format=QuantityFormat.DECIMAL_EXPONENT))
            )
        require_types((QuantityValue,), right)
        return QuantityValue(combine(left.quantity, right.quantity))

    return run


_QUANTITY = "kubernetes.Quantity"
LIBRARY = Library(
    overloads=(
        Overload("string_to_quantity", "quantity(string)", _QUANTITY),
        Overload("is_quantity_string", "isQuantity(string)", "bool"),
        Overload("quantity_sign", f"sign({_QUANTITY})", "int"),
        Overload("quantity_is_greater_than", f"{_QUANTITY}.isGreaterThan({_QUANTITY})", "bool"),
        Overload("quantity_is_less_than", f"{_QUANTITY}.isLessThan({_QUANTITY})", "bool"),
        Overload("quantity_compare_to", f"{_QUANTITY}.compareTo({_QUANTITY})", "int"),
        Overload("quantity_get_float", f"{_QUANTITY}.asApproximateFloat()", "double"),
        Overload("quantity_get_int", f"{_QUANTITY}.asInteger()", "int"),
        Overload("quantity_is_integer", f"{_QUANTITY}.isInteger()", "bool"),
        Overload("quantity_add", f"{_QUANTITY}.add({_QUANTITY})", _QUANTITY),
        Overload("quantity_add_int", f"{_QUANTITY}.add(int)", _QUANTITY),
        Overload("quantity_sub", f"{_QUANTITY}.sub({_QUANTITY})", _QUANTITY),
        Overload("quantity_sub_int", f"{_QUANTITY}.sub(int)", _QUANTITY),
    ),
    functions={
        "quantity": _quantity,
        "isQuantity": _is_quantity,
        "sign": _quantity_property(lambda quantity: quantity.sign),
        "asApproximateFloat": _quantity_property(Quantity.as_float),
        "asInteger": _quantity_property(_as_integer),
        "isInteger": _quantity_property(lambda quantity: quantity.as_integer() is not None),
        "add": _arithmetic(lambda left, right: left + right),
        "sub": _arithmetic(lambda left, right: left - right),
    },
)
