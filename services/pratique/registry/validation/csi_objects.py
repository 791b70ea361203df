"""CSIDrivers, CSINodes and CSIStorageCapacities.

Source: ``k8s.io/kubernetes/pkg/apis/storage/validation/validation.go``, and the strategies of ``pkg/registry/storage``.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.kind_validation import KindValidation
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_immutable,
    validate_label_selector,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.node_labels import label_selector_warnings

_METADATA = ROOT / "metadata"
_SPEC = ROOT / "spec"
_IMMUTABLE = "field is immutable"
_NOT_NEGATIVE = "must be greater than or equal to 0"


def validate_driver_name(name: str, path: FieldPath, *, is_covered: bool = False) -> list[FieldError]:
    """Validate the name of a CSI driver where an object refers to it: ``ValidateCSIDriverName`` of core.

    Args:
        name: The name.
        path: Where it stands.
        is_covered: Whether tags of the field's type check the same.
    """
    mark = covered if is_covered else _unmarked
    if not name:
        return mark([required(path)], "")
    errors = mark([too_long(path, 63)], "maxLength") if len(name.encode()) > 63 else []
    messages = names.check_dns1123_subdomain(name.lower())
    return errors + mark(
        [invalid(path, name, message) for message in messages], "format=k8s-long-name-caseless"
    )


def _unmarked(errors: list[FieldError], _origin: str) -> list[FieldError]:
    return errors


def _validate_driver(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateCSIDriver``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    return errors + _validate_driver_spec(written.get("spec", {}))


def _validate_driver_update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateCSIDriverUpdate``."""
    errors = validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    spec, old_spec = written.get("spec", {}), old.get("spec", {})
    errors += _validate_driver_spec(spec)
    # The path of the first one is misspelt in the API server.
    for field, name in (
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ):
        errors += validate_immutable(spec.get(field), old_spec.get(field), _SPEC / name)
    return errors


_REQUIRED_BEFORE = (
    ("attachRequired", "attachedRequired"),
    ("podInfoOnMount", "podInfoOnMount"),
    ("storageCapacity", "storageCapacity"),
)
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Persistent", "Ephemeral")
_SHORTEST_UPDATE_PERIOD = 10


