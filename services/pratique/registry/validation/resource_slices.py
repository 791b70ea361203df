"""ResourceSlices.

Source: ``k8s.io/kubernetes/pkg/apis/resource/validation/validation.go``. What belongs to features that are off is
dropped before; terms of node selectors are not validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.go_values import internal_value
from pratique.registry.validation.csi_objects import validate_driver_name
from pratique.registry.validation.device_capacities import (
    validate_exclusive_capacity,
    validate_shared_capacity,
)
from pratique.registry.validation.device_names import (
    validate_attribute_name,
    validate_distinct,
    validate_label_name,
    validate_pool_name,
    validate_taint,
)
from pratique.registry.validation.kind_validation import KindValidation
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_immutable,
    validate_immutable_pointer,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.scheduling_constraints import validate_node_selector

_METADATA = ROOT / "metadata"
_SPEC = ROOT / "spec"


def _validate_slice(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateResourceSlice``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    return errors + _validate_spec(written.get("spec", {}), None)


def _validate_slice_update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateResourceSliceUpdate``."""
    errors = validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    return errors + _validate_spec(written.get("spec", {}), old.get("spec", {}))


_MAXIMUM_DEVICES, _MAXIMUM_ADVANCED_DEVICES = 128, 64
_MAXIMUM_COUNTER_SETS, _MAXIMUM_COUNTERS = 8, 32


def _validate_spec(spec: JSONObject, old: JSONObject | None) -> list[FieldError]:
    driver, pool = spec.get("driver", ""), spec.get("pool", {})
    errors = validate_driver_name(driver, _SPEC / "driver")
    errors += _validate_pool(pool, _SPEC / "pool")
    if old is not None:
        stored = old.get("pool", {}).get("name", "")
        errors += validate_immutable(pool.get("name", ""), stored, _SPEC / "pool" / "name")
        errors += validate_immutable(driver, old.get("driver", ""), _SPEC / "driver")
        errors += validate_immutable_pointer(spec.get("nodeName"), old.get("nodeName"), _SPEC / "nodeName")
    errors += _validate_nodes(spec, _SPEC)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed"))
    return errors + _validate_devices(spec, old) + _validate_counter_sets(spec)


