"""Containers: names, images, ports, resources and restarts.

Source: ``validateContainers``, ``validateInitContainers``, ``validateEphemeralContainers`` and what they call in
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    json_text,
    not_found,
    not_supported,
    required,
    too_many,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.addresses import check_port_name, validate_port
from pratique.registry.validation.environments import validate_environment, validate_environment_sources
from pratique.registry.validation.pod_context import OF_NEW_POD, OF_NEW_TEMPLATE, PodContext
from pratique.registry.validation.probes import validate_lifecycle, validate_probes
from pratique.registry.validation.resource_amounts import validate_requirements
from pratique.registry.validation.security_contexts import validate_security_context
from pratique.registry.validation.valid_values import ValidValues
from pratique.registry.validation.volume_mounts import validate_volume_devices, validate_volume_mounts
from pratique.registry.validation.volumes import PULL_POLICIES, validate_pull_policy

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_containers(
    containers: Sequence[JSONObject], path: FieldPath, pod: PodContext
) -> list[FieldError]:
    """Validate the regular containers of a Pod."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    found: set[str] = set()
    for index, container in enumerate(containers):
        place, name = path / index, container.get("name", "")
        key = _key(container, pod)
        is_known = key is not None and key in _valid
        found_wrong = _validate_container(container, place, pod, is_known=is_known)
        if name in found:
            found_wrong.append(duplicate(place / "name", name))
        found.add(name)
        if not is_known:
            found_wrong += _validate_hooks(container, place, pod) + _validate_restarts(container, place)
        if found_wrong:
            errors += found_wrong
        elif key is not None:
            _valid.add(key)
    return errors + _validate_host_ports(containers, path)


_valid = ValidValues()
_REPEATED = (
    "lifecycle", "livenessProbe", "ports", "readinessProbe", "resizePolicy", "resources", "restartPolicy",
    "restartPolicyRules", "securityContext", "startupProbe",
)  # fmt: skip
"""What is alike in many containers, and is validated by itself."""


def _key(container: JSONObject, pod: PodContext) -> bytes | None:
    """The key of what repeats in a container; None if what its validation depends on has no key."""
    if pod.claim_names or pod.options not in _OF_NEW:
        return None
    context = pod.grace_period, pod.os_name, pod.restart_policy, pod.host_users
    return _valid.key(*map(container.get, _REPEATED), *context)


_OF_NEW = (OF_NEW_POD, OF_NEW_TEMPLATE)
"""Both allow the same in containers."""


_HOOKS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def validate_init_containers(spec: JSONObject, path: FieldPath, pod: PodContext) -> list[FieldError]:
    """Validate the containers that run before the regular ones; sidecars among them may have probes."""
    errors: list[FieldError] = []
    found = {container.get("name", "") for container in spec.get("containers") or ()}
    for index, container in enumerate(spec["initContainers"]):
        place, name = path / index, container.get("name", "")
        errors += _validate_container(container, place, pod)
        errors += _validate_restarts(container, place, is_initial=True)
        if name in found:
            errors.append(duplicate(place / "name", name))
        elif name:
            found.add(name)
        errors += _validate_host_ports([container], path)
        if container.get("restartPolicy") == "Always":
            errors += _validate_hooks(container, place, pod)
            continue
        detail = "may not be set for init containers without restartPolicy=Always"
        errors += [forbidden(place / hook, detail) for hook in _HOOKS if container.get(hook) is not None]
        if not pod.options.restarts_of_init_containers:
            errors += _validate_resizes_of_init_container(container, place / "resizePolicy")
    return errors


def _validate_resizes_of_init_container(container: JSONObject, path: FieldPath) -> list[FieldError]:
    policy = "RestartContainer"
    detail = f"must not be set to '{policy}' for non-sidecar initContainers"
    return [
        invalid(path / index / "restartPolicy", policy, detail)
        for index, resize in enumerate(container.get("resizePolicy") or ())
        if resize.get("restartPolicy") == policy
    ]


_NOT_EPHEMERAL = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe", "readinessProbe",
    "startupProbe", "lifecycle",
)  # fmt: skip


def validate_ephemeral_containers(spec: JSONObject, path: FieldPath, pod: PodContext) -> list[FieldError]:
    """Validate containers that are added to debug a Pod; templates may have none, but are told what is wrong."""
    errors = []
    others = {
        container.get("name", "")
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
    }
    found = set(others)
    for index, container in enumerate(spec["ephemeralContainers"]):
        place, name = path / index, container.get("name", "")
        errors += _validate_container(container, place, pod) + validate_padding(container, place)
        if name in found:
            errors.append(duplicate(place / "name", name))
        found.add(name)
        target = container.get("targetContainerName", "")
        if target and target not in others:
            errors.append(not_found(place / "targetContainerName", target))
        detail = "cannot be set for an Ephemeral Container"
        errors += [
            forbidden(place / field, detail)
            for field in _NOT_EPHEMERAL
            if container.get(field) is not None and (container[field] or field != "resources")
        ]
        errors += [
            forbidden(place / "volumeMounts" / number / field, detail)
            for number, mount in enumerate(container.get("volumeMounts") or ())
            for field in ("subPath", "subPathExpr")
            if mount.get(field)
        ]
    return errors


def validate_padding(container: JSONObject, path: FieldPath) -> list[FieldError]:
    """Refuse spaces around the image, as Pods do but templates do not: ``validateContainerOnlyForPod``."""
    image = container.get("image", "")
    if image.strip() == image:
        return []
    return [invalid(path / "image", image, "must not have leading or trailing whitespace")]


