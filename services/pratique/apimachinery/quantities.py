"""Quantities: amounts of a resource, such as ``500m`` or ``1.5Gi``, exact and in canonical form.

Source: ``k8s.io/apimachinery/pkg/api/resource/quantity.go``.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Any, Self

import msgspec

from pratique.apimachinery import names
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patterns import pattern

_SPLIT = pattern(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)", re.ASCII)
_FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMBER_WRONG = "unable to parse numeric part of quantity"
_SUFFIX_WRONG = "unable to parse quantity's suffix"

_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = ("", *_BINARY_SUFFIXES)

_MAXIMUM_INT64 = 2**63 - 1
_FINEST = -9
"""The finest scale is a billionth: finer amounts are rounded away from zero."""
_INT64_DECIMAL_DIGITS = 18
"""Decimal digits that always fit an int64: ``maxInt64Factors``."""
_MAXIMUM_DIGITS = 1000
"""Longer numbers are refused: no real amount needs them, and parsing takes quadratic time."""
_MAXIMUM_EXPONENT = 1000
"""Larger exponents are refused: their integers would fill the memory. Kubernetes allows all of int32."""


class QuantityFormat(enum.Enum):
    """The notation of a quantity."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(InputError):
    """A text is not a quantity. The message is Kubernetes'."""


