"""Capacities of devices that several claims share, and what they may request of them.

Source: ``k8s.io/kubernetes/pkg/apis/resource/validation/validation.go``. Fractions count as the next integer: the
feature gate DRAFractionalCapacityRange is on only in API servers that need not agree with those of 1.36.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from pratique.apimachinery.field_errors import FieldError, FieldPath, forbidden, invalid, required
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.registry.validation.device_names import validate_distinct

_MAXIMUM_OPTIONS = 10
_MAXIMUM_INT64 = 2**63 - 1
_BOTH = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'


def validate_exclusive_capacity(capacity: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate a capacity of a device that one claim has alone: ``validateSingleAllocatableDeviceCapacity``."""
    if capacity.get("requestPolicy") is None:
        return []
    return [forbidden(path / "requestPolicy", "allowMultipleAllocations must be true")]


def validate_shared_capacity(capacity: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate a capacity of a device that claims share: ``validateMultiAllocatableDeviceCapacity``."""
    policy, place = capacity.get("requestPolicy"), path / "requestPolicy"
    if policy is None:
        return []
    values, bounds = policy.get("validValues", []), policy.get("validRange")
    if values and bounds is not None:
        return [forbidden(place, _BOTH)]
    field = "validValues" if values else "validRange"
    if not values and bounds is None:
        return []
    if policy.get("default") is None:
        return [required(place / "default", f"required when {field} is defined")]
    default, maximum = Quantity.from_json(policy["default"]), Quantity.from_json(capacity.get("value"))
    if values:
        options = [Quantity.from_json(value) for value in values]
        return _validate_options(options, default, maximum, place / field)
    return _Range(bounds, default, maximum, place / field).validate()


def _validate_options(
    options: Sequence[Quantity], default: Quantity, maximum: Quantity, path: FieldPath
) -> list[FieldError]:
    """``validateRequestPolicyValidValues``."""
    errors = [
        invalid(path / (index + 1), str(after), "values must be sorted in ascending order")
        for index, (before, after) in enumerate(itertools.pairwise(options))
        if before.compare(after) > 0
    ]

    def validate(option: Quantity, place: FieldPath) -> list[FieldError]:
        detail = f"option is larger than capacity value: {maximum}"
        return [invalid(place, str(option), detail)] if option.compare(maximum) > 0 else []

    errors += validate_distinct(options, _MAXIMUM_OPTIONS, validate, _integer, path, is_covered=False)
    # Of too many options, none is looked at, and so none is the default.
    if len(options) > _MAXIMUM_OPTIONS or default not in options:
        detail = "default value is not valid according to the requestPolicy"
        errors.append(invalid(path, str(default), detail))
    return errors


def _integer(quantity: Quantity) -> str:
    return str(quantity.ceiling())


class _Range:
    """The range that requests may be in: ``validateRequestPolicyRange``."""

    def __init__(self, bounds: JSONObject, default: Quantity, maximum: Quantity, path: FieldPath) -> None:
        self._minimum, self._highest, self._step = (
            None if bounds.get(field) is None else Quantity.from_json(bounds[field])
            for field in ("min", "max", "step")
        )
        self._default, self._maximum, self._path = default, maximum, path

    def validate(self) -> list[FieldError]:
        if self._minimum is None:
            return [required(self._path / "min", "required when validRange is defined")]
        errors = list(self._order(self._minimum))
        return errors + self._steps(self._minimum)

    def _order(self, minimum: Quantity) -> Iterator[FieldError]:
        """What is out of order among the bounds, the default and the capacity."""
        highest, default, maximum = self._highest, self._default, self._maximum
        if minimum.compare(maximum) > 0:
            detail = f"min is larger than capacity value: {maximum}"
            yield invalid(self._path / "min", str(minimum), detail)
        if default.compare(minimum) < 0:
            yield invalid(self._path / "default", str(default), f"default is less than min: {minimum}")
        if highest is None:
            return
        if minimum.compare(highest) > 0:
            yield invalid(self._path / "max", str(minimum), f"min is larger than max: {highest}")
        if highest.compare(maximum) > 0:
            yield invalid(self._path / "max", str(highest), f"max is larger than capacity value: {maximum}")
        if default.compare(highest) > 0:
            yield invalid(self._path / "default", str(default), f"default is more than max: {highest}")

    def _steps(self, minimum: Quantity) -> list[FieldError]:
        step, path = self._step, self._path / "step"
        if step is None:
            return []
        if step.sign <= 0:
            return [invalid(path, str(step), "must be greater than zero")]
        errors, one = [], minimum + step
        if one.compare(self._maximum) > 0:
            detail = f"one step {one} is larger than capacity value: {self._maximum}"
            errors.append(invalid(path, str(step), detail))
        if unsafe := self._unsafe():
            return errors + unsafe
        for value in (self._default, self._highest):
            if value is not None and (value.ceiling() - minimum.ceiling()) % step.ceiling():
                detail = f"value is not a multiple of a given step ({step}) from ({minimum})"
                errors.append(invalid(path, str(value), detail))
        return errors

    def _unsafe(self) -> list[FieldError]:
        """What cannot be reckoned with as an int64: ``validateInt64Range``."""
        errors = []
        named = {"default": self._default, "min": self._minimum, "max": self._highest, "step": self._step}
        for name, quantity in named.items():
            if quantity is None:
                continue
            if quantity.sign < 0:
                detail = "must be greater than or equal to 0"
                errors.append(invalid(self._path / name, str(quantity), detail))
            elif quantity.compare(Quantity(_MAXIMUM_INT64)) > 0:
                detail = f"must not be larger than {_MAXIMUM_INT64}"
                errors.append(invalid(self._path / name, str(quantity), detail))
        return errors
