"""The specs of Pods and Pod templates.

Source: ``ValidatePodSpec`` and ``ValidatePodTemplateSpec`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.selectors import validate_labels
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.validation.containers import validate_containers, validate_init_containers
from pratique.registry.validation.metadata import subdomain_name, validate_annotations
from pratique.registry.validation.scheduling_constraints import (
    validate_affinity,
    validate_spread_constraints,
    validate_tolerations,
)
from pratique.registry.validation.security_contexts import validate_pod_security_context
from pratique.registry.validation.volumes import validate_volumes

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_DEADLINE = 2**31 - 1
_NAMES = ("serviceAccountName", "nodeName", "hostname", "subdomain")


def validate_pod_template(
    template: JSONObject, path: FieldPath, review: Review, old: JSONObject | None = None
) -> list[FieldError]:
    """Validate a Pod template with its metadata: ``ValidatePodTemplateSpec``.

    ``old`` is the stored template, whose oddities are tolerated (``GetValidationOptionsFromPodTemplate``).
    """
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = validate_labels(metadata.get("labels") or {}, path / "labels")
    errors += validate_annotations(metadata.get("annotations") or {}, path / "annotations")
    errors += validate_pod_spec(spec, path / "spec", is_pod=False)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(path / "spec" / "ephemeralContainers", detail))
    return errors


def validate_pod_spec(spec: JSONObject, path: FieldPath, *, is_pod: bool) -> list[FieldError]:
    """Validate the specification of a Pod, or of Pods to be: ``ValidatePodSpec``."""
    grace = spec.get("terminationGracePeriodSeconds")
    errors = [] if grace is not None else [required(path / "terminationGracePeriodSeconds")]
    host_users = spec.get("hostUsers") is not False
    volumes, found = validate_volumes(spec.get("volumes") or (), path / "volumes")
    errors += found
    containers = spec.get("containers") or []
    errors += validate_containers(
        containers, volumes, path / "containers", grace=grace, host_users=host_users
    )
    errors += validate_init_containers(
        spec.get("initContainers") or (),
        containers,
        volumes,
        path / "initContainers",
        grace=grace,
        host_users=host_users,
    )
    errors += _validate_host_network(spec, path, is_pod=is_pod)
    errors += _validate_policies(spec, path)
    if selector := spec.get("nodeSelector"):
        errors += validate_labels(selector, path / "nodeSelector")
    if context := spec.get("securityContext"):
        errors += validate_pod_security_context(context, path / "securityContext")
    if affinity := spec.get("affinity"):
        errors += validate_affinity(affinity, path / "affinity")
    errors += _validate_dns(spec, path / "dnsConfig")
    if constraints := spec.get("topologySpreadConstraints"):
        errors += validate_spread_constraints(constraints, path / "topologySpreadConstraints")
    errors += _validate_names(spec, path)
    return errors + _validate_scheduling(spec, path)


def _validate_host_network(spec: JSONObject, path: FieldPath, *, is_pod: bool) -> list[FieldError]:
    if spec.get("hostNetwork") is not True:
        return []
    errors, detail = [], "must match `containerPort` when `hostNetwork` is true"
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort", 0)
            if (is_pod or host_port) and host_port != port.get("containerPort", 0):
                place = path / "containers" / index / "ports" / number / "hostPort"
                errors.append(invalid(place, host_port, detail))
    return errors


def _validate_policies(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = []
    for name, known in (("restartPolicy", _RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        value = spec.get(name, "")
        if not value:
            errors.append(required(path / name))
        elif value not in known:
            errors.append(not_supported(path / name, value, known))
    return errors


_MAX_SEARCHES, _MAX_NAMESERVERS = 32, 3


def _validate_dns(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    config, errors = spec.get("dnsConfig"), []
    if spec.get("dnsPolicy") == "None":
        if config is None:
            detail = "must provide `dnsConfig` when `dnsPolicy` is None"
            return [required(path, detail)]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(path / "nameservers", detail)]
    servers = (config or {}).get("nameservers") or ()
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(invalid(path / "nameservers", list(servers), detail))
    return errors


def _validate_names(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    account, old_account = spec.get("serviceAccountName", ""), spec.get("serviceAccount", "")
    errors = []
    if account:
        place = path / "serviceAccountName"
        errors += [invalid(place, account, message) for message in subdomain_name(account, False)]
    if old_account != account:
        detail = f"must be the same as serviceAccountName: {go_quoted(account)}"
        errors.append(invalid(path / "deprecatedServiceAccount", old_account, detail))
    if node := spec.get("nodeName"):
        errors += [invalid(path / "nodeName", node, message) for message in subdomain_name(node, False)]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        detail = f"must be between 1 and {_MAX_DEADLINE}, inclusive"
        errors.append(invalid(path / "activeDeadlineSeconds", deadline, detail))
    for name in ("hostname", "subdomain"):
        if text := spec.get(name):
            errors += [invalid(path / name, text, message) for message in names.check_dns1123_label(text)]
    return errors


def _validate_scheduling(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = []
    if tolerations := spec.get("tolerations"):
        errors += validate_tolerations(tolerations, path / "tolerations")
    for name in ("priorityClassName", "runtimeClassName"):
        text = spec.get(name)
        if text or (text is not None and name == "runtimeClassName"):
            errors += [invalid(path / name, text, message) for message in subdomain_name(text, False)]
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in {"PreemptLowerPriority", "Never"}:
        place = path / "preemptionPolicy"
        if not policy:
            errors.append(required(place))
        else:
            errors.append(not_supported(place, policy, ("PreemptLowerPriority", "Never")))
    return errors


def pod_template_warnings(template: JSONObject, path: FieldPath, old: JSONObject | None = None) -> list[str]:
    """What is odd in a Pod template: the part of ``GetWarningsForPodTemplate`` about pull secrets."""
    warnings, found = [], set()
    secrets = (template.get("spec") or {}).get("imagePullSecrets") or ()
    for index, secret in enumerate(secrets):
        place, name = path / "spec" / "imagePullSecrets" / index / "name", secret.get("name", "")
        if not name:
            warnings.append(f'{place}: invalid empty name ""')
        elif name in found:
            warnings.append(f"{place}: duplicate name {go_quoted(name)}")
        found.add(name)
    return warnings