def _validate_hooks(container: JSONObject, path: FieldPath, pod: PodContext) -> list[FieldError]:
    lifecycle, grace = container.get("lifecycle"), pod.grace_period
    if lifecycle is None:
        return validate_probes(container, grace, path)
    errors = validate_lifecycle(lifecycle, grace, pod.os_name, path / "lifecycle")
    return errors + validate_probes(container, grace, path)


def _validate_container(
    container: JSONObject, path: FieldPath, pod: PodContext, *, is_known: bool = False
) -> list[FieldError]:
    """What all containers have in common: ``validateContainerCommon``. What repeats may be known to be valid."""
    errors = _validate_identity(container, path)
    if not is_known and (ports := container.get("ports")):
        errors += _validate_ports(ports, path / "ports")
    if variables := container.get("env"):
        errors += validate_environment(variables, path / "env")
    if sources := container.get("envFrom"):
        errors += validate_environment_sources(sources, path / "envFrom")
    if container.get("volumeMounts"):
        errors += validate_volume_mounts(container, pod.volumes, path / "volumeMounts")
    if container.get("volumeDevices"):
        errors += validate_volume_devices(container, pod.volumes, path / "volumeDevices")
    if (policy := container.get("imagePullPolicy", "")) not in PULL_POLICIES:
        errors += validate_pull_policy(policy, path / "imagePullPolicy")
    return errors if is_known else errors + _validate_resources(container, path, pod)


def _validate_resources(container: JSONObject, path: FieldPath, pod: PodContext) -> list[FieldError]:
    errors = []
    if resources := container.get("resources"):
        errors += validate_requirements(
            resources,
            path / "resources",
            claim_names=pod.claim_names,
            indivisible_huge_pages=pod.options.indivisible_huge_pages,
        )
    if resizes := container.get("resizePolicy"):
        errors += _validate_resizes(resizes, path / "resizePolicy", pod.restart_policy)
    if context := container.get("securityContext"):
        errors += validate_security_context(context, path / "securityContext", pod)
    return errors


_RESIZES = (("resourceName", ("cpu", "memory")), ("restartPolicy", ("NotRequired", "RestartContainer")))


def _validate_resizes(resizes: Sequence[JSONObject], path: FieldPath, pod_restarts: str) -> list[FieldError]:
    """Validate what happens when resources change; errors have the path of the list."""
    errors: list[FieldError] = []
    found: set[str] = set()
    for index, resize in enumerate(resizes):
        name, policy = resize.get("resourceName", ""), resize.get("restartPolicy", "")
        if name in found:
            errors.append(duplicate(path / index, name))
        found.add(name)
        for field, known in _RESIZES:
            value = resize.get(field, "")
            if not value:
                errors.append(required(path))
            elif value not in known:
                errors.append(not_supported(path, json_text(value), known))
        if pod_restarts == "Never" and policy != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, json_text(policy), detail))
    return errors


_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_MAX_RULES, _MAX_EXIT_CODES = 20, 255


def _validate_restarts(
    container: JSONObject, path: FieldPath, *, is_initial: bool = False
) -> list[FieldError]:
    """Validate when a container alone is restarted: ``validateContainerRestartPolicy``."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None and not rules:
        return []
    place, errors = path / "restartPolicy", []
    if policy is None:
        errors.append(required(place, "must specify restartPolicy when restart rules are used"))
        if is_initial:
            return errors
    elif policy not in _RESTART_POLICIES:
        errors.append(not_supported(place, policy, _RESTART_POLICIES))
    place = path / "restartPolicyRules"
    if len(rules) > _MAX_RULES:
        errors.append(too_many(place, len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _validate_restart_rule(rule, place / index)
    return errors


def _validate_restart_rule(rule: JSONObject, path: FieldPath) -> list[FieldError]:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    errors = [] if action in _RESTART_ACTIONS else [not_supported(path / "action", action, _RESTART_ACTIONS)]
    place = path / "exitCodes"
    if codes is None:
        return [*errors, required(place, "must be specified")]
    operator, values = codes.get("operator", ""), codes.get("values") or ()
    if operator not in {"In", "NotIn"}:
        errors.append(not_supported(place / "operator", operator, ("In", "NotIn")))
    if len(values) > _MAX_EXIT_CODES:
        errors.append(too_many(place / "values", len(values), _MAX_EXIT_CODES))
    return errors


def _validate_identity(container: JSONObject, path: FieldPath) -> list[FieldError]:
    errors, name = [], container.get("name", "")
    if name:
        errors += [invalid(path / "name", name, message) for message in names.check_dns1123_label(name)]
    else:
        errors.append(required(path / "name"))
    if not container.get("image"):
        errors.append(required(path / "image"))
    policy = container.get("terminationMessagePolicy", "")
    if policy not in _MESSAGE_POLICIES:
        place = path / "terminationMessagePolicy"
        errors.append(not_supported(place, policy, _MESSAGE_POLICIES) if policy else required(place))
    return errors


def _validate_ports(ports: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    found: set[str] = set()
    for index, port in enumerate(ports):
        place, name = path / index, port.get("name", "")
        if name:
            messages = check_port_name(name)
            errors += [invalid(place / "name", name, message) for message in messages]
            if not messages and name in found:
                errors.append(duplicate(place / "name", name))
            found.add(name)
        if not port.get("containerPort"):
            errors.append(required(place / "containerPort"))
        else:
            errors += validate_port(port["containerPort"], place / "containerPort")
        if port.get("hostPort"):
            errors += validate_port(port["hostPort"], place / "hostPort")
        protocol = port.get("protocol", "")
        if not protocol:
            errors.append(required(place / "protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(place / "protocol", protocol, _PROTOCOLS))
    return errors


def _validate_host_ports(containers: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    errors, found = [], set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in found:
                errors.append(duplicate(path / index / "ports" / number / "hostPort", key))
            found.add(key)
    return errors
