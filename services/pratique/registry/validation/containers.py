"""Containers: names, ports, environments, mounts and resources.

Source: ``validateContainers``, ``validateInitContainers`` and what they call in
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.addresses import check_port_name, validate_port
from pratique.registry.validation.core_objects import check_key
from pratique.registry.validation.metadata import subdomain_name
from pratique.registry.validation.probes import validate_lifecycle, validate_probes
from pratique.registry.validation.resource_amounts import validate_requirements
from pratique.registry.validation.security_contexts import validate_security_context
from pratique.registry.validation.volumes import validate_descending_path

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RELAXED_NAME = re.compile(r"[ -<>-~]+")
_RELAXED_MESSAGE = (
    'a valid environment variable name must consist only of printable ASCII characters other than "="'
)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate_containers(
    containers: Sequence[JSONObject],
    volumes: Mapping[str, JSONObject],
    path: FieldPath,
    *,
    grace: int | None,
    host_users: bool,
) -> list[FieldError]:
    """Validate the regular containers of a Pod.

    Args:
        containers: The containers.
        volumes: The Pod's valid volumes by name.
        path: The path to the list.
        grace: The Pod's ``terminationGracePeriodSeconds``.
        host_users: Whether the Pod runs in the host's user namespace.
    """
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    found: set[str] = set()
    for index, container in enumerate(containers):
        place = path / index
        errors += _validate_container(container, volumes, place, host_users=host_users)
        name = container.get("name", "")
        if name in found:
            errors.append(duplicate(place / "name", name))
        found.add(name)
        errors += _validate_hooks(container, grace, place)
    return errors + _validate_host_ports(containers, path)


def validate_init_containers(
    containers: Sequence[JSONObject],
    regular: Sequence[JSONObject],
    volumes: Mapping[str, JSONObject],
    path: FieldPath,
    *,
    grace: int | None,
    host_users: bool,
) -> list[FieldError]:
    """Validate the containers that run before the regular ones; sidecars among them may have probes."""
    errors: list[FieldError] = []
    found = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        place = path / index
        errors += _validate_container(container, volumes, place, host_users=host_users)
        name = container.get("name", "")
        if name in found:
            errors.append(duplicate(place / "name", name))
        elif name:
            found.add(name)
        errors += _validate_host_ports([container], path)
        if container.get("restartPolicy") == "Always":
            errors += _validate_hooks(container, grace, place)
            continue
        detail = "may not be set for init containers without restartPolicy=Always"
        hooks = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
        errors += [forbidden(place / hook, detail) for hook in hooks if container.get(hook) is not None]
    return errors


def _validate_hooks(container: JSONObject, grace: int | None, path: FieldPath) -> list[FieldError]:
    lifecycle = container.get("lifecycle")
    errors = [] if lifecycle is None else validate_lifecycle(lifecycle, grace, path / "lifecycle")
    return errors + validate_probes(container, grace, path)


def _validate_container(
    container: JSONObject, volumes: Mapping[str, JSONObject], path: FieldPath, *, host_users: bool
) -> list[FieldError]:
    errors = _validate_identity(container, path)
    errors += _validate_ports(container.get("ports") or (), path / "ports")
    for index, variable in enumerate(container.get("env") or ()):
        errors += _validate_variable(variable, path / "env" / index)
    errors += _validate_env_from(container.get("envFrom") or (), path / "envFrom")
    errors += _validate_mounts(container, volumes, path / "volumeMounts")
    errors += _validate_devices(container, volumes, path / "volumeDevices")
    policy = container.get("imagePullPolicy", "")
    if not policy:
        errors.append(required(path / "imagePullPolicy"))
    elif policy not in _PULL_POLICIES:
        errors.append(not_supported(path / "imagePullPolicy", policy, _PULL_POLICIES))
    if resources := container.get("resources"):
        errors += validate_requirements(resources, path / "resources")
    context = container.get("securityContext")
    if context is not None:
        errors += validate_security_context(context, path / "securityContext", host_users=host_users)
    return errors


def _validate_identity(container: JSONObject, path: FieldPath) -> list[FieldError]:
    errors, name = [], container.get("name", "")
    if name:
        errors += [invalid(path / "name", name, message) for message in names.check_dns1123_label(name)]
    else:
        errors.append(required(path / "name"))
    if not container.get("image"):
        errors.append(required(path / "image"))
    policy, place = container.get("terminationMessagePolicy", ""), path / "terminationMessagePolicy"
    if not policy:
        errors.append(required(place))
    elif policy not in _MESSAGE_POLICIES:
        errors.append(not_supported(place, policy, sorted(_MESSAGE_POLICIES)))
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


def _validate_variable(variable: JSONObject, path: FieldPath) -> list[FieldError]:
    name, source = variable.get("name", ""), variable.get("valueFrom")
    errors = []
    if not name:
        errors.append(required(path / "name"))
    elif not _RELAXED_NAME.fullmatch(name):
        errors.append(invalid(path / "name", name, _RELAXED_MESSAGE))
    if source is None:
        return errors
    place = path / "valueFrom"
    given = [field for field in _SOURCES if source.get(field) is not None]
    for field in given:
        if field in {"configMapKeyRef", "secretKeyRef"}:
            errors += _validate_key_reference(source[field], place / field)
    if not given:
        which = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(place, "", f"must specify one of: {which}"))
    elif variable.get("value"):
        errors.append(invalid(place, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(invalid(place, "", "may not have more than one field specified at a time"))
    return errors


def _validate_key_reference(reference: JSONObject, path: FieldPath) -> list[FieldError]:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors = [invalid(path / "name", name, message) for message in subdomain_name(name, False)]
    if not key:
        return [*errors, required(path / "key")]
    return errors + [invalid(path / "key", key, message) for message in check_key(key)]


def _validate_env_from(sources: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    errors = []
    for index, source in enumerate(sources):
        place, prefix = path / index, source.get("prefix", "")
        if prefix and not _RELAXED_NAME.fullmatch(prefix):
            errors.append(invalid(place / "prefix", prefix, _RELAXED_MESSAGE))
        given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in given:
            name = source[field].get("name", "")
            if not name:
                errors.append(required(place / field / "name"))
            messages = subdomain_name(name, True) if name else ()
            errors += [invalid(place / field / "name", name, message) for message in messages]
        if not given:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _validate_mounts(
    container: JSONObject, volumes: Mapping[str, JSONObject], path: FieldPath
) -> list[FieldError]:
    errors, points = [], set()
    devices = container.get("volumeDevices") or ()
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        place, name, point = path / index, mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(place / "name"))
        if name not in volumes:
            errors.append(not_found(place / "name", name))
        if not point:
            errors.append(required(place / "mountPath"))
        if point in points:
            errors.append(invalid(place / "mountPath", point, "must be unique"))
        points.add(point)
        if name in device_names:
            errors.append(invalid(place / "name", name, "must not already exist in volumeDevices"))
        if point in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            errors.append(invalid(place / "mountPath", point, detail))
        errors += _validate_sub_paths(mount, place, path)
        if (propagation := mount.get("mountPropagation")) is not None:
            errors += _validate_propagation(propagation, container, path / "mountPropagation")
    return errors


def _validate_sub_paths(mount: JSONObject, place: FieldPath, path: FieldPath) -> list[FieldError]:
    sub_path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors = validate_descending_path(sub_path, path / "subPath")
    if expression and sub_path:
        detail = "subPathExpr and subPath are mutually exclusive"
        errors.append(invalid(place / "subPathExpr", expression, detail))
    return errors + validate_descending_path(expression, path / "subPathExpr")


_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")


def _validate_propagation(mode: str, container: JSONObject, path: FieldPath) -> list[FieldError]:
    if mode not in _PROPAGATIONS:
        return [not_supported(path, mode, _PROPAGATIONS)]
    is_privileged = (container.get("securityContext") or {}).get("privileged") is True
    if mode == "Bidirectional" and not is_privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        return [forbidden(path, detail)]
    return []


def _validate_devices(
    container: JSONObject, volumes: Mapping[str, JSONObject], path: FieldPath
) -> list[FieldError]:
    errors, found = [], set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        place, name, point = path / index, device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(place / "name"))
        if name in found:
            errors.append(invalid(place / "name", name, "must be unique"))
        found.add(name)
        source = volumes.get(name)
        if source is not None and not source.keys() & {"persistentVolumeClaim", "ephemeral"}:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(place / "name", name, detail))
        if source is None:
            errors.append(not_found(place / "name", name))
        if not point:
            errors.append(required(place / "devicePath"))
        if ".." in point.split("/"):
            errors.append(invalid(place / "devicePath", point, "can not contain backsteps ('..')"))
    return errors