class Quantity(msgspec.Struct, frozen=True, eq=False):
    """The amount ``number * 10**scale``. Quantities are equal if their amounts are, whatever their notation."""

    number: int
    scale: int = 0
    format: QuantityFormat = QuantityFormat.DECIMAL_SI
    is_big: bool = False
    """Kubernetes holds it as a decimal of any size instead of an int64; then it never counts as an integer."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a quantity: ``ParseQuantity``. Raises QuantityError."""
        found: Self = _parsed(text)
        return found

    @classmethod
    def _parse(cls, text: str) -> Self:
        match = _SPLIT.fullmatch(text)
        if match is None or not text:
            raise QuantityError(_FORMAT_WRONG)
        sign, whole, fraction, suffix = match.groups(default="")
        if len(whole) + len(fraction) > _MAXIMUM_DIGITS:
            raise QuantityError(_NUMBER_WRONG)
        quantity = cls._of_parts(-1 if sign == "-" else 1, whole.lstrip("0") or "0", fraction, suffix)
        if quantity.is_big and not whole and not fraction:
            raise QuantityError(_NUMBER_WRONG)
        return quantity

    @classmethod
    def from_json(cls, value: JSON) -> Self:
        """Read a quantity from JSON, a string, a number, or null for zero: ``Quantity.UnmarshalJSON``.

        Raises QuantityError.
        """
        if type(value) is str:
            return cls.parse(value.strip())
        if value is None:
            return cls(0)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise QuantityError(_FORMAT_WRONG)
        try:
            return cls.parse(str(value).strip())
        except ValueError:  # Python refuses to print an integer of more than 4,300 digits
            raise QuantityError(_NUMBER_WRONG) from None

    @classmethod
    def _of_parts(cls, sign: int, whole: str, fraction: str, suffix: str) -> Self:
        base, exponent, form = _interpret(suffix)
        digits = int(whole + fraction)
        # Kubernetes has two representations, which differ in when a quantity counts as an integer.
        if _fits_int64(base, exponent, whole, fraction):
            if base == 2:
                return cls(sign * (digits << exponent), 0, form)
            return cls(sign * digits, exponent - len(fraction), form)
        scale = -len(fraction)
        if base == 2:
            digits <<= exponent
        else:
            scale += exponent
        number, scale = _rounded(digits, scale)
        if form is QuantityFormat.BINARY_SI:
            number, scale, form = _bounded(number, scale)
        return cls(sign * number, scale, form, is_big=True)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.number > 0) - (self.number < 0)

    def compare(self, other: Quantity) -> int:
        """Compare two amounts: -1, 0 or 1."""
        mine, others, _ = self._aligned(other)
        return (mine > others) - (mine < others)

    def __eq__(self, other: object) -> bool:
        """Compare the amounts."""
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __hash__(self) -> int:
        """Hash the amount."""
        return hash(self._reduced())

    def __add__(self, other: Quantity) -> Quantity:
        """Add exactly; zero adopts the other's format."""
        return self._combined(other, 1)

    def __sub__(self, other: Quantity) -> Quantity:
        """Subtract exactly; zero adopts the other's format."""
        return self._combined(other, -1)

    def _combined(self, other: Quantity, sign: int) -> Quantity:
        form = other.format if self.number == 0 else self.format
        is_big = self.is_big or other.is_big
        # Like Kubernetes, adding zero keeps the scale of the other term.
        if not is_big and other.number == 0:
            return Quantity(self.number, self.scale, form)
        if not is_big and self.number == 0:
            return Quantity(sign * other.number, other.scale, form)
        mine, others, scale = self._aligned(other)
        total = mine + sign * others
        return Quantity(total, scale, form, is_big or abs(total) > _MAXIMUM_INT64)

    def _aligned(self, other: Quantity) -> tuple[int, int, int]:
        scale = min(self.scale, other.scale)
        return (
            self.number * 10 ** (self.scale - scale),
            other.number * 10 ** (other.scale - scale),
            scale,
        )

    def _reduced(self) -> tuple[int, int]:
        number, scale = self.number, self.scale
        while number and number % 10 == 0:
            number, scale = number // 10, scale + 1
        return (number, scale) if number else (0, 0)

    def as_integer(self) -> int | None:
        """The amount as an int64 if Kubernetes returns it as one: ``AsInt64``.

        None for ``1.0``, because Kubernetes does not reduce fractions.
        """
        if self.is_big or self.scale < 0:
            return None
        amount = self.number * 10**self.scale
        return amount if -_MAXIMUM_INT64 - 1 <= amount <= _MAXIMUM_INT64 else None

    def as_float(self) -> float:
        """The amount as an approximate float: ``AsApproximateFloat64``."""
        try:
            return float(self.number) * 10.0**self.scale
        except OverflowError:
            return float("inf") * self.sign

    def ceiling(self, scale: int = 0) -> int:
        """The amount in units of ``10**scale``, rounded away from zero: ``ScaledValue``."""
        if self.scale >= scale:
            return int(self.number * 10 ** (self.scale - scale))
        return int(-(-abs(self.number) // 10 ** (scale - self.scale))) * self.sign

    def rounded_up(self, scale: int) -> Quantity:
        """The quantity in whole units of ``10**scale``, rounded away from zero if it is finer: ``RoundUp``."""
        if self.scale >= scale:
            return self
        return Quantity(self.ceiling(scale), scale, self.format, self.is_big)

    def __str__(self) -> str:
        """The canonical form: no fraction, and the largest exact suffix."""
        if self.number == 0:
            return "0"
        if (
            self.format is QuantityFormat.BINARY_SI
            and (whole := self._whole()) is not None
            and abs(whole) >= 1024
        ):
            return _binary_text(whole)
        number, scale = self._reduced()
        # There is a suffix for every third power of ten.
        spare = scale % 3
        number, scale = number * 10**spare, scale - spare
        if self.format is not QuantityFormat.DECIMAL_EXPONENT and scale in _DECIMAL_NAMES:
            return f"{number}{_DECIMAL_NAMES[scale]}"
        return f"{number}e{scale}" if scale else str(number)

    def _whole(self) -> int | None:
        number, scale = self._reduced()
        return number * 10**scale if scale >= 0 else None


@functools.lru_cache(maxsize=2048)
def _parsed(text: str) -> Any:
    """Clusters have few different quantities, each of them in many objects."""
    return Quantity._parse(text)  # noqa: SLF001 - it is their constructor


def _interpret(suffix: str) -> tuple[int, int, QuantityFormat]:
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], QuantityFormat.BINARY_SI
    if re.fullmatch(r"[eE][+-]?[0-9]{1,9}", suffix) and abs(int(suffix[1:])) <= _MAXIMUM_EXPONENT:
        return 10, int(suffix[1:]), QuantityFormat.DECIMAL_EXPONENT
    raise QuantityError(_SUFFIX_WRONG)


def _fits_int64(base: int, exponent: int, whole: str, fraction: str) -> bool:
    """Tell whether Kubernetes holds the amount as an int64: ``precision`` in ``ParseQuantity``."""
    if base == 2:
        return not fraction and 15 - len(whole) - int(exponent * 3 / 10) - 1 >= 0
    return len(whole) + len(fraction) <= _INT64_DECIMAL_DIGITS and exponent - len(fraction) >= _FINEST


def _rounded(digits: int, scale: int) -> tuple[int, int]:
    if scale >= _FINEST:
        return digits, scale
    return -(-digits // 10 ** (_FINEST - scale)), _FINEST


def _bounded(number: int, scale: int) -> tuple[int, int, QuantityFormat]:
    """Cap a binary amount at the largest int64; an amount below 1 switches to decimal notation."""
    unit = 10**-scale
    if number > _MAXIMUM_INT64 * unit:
        return _MAXIMUM_INT64, 0, QuantityFormat.BINARY_SI
    if 0 < number < unit:
        return number, scale, QuantityFormat.DECIMAL_SI
    return number, scale, QuantityFormat.BINARY_SI


def _binary_text(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY_NAMES) - 1:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY_NAMES[power]}"


_REQUESTS = "requests."


def is_native_resource(name: str) -> bool:
    """Tell whether a resource has no domain, or one under ``kubernetes.io``: ``IsNativeResource``."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    """Tell whether a resource is an extended one, such as ``example.com/gpu``: ``IsExtendedResourceName``.

    A quota writes ``requests.`` before its name, which must still be a qualified name.
    """
    if is_native_resource(name) or name.startswith(_REQUESTS):
        return False
    return not names.check_qualified_name(f"{_REQUESTS}{name}")
