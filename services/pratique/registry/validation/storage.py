"""StorageClasses, CSIDrivers and the other kinds of storage.

Source: ``k8s.io/kubernetes/pkg/apis/storage/validation/validation.go`` and ``pkg/registry/storage/*/strategy.go``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.csi_objects import (
    CSI_DRIVER_VALIDATION,
    CSI_NODE_VALIDATION,
    CSI_STORAGE_CAPACITY_VALIDATION,
    validate_driver_name,
)
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    subdomain_name,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.node_labels import DEPRECATED_NODE_LABELS
from pratique.registry.validation.persistent_volumes import validate_inline_volume

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_MAXIMUM_PARAMETERS_SIZE = 256 * 1024
_MAXIMUM_PARAMETERS = 512


def _validate_storage_class(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateStorageClass``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    errors += _validate_provisioner(written.get("provisioner", ""), ROOT / "provisioner")
    if parameters := written.get("parameters"):
        errors += _validate_parameters(parameters, ROOT / "parameters")
    errors += _validate_reclaim_policy(written.get("reclaimPolicy"), ROOT / "reclaimPolicy")
    errors += _validate_binding_mode(written.get("volumeBindingMode"), ROOT / "volumeBindingMode")
    if topologies := written.get("allowedTopologies"):
        errors += _validate_topologies(topologies, ROOT / "allowedTopologies")
    return errors


_IMMUTABLE = {"parameters": None, "provisioner": "", "reclaimPolicy": None, "volumeBindingMode": None}
"""Fields that no update changes, and what they are if they are missing."""


def _validate_storage_class_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateStorageClassUpdate``."""
    errors = _validate_storage_class(written, review)
    errors += validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    for field, missing in _IMMUTABLE.items():
        changed = validate_immutable(written.get(field, missing), old.get(field, missing), ROOT / field)
        errors += covered(changed, "immutable")
    return errors


def _storage_class_warnings(written: JSONObject, _old: JSONObject | None, _review: Review) -> list[str]:
    """Topologies by labels of nodes that are no more: ``GetWarningsForStorageClass``."""
    return [
        f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {DEPRECATED_NODE_LABELS[expression['key']]}"
        for i, topology in enumerate(written.get("allowedTopologies", ()))
        for j, expression in enumerate(topology.get("matchLabelExpressions", ()))
        if expression.get("key") in DEPRECATED_NODE_LABELS
    ]


def _validate_provisioner(provisioner: str, path: FieldPath) -> list[FieldError]:
    if not provisioner:
        return covered(required(path))
    name = provisioner.lower()
    return [invalid(path, name, message) for message in names.check_qualified_name(name)]


