"""ConfigMaps, Secrets, ServiceAccounts, Namespaces and Endpoints.

Source: the functions of these names in ``pkg/apis/core/validation/validation.go``, and their strategies' warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_reading import syntax_error, type_error
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.validation.addresses import (
    ip_warnings,
    validate_endpoint_ip,
    validate_legacy_ip,
    validate_port,
)
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    label_name,
    subdomain_name,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.x509 import key_pair_problem

_METADATA, _DATA = ROOT / "metadata", ROOT / "data"
_MAX_SIZE = 1024 * 1024
"""Bytes of all values of a ConfigMap or Secret: ``MaxSecretSize``."""
_KEY = pattern(r"[-._a-zA-Z0-9]+")
_MAX_KEY = 253
_IMMUTABLE = "field is immutable when `immutable` is set"


def check_key(key: str) -> list[str]:
    """What is wrong with a key of a ConfigMap or Secret: ``IsConfigMapKey``."""
    if len(key) <= _MAX_KEY and not key.startswith(".") and _KEY.fullmatch(key):
        return []
    messages = [f"must be no more than {_MAX_KEY} characters"] if len(key.encode()) > _MAX_KEY else []
    if not _KEY.fullmatch(key):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        examples = "'key.name',  or 'KEY_NAME',  or 'key-name', "
        messages.append(f"{rule} (e.g. {examples}regex used for validation is '{_KEY.pattern}')")
    if key in {".", ".."}:
        messages.append(f"must not be '{key}'")
    elif key.startswith(".."):
        messages.append("must not start with '..'")
    return messages


def _metadata_errors(document: JSONObject) -> list[FieldError]:
    return validate_metadata(document.get("metadata") or {}, subdomain_name, _METADATA, namespaced=True)


def _metadata_update_errors(document: JSONObject, old: JSONObject) -> list[FieldError]:
    return validate_metadata_update(document.get("metadata") or {}, old.get("metadata") or {}, _METADATA)


def _config_map(config: JSONObject, _: Review) -> list[FieldError]:
    errors = _metadata_errors(config)
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key in sorted(data):
        if messages := check_key(key):
            errors += [invalid(_DATA.key(key), key, message) for message in messages]
        if key in binary:
            errors.append(invalid(_DATA.key(key), key, "duplicate of key present in binaryData"))
    for key in sorted(binary):
        errors += [invalid((ROOT / "binaryData").key(key), key, message) for message in check_key(key)]
    size = sum(len(text.encode()) for text in data.values()) + _decoded_size(binary)
    return [*errors, too_long(ROOT, _MAX_SIZE)] if size > _MAX_SIZE else errors


def _decoded_size(binary: JSONObject) -> int:
    return sum(len(text) * 3 // 4 - text.count("=") for text in filter(None, binary.values()))


def _config_map_update(config: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    errors = _metadata_update_errors(config, old) + _frozen(config, old, ("data", "binaryData"))
    return errors + _config_map(config, review)


def _frozen(document: JSONObject, old: JSONObject, fields: Sequence[str]) -> list[FieldError]:
    """Refuse changes of what was made immutable."""
    if old.get("immutable") is not True:
        return []
    errors = [] if document.get("immutable") is True else [forbidden(ROOT / "immutable", _IMMUTABLE)]
    # Go tells an empty map, which only a request has, from none.
    changed = (name for name in fields if document.get(name) != (old.get(name) or None))
    return errors + [forbidden(ROOT / name, _IMMUTABLE) for name in changed]


_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def _secret(secret: JSONObject, _: Review) -> list[FieldError]:
    errors, data = _metadata_errors(secret), secret.get("data") or {}
    for key in sorted(data):
        errors += [invalid(_DATA.key(key), key, message) for message in check_key(key)]
    if _decoded_size(data) > _MAX_SIZE:
        errors.append(too_long(_DATA, _MAX_SIZE))
    return errors + _validate_secret_type(secret, data)


def _validate_secret_type(secret: JSONObject, data: JSONObject) -> list[FieldError]:
    match secret.get("type", ""):
        case "kubernetes.io/service-account-token":
            name = "kubernetes.io/service-account.name"
            annotations = (secret.get("metadata") or {}).get("annotations") or {}
            return [] if annotations.get(name) else [required((_METADATA / "annotations").key(name))]
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson" as type_:
            return _validate_docker_config(data, _REQUIRED_KEYS[type_])
        case "kubernetes.io/basic-auth" if not data.keys() & {"username", "password"}:
            return [required(_DATA.key(key)) for key in ("username", "password")]
        case "kubernetes.io/ssh-auth" if not data.get("ssh-privatekey"):
            return [required(_DATA.key("ssh-privatekey"))]
        case "kubernetes.io/tls":
            return [required(_DATA.key(key)) for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _validate_docker_config(data: JSONObject, key: str) -> list[FieldError]:
    if key not in data:
        return [required(_DATA.key(key))]
    message = _json_fault(decode_base64(data[key] or ""))
    return [invalid(_DATA.key(key), "<secret contents redacted>", message)] if message else []


def _json_fault(text: bytes) -> str:
    """What Go's decoder says of a text that is no JSON object; it shows one character of it at most."""
    if fault := syntax_error(text):
        return fault
    first = text.lstrip()[:1]
    return "" if first in {b"{", b"n"} else type_error(_BEGINNINGS.get(first, 0), "map[string]interface {}")


