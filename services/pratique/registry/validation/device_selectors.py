"""What device classes and claims say of devices: CEL selectors, and opaque configurations of drivers.

Sources: ``k8s.io/kubernetes/pkg/apis/resource/validation/validation.go`` and
``k8s.io/dynamic-resource-allocation/cel/compile.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    covered,
    forbidden,
    internal,
    invalid,
    required,
    too_long,
    too_many,
)
from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.registry.validation.csi_objects import validate_driver_name

if TYPE_CHECKING:
    from pratique.cel.syntax_trees import SyntaxTree

_MAXIMUM = 32
"""``DeviceSelectorsMaxSize`` and ``DeviceConfigMaxSize``."""
_LONGEST_EXPRESSION = 10 * 1024
_DEAREST_EXPRESSION = 1_000_000
"""``CELSelectorExpressionMaxCost``."""
_MOST_ATTRIBUTES = 32
_LARGEST_PARAMETERS = 10 * 1024
_HIDDEN = "<value omitted>"

ItemValidation: TypeAlias = Callable[[JSONObject, FieldPath], list[FieldError]]
"""Validates an item of a list."""


def validate_bounded(
    items: Sequence[JSONObject], maximum: int, validate: ItemValidation, path: FieldPath
) -> list[FieldError]:
    """Validate a list, none of which if it has too many items: ``validateSlice`` with ``sizeCovered``."""
    if len(items) > maximum:
        return covered(too_many(path, len(items), maximum), "maxItems")
    return [error for index, item in enumerate(items) for error in validate(item, path / index)]


def validate_selectors(
    selectors: Sequence[JSONObject], path: FieldPath, *, is_stored: bool = False
) -> list[FieldError]:
    """Validate selectors; the expressions of stored ones are not compiled again: ``validateSelectorSlice``."""

    def validate(selector: JSONObject, place: FieldPath) -> list[FieldError]:
        cel = selector.get("cel")
        if cel is None:
            return [required(place / "cel")]
        expression = cel.get("expression", "")
        return [] if is_stored else _validate_expression(expression, place / "cel" / "expression")

    return validate_bounded(selectors, _MAXIMUM, validate, path)


def _validate_expression(expression: str, path: FieldPath) -> list[FieldError]:
    """``validateCELExpression``."""
    if len(expression.encode()) > _LONGEST_EXPRESSION:
        return [too_long(path, _LONGEST_EXPRESSION)]
    # Here, because CEL takes a tenth of a second to import, and most chains see no devices.
    from pratique.cel.environments import Environment  # noqa: PLC0415
    from pratique.cel.errors import CompilationError  # noqa: PLC0415
    from pratique.cel.expressions import checked_tree, compile_expression  # noqa: PLC0415

    variables = (("device", "kubernetes.DRADevice"),)
    environment = Environment(is_rule=True, has_bind=True, variables=variables)
    try:
        kind = compile_expression(expression, environment).result_type
    except CompilationError as error:
        problem = str(error)
        is_internal = problem.startswith("program instantiation failed: ")
        return [internal(path, problem) if is_internal else invalid(path, expression, problem)]
    if kind not in {"bool", "dyn", "any"}:
        return [invalid(path, expression, f"must evaluate to bool or the unknown type, not {kind}")]
    if _cost(checked_tree(expression, environment)) > _DEAREST_EXPRESSION:
        return [forbidden(path, "too complex, exceeds cost limit")]
    return []


def _cost(tree: SyntaxTree) -> int:
    """What a selector costs at most, by the limits of devices."""
    from pratique.cel.call_estimates import DeclaredSize  # noqa: PLC0415
    from pratique.cel.cost_estimates import estimate_cost  # noqa: PLC0415

    name, domain = DeclaredSize("string", 2, 32), DeclaredSize("string", 2, 63)
    attribute, amount = DeclaredSize("any", 1, 64), DeclaredSize("kubernetes.Quantity", 8)

    def maps(value: DeclaredSize, member: DeclaredSize) -> DeclaredSize:
        inner = f"map(string, {value.type})"
        values = DeclaredSize(inner, 2, _MOST_ATTRIBUTES, key=name, element=value, member=member)
        return DeclaredSize(f"map(string, {inner})", 2, _MOST_ATTRIBUTES, key=domain, element=values)

    fields = {
        "driver": domain,
        "allowMultipleAllocations": DeclaredSize("bool", 4, 1),
        "attributes": maps(attribute, attribute),
        "capacity": maps(amount, msgspec.structs.replace(amount, elements=None)),
    }
    return estimate_cost(tree, DeclaredSize("kubernetes.DRADevice", 2, fields=fields))


def validate_configurations(
    configurations: Sequence[JSONObject], path: FieldPath, *, is_stored: bool = False
) -> list[FieldError]:
    """Validate configurations of devices: ``validateDeviceClassConfiguration``."""

    def validate(configuration: JSONObject, place: FieldPath) -> list[FieldError]:
        return validate_configuration(configuration, place, is_stored=is_stored)

    return validate_bounded(configurations, _MAXIMUM, validate, path)


def validate_configuration(
    configuration: JSONObject, path: FieldPath, *, is_stored: bool
) -> list[FieldError]:
    """Validate the configuration of a device: ``validateDeviceConfiguration``."""
    opaque = configuration.get("opaque")
    if opaque is None:
        return [required(path / "opaque")]
    place = path / "opaque"
    errors = validate_driver_name(opaque.get("driver", ""), place / "driver", is_covered=True)
    parameters = opaque.get("parameters")
    return errors + validate_parameters(parameters, place / "parameters", is_stored=is_stored)


def validate_parameters(parameters: JSON, path: FieldPath, *, is_stored: bool) -> list[FieldError]:
    """Validate an object of a driver, which means nothing to Kubernetes: ``validateRawExtension``."""
    if parameters is None:
        return [required(path)]
    if not is_stored and len(encode(parameters)) > _LARGEST_PARAMETERS:
        return [too_long(path, _LARGEST_PARAMETERS)]
    if not isinstance(parameters, dict):
        return [invalid(path, _HIDDEN, "must be a valid JSON object")]
    return []
