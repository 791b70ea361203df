"""Ingresses.

Source: ``ValidateIngressCreate`` and ``ValidateIngressUpdate`` of ``pkg/apis/networking/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.validation.addresses import check_port_name, parse_ip, validate_port
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    label_name,
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.networking import validate_typed_reference

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_CLASS = "kubernetes.io/ingress.class"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = pattern(rf"\*\.{_LABEL}(\.{_LABEL})*")
_WILDCARD_MESSAGE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of"
    " lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com',"
    f" regex used for validation is '{_WILDCARD.pattern}')"
)
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")


def _check_wildcard(host: str) -> list[str]:
    return [] if _WILDCARD.fullmatch(host) else [_WILDCARD_MESSAGE]


def _validate_host(host: str, path: FieldPath) -> list[FieldError]:
    check = _check_wildcard if "*" in host else names.check_dns1123_subdomain
    return [invalid(path, host, message) for message in check(host)]


def _spec(spec: JSONObject) -> list[FieldError]:
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    errors = []
    if not rules and backend is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid(_SPEC, spec.get("rules"), detail))
    if backend is not None:
        errors += _validate_backend(backend, _SPEC / "defaultBackend")
    errors += _validate_rules(rules, _SPEC / "rules")
    for index, entry in enumerate(spec.get("tls") or ()):
        path = _SPEC / "tls" / index
        for number, host in enumerate(entry.get("hosts") or ()):
            errors += _validate_host(host, path / "hosts" / number)
        if secret := entry.get("secretName"):
            errors += [invalid(path / "secretName", secret, text) for text in subdomain_name(secret, False)]
    name = spec.get("ingressClassName")
    if name is not None:
        place = _SPEC / "ingressClassName"
        errors += [invalid(place, name, message) for message in subdomain_name(name, False)]
    return errors


def _validate_rules(rules: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    errors = []
    for index, rule in enumerate(rules):
        host, place = rule.get("host", ""), path / index
        if host:
            if parse_ip(host) is not None:
                errors.append(invalid(place / "host", host, "must be a DNS name, not an IP address"))
            errors += _validate_host(host, place / "host")
        http = rule.get("http")
        if http is None:
            continue
        paths = http.get("paths") or ()
        if not paths:
            errors.append(required(place / "http" / "paths"))
        for number, entry in enumerate(paths):
            errors += _validate_path(entry, place / "http" / "paths" / number)
    return errors


def _validate_path(entry: JSONObject, path: FieldPath) -> list[FieldError]:
    type_, text, place = entry.get("pathType"), entry.get("path", ""), path / "path"
    if type_ is None:
        return [required(path / "pathType", "pathType must be specified")]
    errors = []
    if type_ not in _PATH_TYPES:
        errors.append(not_supported(path / "pathType", type_, _PATH_TYPES))
    elif not text.startswith("/") and (text or type_ != "ImplementationSpecific"):
        errors.append(invalid(place, text, "must be an absolute path"))
    if type_ in {"Exact", "Prefix"}:
        errors += [invalid(place, text, f"must not contain '{bad}'") for bad in _BAD_PARTS if bad in text]
        errors += [
            invalid(place, text, f"cannot end with '{bad}'") for bad in _BAD_ENDS if text.endswith(bad)
        ]
    return errors + _validate_backend(entry.get("backend") or {}, path / "backend")


def _validate_backend(backend: JSONObject, path: FieldPath) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return validate_typed_reference(resource, path / "resource")
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, place = service.get("name", ""), path / "service" / "name"
    errors = [invalid(place, name, message) for message in label_name(name, False) if name]
    if not name:
        errors.append(required(place))
    port = service.get("port") or {}
    port_name, number = port.get("name", ""), port.get("number", 0)
    if port_name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port_name:
        place = path / "service" / "port" / "name"
        errors += [invalid(place, port_name, message) for message in check_port_name(port_name)]
    elif number:
        errors += validate_port(number, path / "service" / "port" / "number")
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _whole(ingress: JSONObject) -> list[FieldError]:
    metadata = ingress.get("metadata") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=True)
    return errors + _spec(ingress.get("spec") or {})


def _class_annotation(ingress: JSONObject) -> str | None:
    found: str | None = ((ingress.get("metadata") or {}).get("annotations") or {}).get(_CLASS)
    return found


def _create(ingress: JSONObject, _: Review) -> list[FieldError]:
    errors, annotation = _whole(ingress), _class_annotation(ingress)
    name = (ingress.get("spec") or {}).get("ingressClassName")
    if annotation is not None and name is not None and annotation != name:
        detail = "must match `ingressClassName` when both are specified"
        errors.append(invalid(ROOT / "annotations" / _CLASS, annotation, detail))
    return errors


def _update(ingress: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata = ingress.get("metadata") or {}
    return validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA) + _whole(ingress)


def _warnings(ingress: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    named = (ingress.get("spec") or {}).get("ingressClassName") is not None
    if old is None and _class_annotation(ingress) is not None and not named:
        yield f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


VALIDATIONS: ValidationTable = {
    ("networking.k8s.io", "ingresses"): KindValidation(_create, _update, _warnings)
}