_BEGINNINGS: Mapping[bytes, JSON] = {b"[": [], b'"': "", b"t": True, b"f": False}
"""Of values that are no numbers, one of the same type as others that begin so."""


def _secret_update(secret: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    errors = _metadata_update_errors(secret, old)
    changed = validate_immutable(secret.get("type", ""), old.get("type", ""), ROOT / "type")
    errors += covered(changed, "immutable") + _frozen(secret, old, ("data",))
    return errors + _secret(secret, review)


def _secret_warnings(secret: JSONObject, _old: JSONObject | None, _: Review) -> Iterator[str]:
    if secret.get("type") == "kubernetes.io/tls":
        data = secret.get("data") or {}
        certificate, key = (decode_base64(data.get(name) or "") for name in ("tls.crt", "tls.key"))
        if problem := key_pair_problem(certificate, key):
            yield problem


def _service_account(account: JSONObject, _: Review) -> list[FieldError]:
    return _metadata_errors(account)


def _service_account_update(account: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    return _metadata_update_errors(account, old) + _metadata_errors(account)


_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


def _service_account_warnings(account: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    def has_annotation(document: JSONObject | None) -> bool:
        return _MOUNTABLE in (((document or {}).get("metadata") or {}).get("annotations") or {})

    if has_annotation(account) and not has_annotation(old):
        advice = "prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; {advice}"


def _namespace(namespace: JSONObject, _: Review) -> list[FieldError]:
    errors = validate_metadata(namespace.get("metadata") or {}, label_name, _METADATA, namespaced=False)
    path = ROOT / "spec" / "finalizers"
    for finalizer in (namespace.get("spec") or {}).get("finalizers") or ():
        errors += [invalid(path, finalizer, message) for message in names.check_qualified_name(finalizer)]
        if "/" not in finalizer and finalizer not in {"kubernetes", "orphan", "foregroundDeletion"}:
            message = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(path, finalizer, message))
    return errors


def _namespace_update(namespace: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    return _metadata_update_errors(namespace, old)


_SUBSETS = ROOT / "subsets"


def _endpoints(endpoints: JSONObject, _: Review) -> list[FieldError]:
    return _metadata_errors(endpoints) + _validate_subsets(endpoints.get("subsets") or [])


def _endpoints_update(endpoints: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    errors = _metadata_update_errors(endpoints, old) + _metadata_errors(endpoints)
    subsets = endpoints.get("subsets") or []
    return errors if subsets == (old.get("subsets") or []) else errors + _validate_subsets(subsets)


def _validate_subsets(subsets: Sequence[JSONObject]) -> list[FieldError]:
    errors = []
    for index, subset in enumerate(subsets):
        path = _SUBSETS / index
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for name in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(name) or ()):
                errors += _validate_address(address, path / name / number)
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            errors += validate_endpoint_port(port, path / "ports" / number, needs_name=len(ports) > 1)
    return errors


def _validate_address(address: JSONObject, path: FieldPath) -> list[FieldError]:
    ip = address.get("ip", "")
    errors = validate_legacy_ip(ip, path / "ip")
    if host := address.get("hostname"):
        errors += [invalid(path / "hostname", host, message) for message in names.check_dns1123_label(host)]
    if (node := address.get("nodeName")) is not None:
        place = path / "nodeName"
        errors += [invalid(place, node, message) for message in names.check_dns1123_subdomain(node)]
    return errors + validate_endpoint_ip(ip, path / "ip")


_PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_endpoint_port(port: JSONObject, path: FieldPath, *, needs_name: bool) -> list[FieldError]:
    """Validate a port of Endpoints: ``validateEndpointPort``."""
    errors, name, protocol = [], port.get("name", ""), port.get("protocol", "")
    if name:
        errors += [invalid(path / "name", name, message) for message in names.check_dns1123_label(name)]
    elif needs_name:
        errors.append(required(path / "name"))
    errors += validate_port(port.get("port"), path / "port")
    if not protocol:
        errors.append(required(path / "protocol"))
    elif protocol not in _PROTOCOLS:
        errors.append(not_supported(path / "protocol", protocol, _PROTOCOLS))
    if (application := port.get("appProtocol")) is not None:
        place = path / "appProtocol"
        errors += [invalid(place, application, text) for text in names.check_qualified_name(application)]
    return errors


def _endpoints_warnings(endpoints: JSONObject, _old: JSONObject | None, _: Review) -> Iterator[str]:
    yield "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    labels = (endpoints.get("metadata") or {}).get("labels") or {}
    if labels.get("endpoints.kubernetes.io/managed-by") == "endpoint-controller":
        return
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        for name in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(name) or ()):
                yield from ip_warnings(address.get("ip", ""), _SUBSETS / index / name / number / "ip")


VALIDATIONS: ValidationTable = {
    ("", "configmaps"): KindValidation(_config_map, _config_map_update),
    ("", "secrets"): KindValidation(_secret, _secret_update, _secret_warnings),
    ("", "serviceaccounts"): KindValidation(
        _service_account, _service_account_update, _service_account_warnings
    ),
    ("", "namespaces"): KindValidation(_namespace, _namespace_update),
    ("", "endpoints"): KindValidation(_endpoints, _endpoints_update, _endpoints_warnings),
}
