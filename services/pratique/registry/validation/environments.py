"""Environment variables of containers, and the fields of Pods and containers that they and volumes show.

Source: ``ValidateEnv``, ``ValidateEnvFrom``, ``validateObjectFieldSelector`` and
``validateContainerResourceFieldSelector`` of ``pkg/apis/core/validation/validation.go``, and
``ConvertDownwardAPIFieldLabel`` of ``pkg/apis/core/pods/helpers.go``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    invalid,
    not_found,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.quantities import Quantity
from pratique.pods.pod_spec import CONTAINER_FIELDS
from pratique.registry.validation.core_objects import check_key
from pratique.registry.validation.metadata import subdomain_name
from pratique.registry.validation.volume_paths import validate_no_backsteps

_RELAXED_NAME = pattern(r"[ -<>-~]+")
_RELAXED_MESSAGE = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_ONE_AT_A_TIME = "may not have more than one field specified at a time"


def validate_environment(variables: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate environment variables: ``ValidateEnv``."""
    errors = []
    for index, variable in enumerate(variables):
        name, source = variable.get("name", ""), variable.get("valueFrom")
        if not _RELAXED_NAME.fullmatch(name):
            place = path / index / "name"
            errors.append(invalid(place, name, _RELAXED_MESSAGE) if name else required(place))
        if source is not None:
            errors += _validate_value_source(variable, source, path / index / "valueFrom")
    return errors


def _validate_value_source(variable: JSONObject, source: JSONObject, path: FieldPath) -> list[FieldError]:
    given = [field for field in _VALUE_SOURCES if field in source and source[field] is not None]
    errors = [error for field in given for error in _VALUE_SOURCES[field](source[field], path / field)]
    if not given:
        which = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", f"must specify one of: {which}"))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(invalid(path, "", _ONE_AT_A_TIME))
    return errors


def validate_environment_sources(sources: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate ConfigMaps and Secrets that are environments: ``ValidateEnvFrom``."""
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
            errors.append(invalid(path, "", _ONE_AT_A_TIME))
    return errors


# Fields of the Pod

FIELDS_FOR_VARIABLES = frozenset(
    {
        "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
        "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
    }
)  # fmt: skip
"""The fields of a Pod that a variable may show."""
FIELDS_FOR_FILES = frozenset(
    {"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
)
"""The fields of a Pod that a file of a volume may show."""
_KNOWN_FIELDS = (
    FIELDS_FOR_VARIABLES | FIELDS_FOR_FILES | {"spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_SUBSCRIPT = pattern(r"(.+?)\['(.*)'\]", re.DOTALL)


def validate_field_reference(
    reference: JSONObject, path: FieldPath, shown: frozenset[str]
) -> list[FieldError]:
    """Validate a reference to a field of the Pod, of which some may be ``shown``."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(path / "apiVersion")]
    place = path / "fieldPath"
    if not field:
        return [required(place)]
    subscripted = _SUBSCRIPT.fullmatch(field)
    if problem := _conversion_problem(version, field, subscripted):
        return [invalid(place, field, f"error converting fieldPath: {problem}")]
    if subscripted is not None:
        whole, key = subscripted.groups()
        name = key.lower() if whole == "metadata.annotations" else key
        return [invalid(path, name, message) for message in names.check_qualified_name(name)]
    converted = "spec.nodeName" if field == "spec.host" else field
    return [] if converted in shown else [not_supported(place, converted, sorted(shown))]


def _conversion_problem(version: str, field: str, subscripted: re.Match[str] | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscripted is not None:
        has_keys = subscripted[1] in {"metadata.annotations", "metadata.labels"}
        return "" if has_keys else f"field label does not support subscript: {field}"
    return "" if field in _KNOWN_FIELDS or field == "spec.host" else f"field label not supported: {field}"


# Resources of containers

_AMOUNTS = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTES = ("1", *(f"1{unit}{binary}" for binary in ("", "i") for unit in "kMGTPE"))
_DIVISORS_OF_BYTES = tuple(divisor.replace("ki", "Ki") for divisor in _BYTES)
_DIVISORS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "cpu": (("1m", "1"), "only divisor's values 1m and 1 are supported with the cpu resource"),
    **{
        name: (
            _DIVISORS_OF_BYTES,
            f"only divisor's values {', '.join(_DIVISORS_OF_BYTES)} are supported with the {title} resource",
        )
        for name, title in (
            ("memory", "memory"),
            ("ephemeral-storage", "local ephemeral storage"),
            ("hugepages", "hugepages"),
        )
    },
}
"""By resource, the units that an amount can be shown in, and what to say of others."""


def validate_resource_reference(
    reference: JSONObject, path: FieldPath, *, names_container: bool = False
) -> list[FieldError]:
    """Validate a reference to an amount of resources, which ``names_container`` if it stands in a volume."""
    resource, errors = reference.get("resource", ""), []
    if names_container and not reference.get("containerName"):
        errors.append(required(path / "containerName"))
    elif not resource:
        errors.append(required(path / "resource"))
    elif resource not in _AMOUNTS and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(path / "resource", resource, _AMOUNTS))
    return errors + _validate_divisor(resource, reference.get("divisor"), path / "divisor")