def _validate_pool(pool: JSONObject, path: FieldPath) -> list[FieldError]:
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    errors = validate_pool_name(pool.get("name", ""), path / "name")
    if count <= 0:
        errors.append(invalid(path / "resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        errors.append(invalid(path / "generation", generation, "must be greater than or equal to zero"))
    return errors


_ONE_SELECTION = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


def _validate_nodes(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate how a slice names its nodes."""
    errors, chosen = _validate_selection(spec, path, "must be either unset or set to a non-empty string")
    selector = spec.get("nodeSelector")
    terms = None if selector is None else selector.get("nodeSelectorTerms")
    if selector is not None and len(terms or ()) != 1:
        value = internal_value("[]core.NodeSelectorTerm", terms)
        place = path / "nodeSelector" / "nodeSelectorTerms"
        errors.insert(
            _selector_place(errors), invalid(place, value, "must have exactly one node selector term")
        )
    per_device = spec.get("perDeviceNodeSelection")
    if per_device:
        chosen.append("`perDeviceNodeSelection`")
    elif per_device is not None:
        detail = "must be either unset or set to true"
        errors.append(invalid(path / "perDeviceNodeSelection", per_device, detail))
    if not chosen:
        errors.append(required(path, _ONE_SELECTION))
    if len(chosen) > 1:
        detail = f"{_ONE_SELECTION}, but multiple fields are set"
        errors.append(invalid(path, f"{{{', '.join(chosen)}}}", detail))
    return errors


def _selector_place(errors: list[FieldError]) -> int:
    """Where the errors of a selector end: before those of all nodes."""
    return sum(error.path.steps[-1] != "allNodes" for error in errors)


def _validate_selection(
    selecting: JSONObject, path: FieldPath, empty: str
) -> tuple[list[FieldError], list[str]]:
    """Validate the fields of slices and devices that select nodes; the second result names those that are set."""
    name, everywhere = selecting.get("nodeName"), selecting.get("allNodes")
    errors: list[FieldError] = []
    chosen = []
    if name:
        chosen.append("`nodeName`")
        messages = names.check_dns1123_subdomain(name)
        errors += [invalid(path / "nodeName", name, message) for message in messages]
    elif name is not None:
        errors.append(invalid(path / "nodeName", name, empty))
    if (selector := selecting.get("nodeSelector")) is not None:
        chosen.append("`nodeSelector`")
        errors += validate_node_selector(selector, path / "nodeSelector")
    if everywhere:
        chosen.append("`allNodes`")
    elif everywhere is not None:
        errors.append(invalid(path / "allNodes", everywhere, "must be either unset or set to true"))
    return errors, chosen


_LIST_ATTRIBUTES = ("bools", "ints", "strings", "versions")


def _validate_devices(spec: JSONObject, old: JSONObject | None) -> list[FieldError]:
    devices = spec.get("devices", [])
    stored = {device.get("name"): device for device in (old or {}).get("devices", ())}
    per_device = bool(spec.get("perDeviceNodeSelection"))
    is_advanced = any(
        device.get("taints")
        or device.get("consumesCounters")
        or any(
            field in value for value in device.get("attributes", {}).values() for field in _LIST_ATTRIBUTES
        )
        for device in devices
    )
    return validate_distinct(
        devices,
        _MAXIMUM_ADVANCED_DEVICES if is_advanced else _MAXIMUM_DEVICES,
        lambda device, path: _validate_device(device, stored.get(device.get("name")), path, per_device),
        _name,
        _SPEC / "devices",
        is_covered=False,
    )


def _name(item: JSONObject) -> str:
    name: str = item.get("name", "")
    return name


_MAXIMUM_PROPERTIES, _MAXIMUM_VALUES, _MAXIMUM_TAINTS = 32, 48, 16
_MAXIMUM_CONSUMPTIONS = 2


def _validate_device(
    device: JSONObject,
    old: JSONObject | None,
    path: FieldPath,
    per_device: bool,  # noqa: FBT001 - of a lambda
) -> list[FieldError]:
    """``validateDevice``."""
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    errors = validate_label_name(_name(device), path / "name")
    for count, maximum, what in (
        (len(attributes) + len(capacity), _MAXIMUM_PROPERTIES, "attributes and capacities"),
        (sum(map(_count_values, attributes.values())), _MAXIMUM_VALUES, "attribute values"),
    ):
        if count > maximum:
            errors.append(invalid(path, count, f"the total number of {what} must not exceed {maximum}"))
    errors += _validate_map(attributes, validate_attribute_name, _validate_attribute, path / "attributes")
    if old is None or old.get("capacity", {}) != capacity:
        is_shared = bool(device.get("allowMultipleAllocations"))
        validate = validate_shared_capacity if is_shared else validate_exclusive_capacity
        errors += _validate_map(capacity, validate_attribute_name, validate, path / "capacity")
    taints = device.get("taints", [])
    if old is None or old.get("taints", []) != taints:
        errors += _validate_taints(taints, path / "taints")
    errors += validate_distinct(
        device.get("consumesCounters", []), _MAXIMUM_CONSUMPTIONS, _validate_consumption,
        lambda consumption: consumption.get("counterSet", ""), path / "consumesCounters",
    )  # fmt: skip
    return (
        errors
        + _validate_device_nodes(device, path, per_device=per_device)
        + validate_binding_conditions(device, path)
    )


def _validate_taints(taints: list[JSONObject], path: FieldPath) -> list[FieldError]:
    if len(taints) > _MAXIMUM_TAINTS:
        return [too_many(path, len(taints), _MAXIMUM_TAINTS)]
    return [
        error for index, taint in enumerate(taints) for error in validate_taint(taint, None, path / index)
    ]


def _count_values(attribute: JSONObject) -> int:
    return sum(len(attribute.get(field, ())) for field in _LIST_ATTRIBUTES) or 1


_LONGEST_KEY = 63 + 1 + 32


def _validate_map(
    values: Mapping[str, JSONObject],
    validate_key: Callable[[str, FieldPath], list[FieldError]],
    validate: Callable[[JSONObject, FieldPath], list[FieldError]],
    path: FieldPath,
) -> list[FieldError]:
    """Validate keys and values: ``validateMap``."""
    errors = []
    for key in sorted(values):
        errors += validate_key(key, path)
        errors += validate(values[key], path.key(_shortened(key)))
    return errors


def _shortened(key: str) -> str:
    """A key without its middle if it is too long: ``truncateIfTooLong``."""
    if len(key) <= _LONGEST_KEY:
        return key
    rest = _LONGEST_KEY - len("...")
    return f"{key[: (rest + 1) // 2]}...{key[len(key) - rest // 2 :]}"


_VALUE_FIELDS = ("bool", "int", "string", "version", *_LIST_ATTRIBUTES)
_LONGEST_VALUE = 64
_IDENTIFIER = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMANTIC_VERSION = pattern(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(-{_IDENTIFIER}(\.{_IDENTIFIER})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_ONE_VALUE = "exactly one value must be specified"


def _validate_attribute(attribute: JSONObject, path: FieldPath) -> list[FieldError]:
    """``validateDeviceAttribute``."""
    given = [field for field in _VALUE_FIELDS if attribute.get(field) is not None]
    errors: list[FieldError] = []
    for field in given:
        errors += _validate_value(field, attribute[field], path / field)
    if not given:
        errors += covered(invalid(path, "", _ONE_VALUE), "union")
    if len(given) > 1:
        value = internal_value("resource.DeviceAttribute", attribute)
        errors += covered(invalid(path, value, _ONE_VALUE), "union")
    return errors


def _validate_value(field: str, value: JSON, path: FieldPath) -> list[FieldError]:
    if field in _LIST_ATTRIBUTES:
        errors = [] if value else [invalid(path, [], "must not be empty if specified")]
        for index, item in enumerate(value):
            found = _validate_text(field.removesuffix("s"), item, path / index)
            errors += covered(found, "maxBytes") if field == "strings" else found
        return errors
    return _validate_text(field, value, path)


def _validate_text(field: str, value: JSON, path: FieldPath) -> list[FieldError]:
    if field not in {"string", "version"}:
        return []
    errors = []
    if field == "version" and not _SEMANTIC_VERSION.fullmatch(value):
        errors.append(invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"))
    return errors + ([too_long(path, _LONGEST_VALUE)] if len(value.encode()) > _LONGEST_VALUE else [])


def _validate_consumption(consumption: JSONObject, path: FieldPath) -> list[FieldError]:
    """``validateDeviceCounterConsumption``."""
    errors = _validate_counter_name(consumption.get("counterSet", ""), path / "counterSet")
    return errors + _validate_counters(consumption.get("counters", {}), path / "counters")


def _validate_counter_name(name: str, path: FieldPath) -> list[FieldError]:
    return covered(validate_label_name(name, path) if name else required(path))


def _validate_counters(counters: Mapping[str, JSON], path: FieldPath) -> list[FieldError]:
    if not counters:
        return covered(required(path))
    if len(counters) > _MAXIMUM_COUNTERS:
        return [too_many(path, len(counters), _MAXIMUM_COUNTERS)]
    return [error for name in sorted(counters) for error in covered(validate_label_name(name, path))]


def _validate_counter_sets(spec: JSONObject) -> list[FieldError]:
    def validate(counters: JSONObject, path: FieldPath) -> list[FieldError]:
        errors = _validate_counter_name(_name(counters), path / "name")
        return errors + _validate_counters(counters.get("counters", {}), path / "counters")

    sets, path = spec.get("sharedCounters", []), _SPEC / "sharedCounters"
    return validate_distinct(sets, _MAXIMUM_COUNTER_SETS, validate, _name, path)


_ONE_OF_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NOT_PER_DEVICE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def _validate_device_nodes(device: JSONObject, path: FieldPath, *, per_device: bool) -> list[FieldError]:
    if not per_device:
        fields = ("nodeName", "nodeSelector", "allNodes")
        is_selecting = any(device.get(field) is not None for field in fields)
        return [invalid(path, None, _NOT_PER_DEVICE)] if is_selecting else []
    errors, chosen = _validate_selection(device, path, "must not be empty")
    if not chosen:
        errors.append(required(path, _ONE_OF_DEVICE))
    if len(chosen) > 1:
        errors.append(invalid(path, f"{{{', '.join(chosen)}}}", _ONE_OF_DEVICE))
    return errors


_CONDITIONS, _FAILURES = "bindingConditions", "bindingFailureConditions"
_MAXIMUM_CONDITIONS = 4


def validate_binding_conditions(device: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the conditions that binding waits for, or fails by: ``validateDeviceBindingParameters``."""
    lists = {field: device.get(field, []) for field in (_CONDITIONS, _FAILURES)}
    errors: list[FieldError] = []
    for field, conditions in lists.items():
        if len(conditions) > _MAXIMUM_CONDITIONS:
            errors += covered(too_many(path / field, len(conditions), _MAXIMUM_CONDITIONS), "maxItems")
            continue
        for index, name in enumerate(conditions):
            messages = names.check_qualified_name(name)
            errors += [invalid(path / field / index, name, message) for message in messages]
    binding = set(lists[_CONDITIONS])
    for field, conditions in lists.items():
        known: set[str] = set()
        for index, name in enumerate(conditions):
            if name in known:
                errors.append(duplicate(path / field / index, name))
            known.add(name)
            if field == _FAILURES and name in binding:
                detail = f"{_FAILURES} must not overlap with {_CONDITIONS}"
                errors.append(invalid(path / field / index, name, detail))
    for field, other in ((_CONDITIONS, _FAILURES), (_FAILURES, _CONDITIONS)):
        if not lists[field] and lists[other]:
            errors.append(invalid(path / field, device.get(field), f"{field} are required to use {other}"))
    return errors


def _slice_warnings(written: JSONObject, _old: JSONObject | None, _review: Review) -> list[str]:
    """``WarningsOnCreate`` and ``WarningsOnUpdate`` of ``resourceslice/strategy.go``."""
    driver: str = written.get("spec", {}).get("driver", "")
    if driver == driver.lower():
        return []
    what = f"driver names should be lowercase; {go_quoted(driver)} contains uppercase characters"
    return [f"spec.driver: {what}"]


SLICE_VALIDATION = KindValidation(_validate_slice, _validate_slice_update, _slice_warnings)
"""The validation of ResourceSlices."""
