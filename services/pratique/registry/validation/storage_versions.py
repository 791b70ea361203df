"""StorageVersions and StorageVersionMigrations.

Sources: ``k8s.io/kubernetes/pkg/apis/apiserverinternal/validation`` and ``pkg/apis/storagemigration/validation``; their
strategies take no status.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import ROOT, FieldError, invalid, required
from pratique.apimachinery.json_values import JSONObject, mapping_at
from pratique.registry.go_values import internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)

_METADATA = ROOT / "metadata"
_RESOURCE = ROOT / "spec" / "resource"


def _version_name(name: str, _is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
    """``ValidateStorageVersionName``."""
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    messages = [f"the group segment {message}" for message in names.check_dns1123_subdomain(group)]
    return messages + [f"the resource segment {message}" for message in names.check_dns1035_label(resource)]


def _validate_version(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateStorageVersion``."""
    return validate_metadata(written.get("metadata", {}), _version_name, _METADATA, namespaced=False)


def _validate_version_update(_written: JSONObject, _old: JSONObject, _review: Review) -> list[FieldError]:
    return []


def _validate_migration(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateStorageVersionMigration``."""
    errors = validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)
    migrated = mapping_at(written, "spec", "resource")
    resource, group = migrated.get("resource", ""), migrated.get("group", "")
    if not resource:
        errors.append(required(_RESOURCE / "resource", "resource is required to be set"))
    elif messages := names.check_dns1035_label(resource):
        errors.append(invalid(_RESOURCE / "resource", resource, ",".join(messages)))
    if group and (messages := names.check_dns1123_subdomain(group)):
        errors.append(invalid(_RESOURCE / "group", group, ",".join(messages)))
    return errors


def _validate_migration_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateStorageVersionMigrationUpdate``."""
    errors = _validate_migration(written, review)
    errors += validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    spec = written.get("spec", {})
    if spec != old.get("spec", {}):
        value = internal_value("storagemigration.StorageVersionMigrationSpec", spec)
        errors.append(invalid(ROOT / "spec", value, "field is immutable"))
    return errors


VALIDATIONS: ValidationTable = {
    ("internal.apiserver.k8s.io", "storageversions"): KindValidation(
        _validate_version, _validate_version_update
    ),
    ("storagemigration.k8s.io", "storageversionmigrations"): KindValidation(
        _validate_migration, _validate_migration_update
    ),
}