def _validate_driver_spec(spec: JSONObject) -> list[FieldError]:
    errors = [required(_SPEC / name) for field, name in _REQUIRED_BEFORE if spec.get(field) is None]
    policy, requests = spec.get("fsGroupPolicy"), spec.get("tokenRequests", [])
    if policy is not None and policy not in _FS_GROUP_POLICIES:
        errors.append(not_supported(_SPEC / "fsGroupPolicy", policy, _FS_GROUP_POLICIES))
    errors += _validate_token_requests(requests, _SPEC / "tokenRequests")
    for mode in spec.get("volumeLifecycleModes", ()):
        if mode not in _LIFECYCLE_MODES:
            errors.append(not_supported(_SPEC / "volumeLifecycleModes", mode, _LIFECYCLE_MODES))
    if spec.get("seLinuxMount") is None:
        errors.append(required(_SPEC / "seLinuxMount"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _SHORTEST_UPDATE_PERIOD:
        path = _SPEC / "nodeAllocatableUpdatePeriodSeconds"
        errors.append(invalid(path, period, "must be greater than or equal to 10 seconds"))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not requests:
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid(_SPEC / "serviceAccountTokenInSecrets", in_secrets, detail))
    if spec.get("preventPodSchedulingIfMissing") is None:
        errors.append(required(_SPEC / "preventPodSchedulingIfMissing"))
    return errors


_SHORTEST_TOKEN, _LONGEST_TOKEN = 600, 1 << 32


def _validate_token_requests(requests: list[JSONObject], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        audience, seconds = request.get("audience", ""), request.get("expirationSeconds")
        if audience in audiences:
            errors.append(duplicate(path / index / "audience", audience))
            continue
        audiences.add(audience)
        place = path / index / "expirationSeconds"
        if seconds is not None and seconds < _SHORTEST_TOKEN:
            errors.append(invalid(place, seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > _LONGEST_TOKEN:
            errors.append(invalid(place, seconds, "may not specify a duration larger than 2^32 seconds"))
    return errors


_TOKENS_IN_SECRETS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def _driver_warnings(written: JSONObject, old: JSONObject | None, _review: Review) -> list[str]:
    """``WarningsOnCreate`` and ``WarningsOnUpdate`` of ``csidriver/strategy.go``."""
    spec = written.get("spec", {})
    requests = spec.get("tokenRequests")
    if not requests or spec.get("serviceAccountTokenInSecrets") is not None:
        return []
    is_kept = old is not None and old.get("spec", {}).get("tokenRequests") == requests
    return [] if is_kept else [_TOKENS_IN_SECRETS]


CSI_DRIVER_VALIDATION = KindValidation(_validate_driver, _validate_driver_update, _driver_warnings)
"""The validation of CSIDrivers."""


def _validate_node(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateCSINode``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    names_before: set[str] = set()
    for index, driver in enumerate(_drivers(written)):
        errors += _validate_node_driver(driver, names_before, _SPEC / "drivers" / index)
    return errors


def _drivers(written: JSONObject) -> list[JSONObject]:
    drivers: list[JSONObject] = written.get("spec", {}).get("drivers", [])
    return drivers


def _validate_node_driver(driver: JSONObject, before: set[str], path: FieldPath) -> list[FieldError]:
    name, node = driver.get("name", ""), driver.get("nodeID", "")
    errors = validate_driver_name(name, path / "name")
    if not node:
        errors.append(required(path / "nodeID"))
    if len(node.encode()) > 256:
        errors.append(invalid(path / "nodeID", node, "must be 256 characters or less"))
    count = driver.get("allocatable", {}).get("count")
    if count is not None and count < 0:
        errors.append(invalid(path / "allocatable" / "count", count, _NOT_NEGATIVE))
    if name in before:
        errors.append(duplicate(path / "name", name))
    before.add(name)
    seen: set[str] = set()
    for key in driver.get("topologyKeys", []):
        errors += [] if key else [required(path)]
        errors += [duplicate(path, key)] if key in seen else []
        seen.add(key)
        errors += [invalid(path, key, message) for message in names.check_qualified_name(key)]
    return errors


def _validate_node_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateCSINodeUpdate``: of a driver, only what is allocatable may change."""
    errors = _validate_node(written, review)
    for stored in _drivers(old):
        for driver in _drivers(written):
            if stored.get("name") == driver.get("name") and _fixed(stored) != _fixed(driver):
                shown = {field: value for field, value in driver.items() if field != "allocatable"}
                value = internal_value("*storage.CSINodeDriver", shown)
                errors.append(invalid(_SPEC / "drivers", value, _IMMUTABLE))
    return errors


def _fixed(driver: JSONObject) -> JSONObject:
    """A driver without what is allocatable."""
    return {field: value for field, value in driver.items() if field != "allocatable" and value != []}


CSI_NODE_VALIDATION = KindValidation(_validate_node, _validate_node_update)
"""The validation of CSINodes."""


def _validate_capacity(
    written: JSONObject, _review: Review, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """``ValidateCSIStorageCapacity``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=True)
    topology, path = written.get("nodeTopology"), ROOT / "nodeTopology"
    errors += validate_label_selector(topology, path, allow_invalid_values=allow_invalid_values)
    name = written.get("storageClassName", "")
    messages = names.check_dns1123_subdomain(name)
    errors += [invalid(ROOT / "storageClassName", name, message) for message in messages]
    capacity = written.get("capacity")
    if capacity is not None and (amount := Quantity.from_json(capacity)).sign < 0:
        errors.append(invalid(ROOT / "capacity", str(amount), _NOT_NEGATIVE))
    return errors


def _validate_capacity_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateUpdate`` of ``csistoragecapacity/strategy.go``."""
    is_lenient = bool(validate_label_selector(old.get("nodeTopology"), ROOT))
    errors = _validate_capacity(written, review, allow_invalid_values=is_lenient)
    errors += validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    topology, name = written.get("nodeTopology"), written.get("storageClassName", "")
    if differs("*meta.v1.LabelSelector", old.get("nodeTopology"), topology):
        value = internal_value("*meta.v1.LabelSelector", topology)
        errors.append(invalid(ROOT / "nodeTopology", value, _IMMUTABLE))
    return errors + validate_immutable(name, old.get("storageClassName", ""), ROOT / "storageClassName")


def _capacity_warnings(written: JSONObject, _old: JSONObject | None, _review: Review) -> list[str]:
    return label_selector_warnings(written.get("nodeTopology"), "nodeTopology")


CSI_STORAGE_CAPACITY_VALIDATION = KindValidation(
    _validate_capacity, _validate_capacity_update, _capacity_warnings
)
"""The validation of CSIStorageCapacities."""