def _validate_parameters(parameters: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    if len(parameters) > _MAXIMUM_PARAMETERS:
        return [too_long(path, _MAXIMUM_PARAMETERS)]
    errors = [invalid(path, "", "field can not be empty.")] if "" in parameters else []
    if sum(len(text.encode()) for pair in parameters.items() for text in pair) > _MAXIMUM_PARAMETERS_SIZE:
        errors.append(too_long(path, _MAXIMUM_PARAMETERS_SIZE))
    return errors


_RECLAIM_POLICIES = ("Delete", "Retain")


def _validate_reclaim_policy(policy: str | None, path: FieldPath) -> list[FieldError]:
    if not policy or policy in _RECLAIM_POLICIES:
        return []
    return [not_supported(path, policy, _RECLAIM_POLICIES)]


_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


def _validate_binding_mode(mode: str | None, path: FieldPath) -> list[FieldError]:
    if mode is None:
        return [required(path)]
    return [] if mode in _BINDING_MODES else [not_supported(path, mode, _BINDING_MODES)]


def _validate_topologies(topologies: list[JSONObject], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    # The API server compares with as many empty terms as there are terms, so an empty term is always a duplicate.
    seen: set[frozenset[tuple[str, frozenset[str]]]] = {frozenset()}
    for index, term in enumerate(topologies):
        place = path / index / "matchLabelExpressions"
        values: dict[str, frozenset[str]] = {}
        for at, expression in enumerate(term.get("matchLabelExpressions", ())):
            errors += _validate_topology_expression(expression, place / at)
            key = expression.get("key", "")
            if key in values:
                errors.append(duplicate(place / at / "key", key))
            values[key] = frozenset(expression.get("values", ()))
        requirements = frozenset(values.items())
        if requirements in seen:
            errors.append(duplicate(place, ""))
        seen.add(requirements)
    return errors


def _validate_topology_expression(expression: JSONObject, path: FieldPath) -> list[FieldError]:
    values, key = expression.get("values", ()), expression.get("key", "")
    errors = [] if values else [required(path / "values")]
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            errors.append(duplicate(path / "values" / index, value))
        seen.add(value)
    return errors + [invalid(path / "key", key, message) for message in names.check_qualified_name(key)]


def _validate_attributes_class(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateVolumeAttributesClass``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    errors += _validate_provisioner(written.get("driverName", ""), ROOT / "driverName")
    parameters = written.get("parameters", {})
    errors += _validate_parameters(parameters, ROOT / "parameters")
    if not parameters:
        errors.append(required(ROOT / "parameters", "must contain at least one key/value pair"))
    return errors


def _validate_attributes_class_update(
    written: JSONObject, old: JSONObject, review: Review
) -> list[FieldError]:
    """``ValidateVolumeAttributesClassUpdate``."""
    errors = validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    empty: Mapping[str, JSON] = {"driverName": "", "parameters": {}}
    for field, none in empty.items():
        if written.get(field, none) != old.get(field, none):
            errors.append(forbidden(ROOT / field, f"updates to {field} are forbidden."))
    return errors + _validate_attributes_class(written, review)


def _validate_attachment(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateVolumeAttachment``; the status is the strategy's, which takes no other."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    spec = written.get("spec", {})
    source, node = spec.get("source", {}), spec.get("nodeName", "")
    errors += validate_driver_name(spec.get("attacher", ""), _SPEC / "attacher", is_covered=True)
    errors += _validate_attachment_source(source, _SPEC / "source")
    errors += [invalid(_SPEC / "nodeName", node, message) for message in names.check_dns1123_subdomain(node)]
    volume = source.get("persistentVolumeName")
    if volume is not None:
        place = _SPEC / "source" / "persistentVolumeName"
        errors += [invalid(place, volume, message) for message in names.check_dns1123_subdomain(volume)]
    return errors


_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _validate_attachment_source(source: JSONObject, path: FieldPath) -> list[FieldError]:
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if volume is None and inline is None:
        return [required(path, _ONE_SOURCE)]
    if volume is not None and inline is not None:
        return [forbidden(path, _ONE_SOURCE)]
    if volume is not None:
        place = path / "persistentVolumeName"
        return [] if volume else [required(place, "must specify non empty persistentVolumeName")]
    return validate_inline_volume(inline or {}, path / "inlineVolumeSpec")


def _validate_attachment_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateVolumeAttachmentUpdate``."""
    errors = _validate_attachment(written, review)
    if not differs("storage.VolumeAttachmentSpec", old.get("spec"), written.get("spec")):
        return errors
    value = internal_value("storage.VolumeAttachmentSpec", written.get("spec"))
    return errors + covered(invalid(_SPEC, value, FIELD_IS_IMMUTABLE), "immutable")


VALIDATIONS: ValidationTable = {
    ("storage.k8s.io", "csidrivers"): CSI_DRIVER_VALIDATION,
    ("storage.k8s.io", "csinodes"): CSI_NODE_VALIDATION,
    ("storage.k8s.io", "csistoragecapacities"): CSI_STORAGE_CAPACITY_VALIDATION,
    ("storage.k8s.io", "storageclasses"): KindValidation(
        _validate_storage_class, _validate_storage_class_update, _storage_class_warnings
    ),
    ("storage.k8s.io", "volumeattachments"): KindValidation(
        _validate_attachment, _validate_attachment_update
    ),
    ("storage.k8s.io", "volumeattributesclasses"): KindValidation(
        _validate_attributes_class, _validate_attributes_class_update
    ),
}
