"""The specs of Pods and Pod templates.

Source: ``ValidatePodSpec`` and ``ValidatePodTemplateSpec`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    quoted_text,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.selectors import validate_labels
from pratique.apimachinery.statuses import go_quoted
from pratique.pods.pod_spec import MIRROR_ANNOTATION
from pratique.registry.validation.containers import (
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from pratique.registry.validation.environments import validate_files_of_environments
from pratique.registry.validation.metadata import subdomain_name, validate_annotations
from pratique.registry.validation.pod_annotations import validate_pod_annotations, validate_profiles_match
from pratique.registry.validation.pod_context import PodContext, PodOptions
from pratique.registry.validation.pod_networking import (
    validate_dns,
    validate_host_aliases,
    validate_host_name,
    validate_host_ports,
    validate_host_users,
)
from pratique.registry.validation.pod_resources import validate_pod_resources, validate_resource_claims
from pratique.registry.validation.resource_amounts import validate_requirements
from pratique.registry.validation.scheduling_constraints import (
    validate_affinity,
    validate_spread_constraints,
    validate_tolerations,
)
from pratique.registry.validation.security_contexts import validate_pod_security_context
from pratique.registry.validation.stored_pods import options_beside
from pratique.registry.validation.volumes import validate_volumes
from pratique.registry.validation.windows_pods import validate_host_processes, validate_operating_system

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_DEADLINE = 2**31 - 1


def validate_pod_template(
    template: JSONObject, path: FieldPath, review: Review, old: JSONObject | None = None
) -> list[FieldError]:
    """Validate a Pod template with its metadata: ``ValidatePodTemplateSpec``.

    ``old`` is the stored template, whose oddities are tolerated (``GetValidationOptionsFromPodTemplate``).
    """
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations, options = metadata.get("annotations") or {}, options_beside(old, is_pod=False)
    errors = validate_labels(metadata.get("labels") or {}, path / "labels")
    if annotations:
        errors += validate_annotations(annotations, path / "annotations")
        errors += validate_pod_annotations(annotations, spec, path / "annotations", options)
    place = path / "spec"
    errors += validate_pod_spec(spec, {}, place, options)
    errors += validate_profiles_match(annotations, spec, place)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(place / "ephemeralContainers", detail))
    return errors


def validate_pod_spec(
    spec: JSONObject, metadata: JSONObject, path: FieldPath, options: PodOptions
) -> list[FieldError]:
    """Validate the specification of a Pod with its metadata, or of Pods to be: ``ValidatePodSpec``."""
    grace = spec.get("terminationGracePeriodSeconds")
    errors = [] if grace is not None else [required(path / "terminationGracePeriodSeconds")]
    name, claims = metadata.get("name", ""), spec.get("resourceClaims") or ()
    volumes, found = validate_volumes(spec.get("volumes") or (), name, path / "volumes", options)
    errors += found
    if claims:
        is_mirror = MIRROR_ANNOTATION in (metadata.get("annotations") or {})
        errors += validate_resource_claims(claims, path / "resourceClaims", is_mirror=is_mirror)
    os = spec.get("os")
    pod = PodContext(
        options,
        volumes,
        frozenset(claim["name"] for claim in claims if claim.get("name")),
        grace,
        None if os is None else os.get("name", ""),
        spec.get("restartPolicy", ""),
        spec.get("hostUsers") is not False,
    )
    errors += _validate_all_containers(spec, path, pod)
    if spec.get("hostNetwork"):
        errors += validate_host_ports(spec, path, is_pod=options.is_pod)
    errors += _validate_policies(spec, path)
    if selector := spec.get("nodeSelector"):
        errors += validate_labels(selector, path / "nodeSelector")
    if spec.get("securityContext"):
        errors += validate_pod_security_context(spec, path / "securityContext", options)
    errors += _validate_shared_processes(spec, path)
    if affinity := spec.get("affinity"):
        errors += validate_affinity(affinity, path / "affinity", options)
    if spec.get("dnsConfig") is not None or spec.get("dnsPolicy") == "None":
        errors += validate_dns(spec, path / "dnsConfig")
    errors += _validate_gates(spec, path)
    if constraints := spec.get("topologySpreadConstraints"):
        errors += validate_spread_constraints(constraints, path / "topologySpreadConstraints", options)
    errors += validate_host_processes(spec, path)
    errors += _validate_user_and_name(spec, path, options)
    errors += _validate_names(spec, path)
    errors += _validate_scheduling(spec, path, options)
    if os is not None:
        errors += validate_operating_system(spec, path)
    if (group := spec.get("schedulingGroup")) is not None:
        errors += _validate_scheduling_group(group, path / "schedulingGroup")
    return errors + validate_files_of_environments(spec, path)


def _validate_shared_processes(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    if not (spec.get("shareProcessNamespace") and spec.get("hostPID")):
        return []
    detail = "ShareProcessNamespace and HostPID cannot both be enabled"
    return [invalid(path / "shareProcessNamespace", bad_value=True, detail=detail)]


def _validate_user_and_name(spec: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    errors = validate_host_users(spec, path, options) if spec.get("hostUsers") is False else []
    return errors if spec.get("hostnameOverride") is None else errors + validate_host_name(spec, path)


def _validate_all_containers(spec: JSONObject, path: FieldPath, pod: PodContext) -> list[FieldError]:
    errors = validate_containers(spec.get("containers") or (), path / "containers", pod)
    if spec.get("initContainers"):
        errors += validate_init_containers(spec, path / "initContainers", pod)
    if spec.get("ephemeralContainers"):
        errors += validate_ephemeral_containers(spec, path / "ephemeralContainers", pod)
    if spec.get("resources") is not None:
        errors += validate_pod_resources(spec, path / "resources", pod)
    return errors


def _validate_gates(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    if not (spec.get("readinessGates") or spec.get("schedulingGates")):
        return errors
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        place, name = path / "readinessGates" / index / "conditionType", gate.get("conditionType", "")
        problems = names.check_qualified_name(name)
        errors += [invalid(place, quoted_text(name), message) for message in problems]
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        place, name = path / "schedulingGates" / index, gate.get("name", "")
        errors += [invalid(place, name, message) for message in names.check_qualified_name(name)]
        if name in seen:
            errors.append(duplicate(place, name))
        seen.add(name)
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


def _validate_scheduling(spec: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    errors = []
    if tolerations := spec.get("tolerations"):
        allow = options.comparing_tolerations
        errors += validate_tolerations(tolerations, path / "tolerations", allow_comparisons=allow)
    if aliases := spec.get("hostAliases"):
        errors += validate_host_aliases(aliases, path / "hostAliases")
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
    if (overhead := spec.get("overhead")) is not None:
        errors += validate_requirements({"limits": overhead}, path / "overhead")
    return errors


def _validate_scheduling_group(group: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the group of a stored Pod or template; of new ones it is dropped, as its feature is off."""
    name, place = group.get("podGroupName"), path / "podGroupName"
    if name is None:
        return [invalid(place, None, "must specify one of: `podGroupName`")]
    return [invalid(place, name, message) for message in subdomain_name(name, False)]
