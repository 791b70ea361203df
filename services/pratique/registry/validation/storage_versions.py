"""StorageVersions and StorageVersionMigrations.

Sources: ``k8s.io/kubernetes/pkg/apis/apiserverinternal/validation`` and ``pkg/apis/storagemigration/validation``; their
strategies take no status.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import ROOT, FieldError, FieldPath, duplicate, invalid, required
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at
from pratique.registry.go_values import internal_value
from pratique.registry.validation.kind_validation import (
    KindValidation,
    SubresourceTable,
    SubresourceValidation,
    ValidationTable,
)
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


# The status of StorageVersions


_STATUS = ROOT / "status"
_NO_API_VERSION = (
    "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
    " validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g."
    " 'example.com/MyVersion')"
)


def _validate_version_status(written: JSONObject, _old: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateStorageVersionStatusUpdate``."""
    status, path = mapping_at(written, "status"), _STATUS / "storageVersions"
    errors: list[FieldError] = []
    servers = list_at(status, "storageVersions")
    known: set[str] = set()
    for index, server in enumerate(servers):
        name = server.get("apiServerID", "")
        errors += [duplicate(path / index / "apiServerID", name)] if name in known else []
        known.add(name)
        errors += _validate_server(server, path / index)
    errors += _validate_common_version(status, servers)
    return errors + _validate_version_conditions(list_at(status, "conditions"))


def _validate_server(server: JSONObject, path: FieldPath) -> list[FieldError]:
    """``validateServerStorageVersion``."""
    name, encoding = server.get("apiServerID", ""), server.get("encodingVersion", "")
    decodable, served = list_at(server, "decodableVersions"), list_at(server, "servedVersions")
    errors = [invalid(path / "apiServerID", name, message) for message in names.check_dns1123_subdomain(name)]
    errors += _validate_api_version(encoding, path / "encodingVersion")
    for index, version in enumerate(decodable):
        errors += _validate_api_version(version, path / "decodableVersions" / index)
    if encoding not in decodable:
        detail = f"decodableVersions must include encodingVersion {encoding}"
        errors.append(invalid(path / "decodableVersions", server.get("decodableVersions"), detail))
    for index, version in enumerate(served):
        place = path / "servedVersions" / index
        errors += _validate_api_version(version, place)
        if version not in decodable:
            all_versions = " ".join(decodable)
            detail = f"individual served version : {version} must be included in decodableVersions : [{all_versions}]"
            errors.append(invalid(place, version, detail))
    return errors


def _validate_api_version(api_version: str, path: FieldPath) -> list[FieldError]:
    """``isValidAPIVersion``."""
    group, slash, version = api_version.rpartition("/")
    if "/" in group:
        return [invalid(path, api_version, _NO_API_VERSION)]
    empty, problems = "must be non-empty", []
    if slash:
        found = names.check_dns1123_subdomain(group) if group else [empty]
        problems += [f"group part: {problem}" for problem in found]
    found = names.check_dns1035_label(version) if version else [empty]
    problems += [f"version part: {problem}" for problem in found]
    return [invalid(path, api_version, ",".join(problems))] if problems else []


def _validate_common_version(status: JSONObject, servers: Sequence[JSONObject]) -> list[FieldError]:
    """``validateCommonVersion``."""
    versions = {server.get("encodingVersion", "") for server in servers}
    actual = next(iter(versions)) if len(versions) == 1 else None
    told, path = status.get("commonEncodingVersion"), _STATUS / "commonEncodingVersion"
    if told == actual:
        return []
    if actual is None:
        detail = (
            "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the"
            " supported versions yet"
        )
    elif told is None:
        detail = f"the common encoding version is {actual}"
    else:
        detail = f"the actual common encoding version is {actual}"
    return [invalid(path, told, detail)]


def _validate_version_conditions(conditions: Sequence[JSONObject]) -> list[FieldError]:
    """``validateStorageVersionCondition``, whose paths name the status and not the conditions."""
    errors: list[FieldError] = []
    seen: dict[str, int] = {}
    for index, condition in enumerate(conditions):
        path, type_, status = _STATUS / index, condition.get("type", ""), condition.get("status", "")
        if type_ in seen:
            detail = f"the type of the condition is not unique, it also appears in conditions[{seen[type_]}]"
            errors.append(invalid(path / "type", type_, detail))
        seen[type_] = index
        for name, text in (("type", type_), ("status", status)):
            errors += [invalid(path / name, text, message) for message in names.check_qualified_name(text)]
        errors += [required(path / name) for name in ("reason", "message") if not condition.get(name)]
    return errors


# StorageVersionMigrations


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
SUBRESOURCE_VALIDATIONS: SubresourceTable = {
    ("internal.apiserver.k8s.io", "storageversions", "status"): SubresourceValidation(
        _validate_version_status
    ),
}
"""What updates of the status of StorageVersions are validated with."""
