"""Ingresses, EndpointSlices and Events in all their versions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pratique.cluster.conversion_shapes import (
    SHARED,
    VersionConverter,
    changed,
    changed_items,
    integer,
    mapping,
    present,
    renamed,
    text,
    without,
)

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON, JSONObject
    from pratique.cluster.conversion_shapes import ObjectChange, KindConverters

_ANY_PATH_TYPE = {"pathType": "ImplementationSpecific"}
"""What v1beta1 means by no type of path (``…/v1beta1/defaults.go``), and v1 has no other word for."""


def _ingress_to_shared(ingress: JSONObject) -> JSONObject:
    return changed(ingress, "spec", _ingress_spec_to_shared)


def _ingress_spec_to_shared(spec: JSONObject) -> JSONObject:
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


def _ingress_from_shared(ingress: JSONObject) -> JSONObject:
    return changed(ingress, "spec", _ingress_spec_from_shared)


def _ingress_spec_from_shared(spec: JSONObject) -> JSONObject:
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


def _with_paths(spec: JSONObject, change: ObjectChange) -> JSONObject:
    return changed_items(
        spec,
        "rules",
        lambda rule: changed(rule, "http", lambda http: changed_items(http, "paths", change)),
    )


_V1BETA1_INGRESS = VersionConverter(_ingress_to_shared, _ingress_from_shared)

INGRESSES: KindConverters = {
    "networking.k8s.io/v1": SHARED,
    "networking.k8s.io/v1beta1": _V1BETA1_INGRESS,
    "extensions/v1beta1": _V1BETA1_INGRESS,
}


_ZONE = "topology.kubernetes.io/zone"
_HOSTNAME = "kubernetes.io/hostname"


def _endpoint_slices_to_shared(endpoint_slice: JSONObject) -> JSONObject:
    return changed_items(endpoint_slice, "endpoints", _endpoint_to_shared)


def _endpoint_to_shared(endpoint: JSONObject) -> JSONObject:
    plain = without(endpoint, "topology", "deprecatedTopology", "zone")
    topology = mapping(endpoint.get("topology"), "topology")
    zone = topology.get(_ZONE)
    # One that is not the node's own name is kept: it tells something that nodeName does not.
    told_twice = topology.get(_HOSTNAME) is not None and topology[_HOSTNAME] == endpoint.get("nodeName")
    rest = without(topology, _ZONE, *([_HOSTNAME] if told_twice else []))
    return plain | present(deprecatedTopology=rest or None, zone=zone)


def _endpoint_slices_from_shared(endpoint_slice: JSONObject) -> JSONObject:
    return changed_items(endpoint_slice, "endpoints", _endpoint_from_shared)


def _endpoint_from_shared(endpoint: JSONObject) -> JSONObject:
    topology = dict(mapping(endpoint.get("deprecatedTopology"), "deprecatedTopology"))
    if endpoint.get("zone") is not None:
        topology[_ZONE] = text(endpoint["zone"], "zone")
    if endpoint.get("nodeName") is not None and not topology.get(_HOSTNAME):
        topology[_HOSTNAME] = text(endpoint["nodeName"], "nodeName")
    plain = without(endpoint, "deprecatedTopology", "zone", "topology")
    return {**plain, "topology": topology} if topology else plain


ENDPOINT_SLICES: KindConverters = {
    "discovery.k8s.io/v1": SHARED,
    "discovery.k8s.io/v1beta1": VersionConverter(_endpoint_slices_to_shared, _endpoint_slices_from_shared),
}


_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: name for name, core in _TO_CORE.items()}

_NEWER = VersionConverter(functools.partial(renamed, names=_TO_CORE), functools.partial(renamed, names=_FROM_CORE))

EVENTS: KindConverters = {"v1": SHARED, "events.k8s.io/v1": _NEWER, "events.k8s.io/v1beta1": _NEWER}