def _validate_divisor(resource: str, value: JSON, path: FieldPath) -> list[FieldError]:
    if value is None:
        return []
    name = resource.partition(".")[2]
    known = _DIVISORS.get("hugepages" if resource.startswith(_HUGE_PAGES) else name)
    divisor = Quantity.from_json(value)
    if (
        known is None
        or not divisor.sign
        or (resource not in _AMOUNTS and not resource.startswith(_HUGE_PAGES))
    ):
        return []
    allowed, detail = known
    return [] if str(divisor) in allowed else [invalid(path, resource, detail)]


# Keys of other objects and files


def _validate_key_reference(reference: JSONObject, path: FieldPath) -> list[FieldError]:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors = [invalid(path / "name", name, message) for message in subdomain_name(name, False)]
    if not key:
        return [*errors, required(path / "key")]
    messages = check_key(key)
    return errors + [invalid(path / "key", key, message) for message in messages] if messages else errors


def _validate_file_reference(reference: JSONObject, path: FieldPath) -> list[FieldError]:
    key, volume, file = (reference.get(field, "") for field in ("key", "volumeName", "path"))
    errors = [] if key else [required(path / "key")]
    if key and not _RELAXED_NAME.fullmatch(key):
        errors.append(invalid(path / "key", key, _RELAXED_MESSAGE))
    messages = names.check_dns1123_label(volume) if volume else ()
    errors += [] if volume else [required(path / "volumeName")]
    errors += [invalid(path / "volumeName", volume, message) for message in messages]
    return errors + (validate_no_backsteps(file, path / "path") if file else [required(path / "path")])


def validate_files_of_environments(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate that variables are read from files of empty volumes: ``validateFileKeyRefVolumes``."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes") or ()}
    return [
        error
        for field in CONTAINER_FIELDS
        for number, container in enumerate(spec.get(field) or ())
        for index, variable in enumerate(container.get("env") or ())
        if (source := variable.get("valueFrom")) is not None
        if (reference := source.get("fileKeyRef")) is not None
        for error in _validate_volume_of_file(
            volumes,
            reference.get("volumeName", ""),
            path / field / number / "env" / index / "valueFrom" / "fileKeyRef" / "volumeName",
        )
    ]


def _validate_volume_of_file(
    volumes: Mapping[str, JSONObject], name: str, path: FieldPath
) -> list[FieldError]:
    if name not in volumes:
        return [not_found(path, name)]
    if volumes[name].get("emptyDir") is None:
        return [invalid(path, name, "referenced volume must be of type emptyDir")]
    return []


_VALUE_SOURCES: Mapping[str, Callable[[JSONObject, FieldPath], list[FieldError]]] = {
    "fieldRef": lambda reference, path: validate_field_reference(reference, path, FIELDS_FOR_VARIABLES),
    "resourceFieldRef": validate_resource_reference,
    "configMapKeyRef": _validate_key_reference,
    "secretKeyRef": _validate_key_reference,
    "fileKeyRef": _validate_file_reference,
}
