"""The status of most kinds, and other subresources of their own kind that have few checks.

Sources: ``ValidateUpdate`` of the strategies of subresources in ``pkg/registry/*/*/strategy.go`` of Kubernetes 1.37,
``k8s.io/apiextensions-apiserver`` and ``k8s.io/kube-aggregator``, and the ``Validate…StatusUpdate`` that they call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at
from pratique.apimachinery.quantities import Quantity, is_native_resource
from pratique.registry.go_values import internal_value
from pratique.registry.validation.addresses import ip_warnings, parse_ip, validate_legacy_ip
from pratique.registry.validation.conditions import STATUSES, has_condition, validate_conditions
from pratique.registry.validation.json_paths import JSONPathError, check_json_path
from pratique.registry.validation.kind_validation import SubresourceTable, SubresourceValidation
from pratique.registry.validation.limits_and_quotas import validate_quota_resource_name
from pratique.registry.validation.metadata import (
    validate_metadata_update,
    validate_nonnegative,
    validate_standard_finalizers,
)
from pratique.registry.validation.nodes import validate_node_update
from pratique.registry.validation.resource_amounts import go_int64, validate_amount

_METADATA, _SPEC, _STATUS = ROOT / "metadata", ROOT / "spec", ROOT / "status"
_CONDITIONS = _STATUS / "conditions"


def _status_of(written: JSONObject) -> JSONObject:
    return mapping_at(written, "status")


# Numbers of replicas


def _of_replicas(
    counts: Sequence[str], at_most_replicas: Sequence[str], ready: str
) -> Callable[[JSONObject, JSONObject, Review], list[FieldError]]:
    """Counts that are 0 or more, those of them that cannot exceed ``replicas``, and what the ready ones are called."""

    def validate(written: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
        status = _status_of(written)
        errors = _validate_counts(status, counts)
        replicas = status.get("replicas", 0)
        for name in at_most_replicas:
            if (count := status.get(name, 0)) > replicas:
                errors.append(invalid(_STATUS / name, count, "cannot be greater than status.replicas"))
        available = status.get("availableReplicas", 0)
        if available > status.get("readyReplicas", 0):
            detail = f"cannot be greater than {ready}"
            errors.append(invalid(_STATUS / "availableReplicas", available, detail))
        return errors + _validate_collisions(status, _status_of(old))

    return validate


def _validate_counts(status: JSONObject, counts: Iterable[str]) -> list[FieldError]:
    return [error for name in counts for error in validate_nonnegative(status.get(name), _STATUS / name)]


def _validate_collisions(status: JSONObject, old: JSONObject) -> list[FieldError]:
    """A count that only grows: ``IsDecremented``."""
    count, before = status.get("collisionCount"), old.get("collisionCount")
    if before is None or (count is not None and count >= before):
        return []
    return [invalid(_STATUS / "collisionCount", count or 0, "cannot be decremented")]


_DAEMON_COUNTS = (
    "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
    "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
)  # fmt: skip


def _daemon_set(written: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    status = _status_of(written)
    return _validate_counts(status, _DAEMON_COUNTS) + _validate_collisions(status, _status_of(old))


def _autoscaler(written: JSONObject, _old: JSONObject, _: Review) -> list[FieldError]:
    status = _status_of(written)
    errors = [
        error
        for index, condition in enumerate(list_at(status, "conditions"))
        for error in validate_nonnegative(
            condition.get("observedGeneration"), _CONDITIONS / index / "observedGeneration"
        )
    ]
    return errors + _validate_counts(status, ("currentReplicas", "desiredReplicas"))


_BUDGET_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _disruption_budget(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    status = _status_of(written)
    errors = _conditions(written, old, review)
    return errors if review.kind.version == "v1beta1" else errors + _validate_counts(status, _BUDGET_COUNTS)


# Namespaces


def _namespace(written: JSONObject, _old: JSONObject, _: Review) -> list[FieldError]:
    phase, is_deleted = (
        _status_of(written).get("phase", ""),
        bool(mapping_at(written, "metadata").get("deletionTimestamp")),
    )
    if phase == ("Terminating" if is_deleted else "Active"):
        return []
    detail = (
        "may only be 'Terminating' if `deletionTimestamp` is not empty"
        if is_deleted
        else "may only be 'Active' if `deletionTimestamp` is empty"
    )
    return [invalid(_STATUS / "Phase", phase, detail)]


def _finalized_namespace(written: JSONObject, _old: JSONObject, _: Review) -> list[FieldError]:
    errors: list[FieldError] = []
    path = _SPEC / "finalizers"
    finalizers = list_at(written, "spec", "finalizers")
    standard = {str(error.path): error for error in validate_standard_finalizers(finalizers, path)}
    for index, finalizer in enumerate(finalizers):
        place = path / index
        errors += [invalid(place, finalizer, message) for message in names.check_qualified_name(finalizer)]
        errors += [standard[str(place)]] if str(place) in standard else []
    return errors


# Addresses of load balancers


def _addresses(written: JSONObject) -> list[JSONObject]:
    return list_at(written, "status", "loadBalancer", "ingress")


_INGRESS = _STATUS / "loadBalancer" / "ingress"
_IP_MODES = ("Proxy", "VIP")


def _known(old: JSONObject) -> set[str]:
    return {address["ip"] for address in _addresses(old) if address.get("ip")}


def _service(written: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    addresses, known = _addresses(written), _known(old)
    if addresses and mapping_at(written, "spec").get("type") != "LoadBalancer":
        return [forbidden(_INGRESS, "may only be used when `spec.type` is 'LoadBalancer'")]
    errors = []
    for index, address in enumerate(addresses):
        path = _INGRESS / index
        ip, mode = address.get("ip"), address.get("ipMode")
        errors += validate_legacy_ip(ip, path / "ip", known) if ip else []
        if mode is None:
            errors += [required(path / "ipMode", "must be specified when `ip` is set")] if ip else []
        elif not ip:
            errors.append(forbidden(path / "ipMode", "may not be specified when `ip` is not set"))
        elif mode not in _IP_MODES:
            errors.append(not_supported(path / "ipMode", mode, _IP_MODES))
        errors += _validate_host_name(address.get("hostname"), path / "hostname")
    return errors


def _ingress(written: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    errors, known = [], _known(old)
    for index, address in enumerate(_addresses(written)):
        path = _INGRESS / index
        errors += validate_legacy_ip(address["ip"], path / "ip", known) if address.get("ip") else []
        errors += _validate_host_name(address.get("hostname"), path / "hostname")
    return errors


def _validate_host_name(name: str | None, path: FieldPath) -> list[FieldError]:
    if not name:
        return []
    errors = [invalid(path, name, message) for message in names.check_dns1123_subdomain(name)]
    if parse_ip(name) is not None:
        errors.append(invalid(path, name, "must be a DNS name, not an IP address"))
    return errors


def _address_warnings(written: JSONObject, _old: JSONObject, _: Review) -> Iterator[str]:
    for index, address in enumerate(_addresses(written)):
        if address.get("ip"):
            yield from ip_warnings(address["ip"], _INGRESS / index)


# Amounts


def _quota(written: JSONObject, _old: JSONObject, _: Review) -> list[FieldError]:
    errors = []
    for field in ("hard", "used"):
        for name, amount in sorted(mapping_at(written, "status", field).items()):
            path = (_STATUS / field).key(name)
            errors += validate_quota_resource_name(name, path) + validate_amount(name, amount, path)
    return errors


_RESIZES = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible",
    "NodeResizePending",
)  # fmt: skip


def _claim(written: JSONObject, _old: JSONObject, _: Review) -> list[FieldError]:
    status = _status_of(written)
    errors = []
    if not list_at(written, "spec", "accessModes"):
        errors.append(required(ROOT / "Spec" / "accessModes"))
    for name, amount in sorted(mapping_at(status, "capacity").items()):
        errors += _validate_claimed(amount, (_STATUS / "capacity").key(name))
    path = _STATUS / "allocatedResourceStatuses"
    for name, resize in sorted(mapping_at(status, "allocatedResourceStatuses").items()):
        errors += _validate_claimed_name(name, path)
        if resize not in _RESIZES:
            errors.append(not_supported(path, name, sorted(_RESIZES)))
    path = _STATUS / "allocatedResources"
    for name, amount in sorted(mapping_at(status, "allocatedResources").items()):
        errors += (
            _validate_claimed_name(name, path)
            or _validate_claimed(amount, path.key(name))
            or validate_amount("storage", amount, path.key(name))
        )
    return errors


def _validate_claimed(amount: str | int, path: FieldPath) -> list[FieldError]:
    value = go_int64(Quantity.from_json(amount))
    return [] if value >= 0 else [invalid(path, value, "must be a valid resource quantity")]


def _validate_claimed_name(name: str, path: FieldPath) -> list[FieldError]:
    """``validatePersistentVolumeClaimResourceKey``."""
    errors = [invalid(path, name, message) for message in names.check_qualified_name(name)]
    if not errors and name != "storage" and is_native_resource(name):
        errors.append(not_supported(path, name, ("storage",)))
    return errors


# Conditions


_MOST_OF_TAINT_RULES = 8


def _conditions(written: JSONObject, _old: JSONObject, _: Review) -> list[FieldError]:
    return validate_conditions(list_at(written, "status", "conditions"), _CONDITIONS)


def _taint_rule(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    errors, count = _conditions(written, old, review), len(list_at(written, "status", "conditions"))
    if count > _MOST_OF_TAINT_RULES:
        errors.append(too_many(_CONDITIONS, count, _MOST_OF_TAINT_RULES))
    return errors


def _flow_control(written: JSONObject, _old: JSONObject, _: Review) -> list[FieldError]:
    errors: list[FieldError] = []
    types: set[str] = set()
    for index, condition in enumerate(list_at(written, "status", "conditions")):
        type_, path = condition.get("type", ""), _CONDITIONS / index / "type"
        errors += [duplicate(path, type_)] if type_ in types else []
        errors += [] if type_ else [required(path)]
        types.add(type_)
    return errors


def _policy(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    path = _STATUS / "typeChecking" / "expressionWarnings"
    errors = []
    for index, warning in enumerate(list_at(written, "status", "typeChecking", "expressionWarnings")):
        errors += [] if warning.get("warning") else [required(path / index / "warning")]
        errors += _validate_field_reference(warning.get("fieldRef", "").strip(), path / index / "fieldRef")
    return errors + _conditions(written, old, review)


def _validate_field_reference(reference: str, path: FieldPath) -> list[FieldError]:
    """``validateFieldRef``."""
    if not reference:
        return [required(path)]
    try:
        check_json_path(f"{{{reference}}}")
    except JSONPathError as error:
        return [invalid(path, reference, f"invalid JSONPath: {error}")]
    return []


def _migration(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    errors = _conditions(written, old, review)
    version, stored = (_status_of(migration).get("resourceVersion", "") for migration in (written, old))
    if stored and version != stored:
        errors.append(invalid(_STATUS / "resourceVersion", version, "field is immutable"))
    conditions, before = (list_at(migration, "status", "conditions") for migration in (written, old))
    problems = []
    if has_condition(conditions, "Succeeded") and has_condition(conditions, "Failed"):
        problems.append("Both success and failed conditions cannot be true at the same time")
    for type_, name in (("Succeeded", "Success"), ("Failed", "Failed")):
        if has_condition(before, type_) and not has_condition(conditions, type_):
            problems.append(f"{name} condition cannot be set to false once it is true")
    value = internal_value("[]v1.Condition", conditions)
    return errors + [invalid(_CONDITIONS, value, problem) for problem in problems]


def _api_service(written: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    errors = _validate_metadata(written, old)
    for index, condition in enumerate(list_at(written, "status", "conditions")):
        status = condition.get("status", "")
        if status not in STATUSES:
            allowed = ("True", "False", "Unknown")
            errors.append(not_supported(_CONDITIONS / index / "status", status, allowed))
    return errors


def _definition(written: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    from pratique.registry.custom_resources.definition_specs import validate_names  # noqa: PLC0415 - needs CEL

    accepted = mapping_at(written, "status", "acceptedNames")
    return [*_validate_metadata(written, old), *validate_names(accepted, _STATUS / "acceptedNames")]


def _validate_metadata(written: JSONObject, old: JSONObject) -> list[FieldError]:
    return validate_metadata_update(mapping_at(written, "metadata"), mapping_at(old, "metadata"), _METADATA)


_OF_ALL_REPLICAS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
)
_OF_LABELED = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
_deployment = _of_replicas(
    (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    ),
    ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "readyReplicas",
)  # fmt: skip
_replica_set = _of_replicas((*_OF_ALL_REPLICAS, "terminatingReplicas"), _OF_LABELED, "readyReplicas")
_replication_controller = _of_replicas(_OF_ALL_REPLICAS, _OF_LABELED, "readyReplicas")
_stateful_set = _of_replicas(
    (
        "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
        "observedGeneration", "collisionCount",
    ),
    ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    "status.readyReplicas",
)  # fmt: skip

_ADMISSION, _FLOW_CONTROL = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
SUBRESOURCE_VALIDATIONS: SubresourceTable = {
    ("", "namespaces", "finalize"): SubresourceValidation(_finalized_namespace),
    ("", "namespaces", "status"): SubresourceValidation(_namespace),
    ("", "nodes", "status"): SubresourceValidation(validate_node_update),
    ("", "persistentvolumeclaims", "status"): SubresourceValidation(_claim),
    ("", "replicationcontrollers", "status"): SubresourceValidation(_replication_controller),
    ("", "resourcequotas", "status"): SubresourceValidation(_quota),
    ("", "services", "status"): SubresourceValidation(_service, _address_warnings),
    (_ADMISSION, "validatingadmissionpolicies", "status"): SubresourceValidation(_policy),
    ("apiextensions.k8s.io", "customresourcedefinitions", "status"): SubresourceValidation(_definition),
    ("apiregistration.k8s.io", "apiservices", "status"): SubresourceValidation(_api_service),
    ("apps", "daemonsets", "status"): SubresourceValidation(_daemon_set),
    ("apps", "deployments", "status"): SubresourceValidation(_deployment),
    ("apps", "replicasets", "status"): SubresourceValidation(_replica_set),
    ("apps", "statefulsets", "status"): SubresourceValidation(_stateful_set),
    ("autoscaling", "horizontalpodautoscalers", "status"): SubresourceValidation(_autoscaler),
    (_FLOW_CONTROL, "flowschemas", "status"): SubresourceValidation(_flow_control),
    (_FLOW_CONTROL, "prioritylevelconfigurations", "status"): SubresourceValidation(_flow_control),
    ("networking.k8s.io", "ingresses", "status"): SubresourceValidation(_ingress, _address_warnings),
    ("policy", "poddisruptionbudgets", "status"): SubresourceValidation(_disruption_budget),
    ("resource.k8s.io", "devicetaintrules", "status"): SubresourceValidation(_taint_rule),
    ("scheduling.k8s.io", "podgroups", "status"): SubresourceValidation(_conditions),
    ("storagemigration.k8s.io", "storageversionmigrations", "status"): SubresourceValidation(_migration),
}
"""What updates of the status of kinds are validated with."""
