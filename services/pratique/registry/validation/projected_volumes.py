"""Volumes with files from elsewhere: fields of the Pod, and several sources in one volume.

Source: ``validateDownwardAPIVolumeSource`` and ``validateProjectedVolumeSource`` of
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.go_values import internal_value
from pratique.registry.validation.certificates import bundle_name_rule, validate_signer_name
from pratique.registry.validation.environments import (
    FIELDS_FOR_FILES,
    validate_field_reference,
    validate_resource_reference,
)
from pratique.registry.validation.metadata import (
    MAX_ANNOTATIONS_SIZE,
    annotations_size,
    validate_label_selector,
)
from pratique.registry.validation.pod_context import PodOptions
from pratique.registry.validation.volume_paths import (
    validate_file_defaults,
    validate_file_path,
    validate_id,
    validate_key_path,
    validate_mode,
)

_DUPLICATE = "conflicting duplicate paths"


def validate_downward_api(source: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate files that show fields of the Pod; errors in them have the volume's path."""
    errors = validate_file_defaults(source, path)
    for file in source.get("items") or ():
        errors += _validate_pod_file(file, path)
    return errors


def _validate_pod_file(file: JSONObject, path: FieldPath) -> list[FieldError]:
    text, field, resource = file.get("path", ""), file.get("fieldRef"), file.get("resourceFieldRef")
    errors = [] if text else [required(path / "path")]
    errors += validate_file_path(text, path / "path")
    if field is not None:
        errors += validate_field_reference(field, path / "fieldRef", FIELDS_FOR_FILES)
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif resource is not None:
        errors += validate_resource_reference(resource, path / "resourceFieldRef", names_container=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    errors += validate_mode(file.get("mode"), path / "mode")
    return errors + validate_id(file.get("user"), path / "user")


class _Files:
    """The files of a volume so far, of which no two may have one path."""

    def __init__(self, path: FieldPath, options: PodOptions) -> None:
        self.path = path
        self.options = options
        self._found: set[str] = set()

    def add(self, text: str, shown: str) -> list[FieldError]:
        """Add a file; one that is there already is an error, which shows something."""
        errors = [invalid(self.path, shown, _DUPLICATE)] if text in self._found else []
        self._found.add(text)
        return errors


def validate_projected(source: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    """Validate a volume of several sources."""
    errors, files = validate_file_defaults(source, path), _Files(path, options)
    for index, projection in enumerate(source.get("sources") or ()):
        place = path / "sources" / index
        given = [name for name in _PROJECTIONS if projection.get(name) is not None]
        for name in given:
            errors += _PROJECTIONS[name](projection[name], place / name, files)
        if len(given) > 1:
            errors.append(forbidden(place, "may not specify more than 1 volume type per source"))
    return errors


def _object_keys(projection: JSONObject, path: FieldPath, files: _Files) -> list[FieldError]:
    name = projection.get("name", "")
    errors = [] if name else [required(path / "name")]
    for index, item in enumerate(projection.get("items") or ()):
        errors += validate_key_path(item, path / "items" / index)
        if text := item.get("path"):
            errors += files.add(text, name)
    return errors


def _pod_fields(projection: JSONObject, path: FieldPath, files: _Files) -> list[FieldError]:
    errors = []
    for file in projection.get("items") or ():
        errors += _validate_pod_file(file, path)
        if text := file.get("path"):
            errors += files.add(text, text)
    return errors


_SHORTEST_TOKEN, _LONGEST_TOKEN = 600, 2**32


def _token(projection: JSONObject, path: FieldPath, files: _Files) -> list[FieldError]:
    seconds, place = projection.get("expirationSeconds"), path / "expirationSeconds"
    errors = [required(place)] if seconds is None else []
    if seconds is not None and seconds < _SHORTEST_TOKEN:
        errors.append(invalid(place, seconds, "may not specify a duration less than 10 minutes"))
    if seconds is not None and seconds > _LONGEST_TOKEN:
        errors.append(invalid(place, seconds, "may not specify a duration larger than 2^32 seconds"))
    # the API server gives the path of the volume here
    text, place = projection.get("path", ""), files.path / "path"
    if not text:
        errors.append(required(place))
    elif not files.options.token_paths_outside:
        errors += validate_file_path(text, place)
    return errors + validate_id(projection.get("user"), path / "user")


def _trust_bundle(projection: JSONObject, path: FieldPath, files: _Files) -> list[FieldError]:
    text = projection.get("path", "")
    errors = _validate_which_bundle(projection, path)
    errors += [] if text else [required(path / "path")]
    errors += validate_id(projection.get("user"), path / "user")
    errors += validate_file_path(text, path / "path")
    return errors + files.add(text, text)


def _validate_which_bundle(projection: JSONObject, path: FieldPath) -> list[FieldError]:
    name, signer, selector = (projection.get(field) for field in ("name", "signerName", "labelSelector"))
    if name is None and signer is None:
        return [required(path, "either name or signerName must be specified")]
    if name is not None and signer is not None:
        shown = internal_value("core.ClusterTrustBundleProjection", projection)
        return [invalid(path, shown, "only one of name and signerName may be used")]
    if signer is not None:
        place = path / "signerName"
        errors = [] if signer else [required(place, "must be a valid signer name")]
        errors += validate_signer_name(signer, place)
        return errors + validate_label_selector(selector, path / "labelSelector")
    return _validate_bundle_name(name or "", selector, path)


def _validate_bundle_name(name: str, selector: JSONObject | None, path: FieldPath) -> list[FieldError]:
    prefix, colon, _ = name.rpartition(":")
    rule = bundle_name_rule(prefix.replace(":", "/") if colon else "")
    place = path / "name"
    errors = [] if name else [required(place, "must be a valid object name")]
    errors += [
        invalid(place, name, f"not a valid clustertrustbundlename: {message}")
        for message in rule(name, False)
    ]
    if selector is not None:
        shown = internal_value("*meta.v1.LabelSelector", selector)
        detail = "labelSelector must be unset if name is specified"
        errors.append(invalid(path / "labelSelector", shown, detail))
    return errors


_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_DAY = 24 * 60 * 60
_SHORTEST_CERTIFICATE, _LONGEST_CERTIFICATE = 3600, 91 * _DAY
_CERTIFICATE_PATHS = ("credentialBundlePath", "keyPath", "certificateChainPath")


def _certificate(projection: JSONObject, path: FieldPath, files: _Files) -> list[FieldError]:
    signer = projection.get("signerName", "")
    errors = validate_signer_name(signer, path / "signerName")
    errors += _validate_user_annotations(projection.get("userAnnotations") or {}, path / "userAnnotations")
    errors += validate_id(projection.get("user"), path / "user")
    key_type = projection.get("keyType", "")
    if key_type not in _KEY_TYPES:
        errors.append(not_supported(path / "keyType", key_type, _KEY_TYPES))
    seconds, place = projection.get("maxExpirationSeconds"), path / "maxExpirationSeconds"
    domain = "." + signer.partition("/")[0]
    longest = _DAY if domain.endswith(".kubernetes.io") else _LONGEST_CERTIFICATE
    if seconds is not None and seconds < _SHORTEST_CERTIFICATE:
        detail = f"if provided, maxExpirationSeconds must be >= {_SHORTEST_CERTIFICATE}"
        errors.append(invalid(place, seconds, detail))
    if seconds is not None and seconds > longest:
        errors.append(invalid(place, seconds, f"if provided, maxExpirationSeconds must be <= {longest}"))
    given = [(field, text) for field in _CERTIFICATE_PATHS if (text := projection.get(field))]
    for field, text in given:
        errors += validate_file_path(text, path / field) + files.add(text, text)
    if not given:
        which = "credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(required(path, f"specify at least one of {which}"))
    return errors


def _validate_user_annotations(annotations: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    errors = []
    for key in sorted(annotations):
        name = key.lower()
        messages = names.check_qualified_name(name) if name else []
        if name and not messages and "/" not in name:
            messages = ['must be a domain-prefixed key (such as "acme.io/foo")']
        errors += [invalid(path, name, message) for message in messages] if name else [required(path)]
    if annotations_size(annotations) > MAX_ANNOTATIONS_SIZE:
        errors.append(too_long(path, MAX_ANNOTATIONS_SIZE))
    return errors


_PROJECTIONS: Mapping[str, Callable[[JSONObject, FieldPath, _Files], list[FieldError]]] = {
    "secret": _object_keys,
    "configMap": _object_keys,
    "downwardAPI": _pod_fields,
    "serviceAccountToken": _token,
    "clusterTrustBundle": _trust_bundle,
    "podCertificate": _certificate,
}
"""The checks of sources, in the order in which the API server makes them."""
