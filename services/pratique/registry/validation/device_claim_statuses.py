"""The status of ResourceClaims: what is allocated, for whom it is reserved, and what drivers tell of their devices.

Sources: ``ValidateResourceClaimStatusUpdate`` of ``k8s.io/kubernetes/pkg/apis/resource/validation/validation.go``, and
``AuthorizedForAdminStatus`` of ``pkg/registry/resource/utils.go``. Whether the user may allocate devices and tell of
them is not asked.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
)
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.addresses import validate_interface_address
from pratique.registry.validation.conditions import validate_conditions
from pratique.registry.validation.csi_objects import validate_driver_name
from pratique.registry.validation.device_claims import (
    request_names,
    validate_admin_access,
    validate_configuration_of_requests,
    validate_request_reference,
)
from pratique.registry.validation.device_names import (
    validate_distinct,
    validate_label_name,
    validate_pool_name,
    validate_toleration,
)
from pratique.registry.validation.device_selectors import validate_bounded, validate_parameters
from pratique.registry.validation.kind_validation import SubresourceTable, SubresourceValidation
from pratique.registry.validation.resource_slices import validate_binding_conditions
from pratique.registry.validation.scheduling_constraints import validate_node_selector

_STATUS = ROOT / "status"
_RESERVED, _DEVICES, _ALLOCATION = (_STATUS / name for name in ("reservedFor", "devices", "allocation"))
_RESULTS = _ALLOCATION / "devices" / "results"
_MOST_CONSUMERS, _MOST_RESULTS, _MOST_CONFIGURATIONS, _MOST_CONDITIONS, _MOST_ADDRESSES = 256, 32, 64, 8, 16
_LONGEST_INTERFACE, _LONGEST_ADDRESS = 256, 128
_TYPE = "*resource.AllocationResult"


def _validate_status(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateUpdate`` of ``resourceclaim/strategy.go``, for its status."""
    status, before = mapping_at(written, "status"), mapping_at(old, "status")
    results = _results(status)
    errors = [] if _is_for_administrators(_results(before)) else _validate_admin_access(results, review)
    consumers = list_at(status, "reservedFor")
    errors += validate_distinct(
        consumers, _MOST_CONSUMERS, _validate_consumer, lambda consumer: consumer.get("uid", ""), _RESERVED
    )
    allocated = {_device(result) for result in results}
    errors += validate_distinct(
        list_at(status, "devices"),
        None,
        lambda device, path: _validate_device(device, path, is_allocated=_device(device) in allocated),
        _device,
        _DEVICES,
    )
    errors += _validate_reservations(written, consumers, list_at(before, "reservedFor"))
    return errors + _validate_allocation(status.get("allocation"), before.get("allocation"), old)


def _results(status: JSONObject) -> list[JSONObject]:
    return list_at(status, "allocation", "devices", "results")


def _device(result: JSONObject) -> tuple[str, ...]:
    """What identifies a device, or a share of one: ``SharedDeviceID``."""
    return tuple(result.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _is_for_administrators(results: list[JSONObject]) -> bool:
    return any(result.get("adminAccess") is True for result in results)


def _validate_admin_access(results: list[JSONObject], review: Review) -> list[FieldError]:
    wanted = [index for index, result in enumerate(results) if result.get("adminAccess") is True]
    return validate_admin_access(_RESULTS / wanted[0] / "adminAccess", review) if wanted else []


def _validate_consumer(consumer: JSONObject, path: FieldPath) -> list[FieldError]:
    return [required(path / name) for name in ("resource", "name", "uid") if not consumer.get(name)]


def _validate_reservations(
    written: JSONObject, consumers: list[JSONObject], before: list[JSONObject]
) -> list[FieldError]:
    if not consumers:
        return []
    if mapping_at(written, "status").get("allocation") is None:
        return [forbidden(_RESERVED, "may not be specified when `allocated` is not set")]
    is_deleted = bool(mapping_at(written, "metadata").get("deletionTimestamp"))
    if is_deleted and any(consumer not in before for consumer in consumers):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [forbidden(_RESERVED, detail)]
    return []


# Allocations


def _validate_allocation(
    allocation: JSONObject | None, before: JSONObject | None, claim: JSONObject
) -> list[FieldError]:
    """Validate what is allocated, which never changes until it is given back: ``validateAllocationResult``."""
    if allocation is None:
        return []
    if before is not None:
        if not differs(_TYPE, before, allocation):
            return []
        return covered(
            invalid(_ALLOCATION, internal_value(_TYPE, allocation), "field is immutable"), "update"
        )
    known = request_names(list_at(claim, "spec", "devices", "requests"))
    errors = validate_bounded(
        _results({"allocation": allocation}),
        _MOST_RESULTS,
        lambda result, path: _validate_result(result, path, known),
        _RESULTS,
    )
    errors += validate_bounded(
        list_at(allocation, "devices", "config"),
        _MOST_CONFIGURATIONS,
        lambda configuration, path: validate_configuration_of_requests(configuration, path, known),
        _ALLOCATION / "devices" / "config",
    )
    selector = allocation.get("nodeSelector")
    return errors + (
        [] if selector is None else validate_node_selector(selector, _ALLOCATION / "nodeSelector")
    )


def _validate_result(result: JSONObject, path: FieldPath, known: frozenset[str]) -> list[FieldError]:
    """``validateDeviceRequestAllocationResult``."""
    errors = validate_request_reference(result.get("request", ""), path / "request", known)
    errors += validate_driver_name(result.get("driver", ""), path / "driver", is_covered=True)
    errors += covered(validate_pool_name(result.get("pool", ""), path / "pool"))
    errors += validate_label_name(result.get("device", ""), path / "device")
    errors += validate_binding_conditions(result, path)
    for index, toleration in enumerate(list_at(result, "tolerations")):
        errors += validate_toleration(toleration, path / "tolerations" / index)
    return errors


# What drivers tell


def _validate_device(device: JSONObject, path: FieldPath, *, is_allocated: bool) -> list[FieldError]:
    """``validateDeviceStatus``."""
    errors = validate_driver_name(device.get("driver", ""), path / "driver")
    errors += validate_pool_name(device.get("pool", ""), path / "pool")
    errors += validate_label_name(device.get("device", ""), path / "device")
    if not is_allocated:
        shown = dict(zip(("Driver", "Pool", "Device", "ShareID"), _device(device), strict=True))
        errors.append(invalid(path, shown, "must be an allocated device in the claim"))
    conditions = list_at(device, "conditions")
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many(path / "conditions", len(conditions), _MOST_CONDITIONS))
    errors += validate_conditions(conditions, path / "conditions")
    if "data" in device:
        errors += validate_parameters(device["data"], path / "data", is_stored=False)
    network = device.get("networkData")
    return errors + ([] if network is None else _validate_network(network, path / "networkData"))


def _validate_network(network: JSONObject, path: FieldPath) -> list[FieldError]:
    """``validateNetworkDeviceData``."""
    errors: list[FieldError] = []
    for name, longest in (("interfaceName", _LONGEST_INTERFACE), ("hardwareAddress", _LONGEST_ADDRESS)):
        if len(network.get(name, "").encode()) > longest:
            errors += covered(too_long(path / name, longest), "maxBytes")
    return errors + validate_distinct(
        list_at(network, "ips"), _MOST_ADDRESSES, validate_interface_address, str, path / "ips"
    )


SUBRESOURCE_VALIDATIONS: SubresourceTable = {
    ("resource.k8s.io", "resourceclaims", "status"): SubresourceValidation(_validate_status),
}
"""What updates of the status are validated with."""
