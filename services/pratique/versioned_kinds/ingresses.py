"""Ingresses: v1 nests the service of a backend, and calls the backend of last resort the default one.

Sources: ``pkg/apis/networking/v1beta1/conversion.go`` and ``pkg/apis/extensions/v1beta1/conversion.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import SHARED, Form
from pratique.versioned_kinds.shapes import (
    changed,
    changed_items,
    integer,
    mapping,
    renamed,
    text,
    without,
)

if TYPE_CHECKING:
    from pratique.json_values import JSON, JSONObject
    from pratique.versioned_kinds.forms import Change, Family

_ANY_PATH_TYPE = {"pathType": "ImplementationSpecific"}
"""What v1beta1 means by no type of path (``…/v1beta1/defaults.go``), and v1 has no other word for."""


def _to_shared(ingress: JSONObject) -> JSONObject:
    return changed(ingress, "spec", _spec_to_shared)


def _spec_to_shared(spec: JSONObject) -> JSONObject:
    converted = renamed(changed(spec, "backend", _backend_to_shared), {"backend": "defaultBackend"})
    return _with_paths(converted, _path_to_shared)


def _path_to_shared(path: JSONObject) -> JSONObject:
    typed = path if path.get("pathType") is not None else {**path, **_ANY_PATH_TYPE}
    return changed(typed, "backend", _backend_to_shared)


def _backend_to_shared(backend: JSONObject) -> JSONObject:
    name = text(backend.get("serviceName"), "serviceName")
    port = backend.get("servicePort")
    plain = without(backend, "serviceName", "servicePort", "service")
    if not name and (port is None or port == 0):
        return plain
    return {"service": {"name": name, "port": _nested_port(port)}, **plain}


def _nested_port(port: JSON) -> JSONObject:
    if isinstance(port, str):
        return {"name": port} if port else {}
    number = integer(port, "servicePort")
    return {"number": number} if number else {}


def _from_shared(ingress: JSONObject) -> JSONObject:
    return changed(ingress, "spec", _spec_from_shared)


def _spec_from_shared(spec: JSONObject) -> JSONObject:
    converted = renamed(changed(spec, "defaultBackend", _backend_from_shared), {"defaultBackend": "backend"})
    return _with_paths(converted, lambda path: changed(path, "backend", _backend_from_shared))


def _backend_from_shared(backend: JSONObject) -> JSONObject:
    plain = without(backend, "service", "serviceName", "servicePort")
    if backend.get("service") is None:
        return plain
    service = mapping(backend["service"], "service")
    port = mapping(service.get("port"), "port")
    flat: JSON = text(port.get("name"), "name") or integer(port.get("number"), "number")
    return {"serviceName": text(service.get("name"), "name"), "servicePort": flat, **plain}


def _with_paths(spec: JSONObject, change: Change) -> JSONObject:
    return changed_items(
        spec,
        "rules",
        lambda rule: changed(rule, "http", lambda http: changed_items(http, "paths", change)),
    )


_FLAT = Form(_to_shared, _from_shared)

INGRESSES: Family = {
    "networking.k8s.io/v1": SHARED,
    "networking.k8s.io/v1beta1": _FLAT,
    "extensions/v1beta1": _FLAT,
}
