"""Converters for Ingresses, EndpointSlices, Events, and the kinds that set policies.

These are RBAC bindings, PriorityLevelConfigurations and CustomResourceDefinitions. Source: ``conversion.go`` in
``pkg/apis/*/*``, and ``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/*/conversion.go``.
"""

from __future__ import annotations

import functools

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.conversion_fields import (
    SHARED,
    KindConverters,
    ObjectChange,
    VersionConverter,
    annotated,
    annotation,
    changed,
    changed_items,
    integer,
    mapping,
    mappings,
    present,
    renamed,
    text,
    without,
)

_ANY_PATH_TYPE = {"pathType": "ImplementationSpecific"}
"""v1beta1's default path type (``…/v1beta1/defaults.go``), which v1 has to spell out."""


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
    # A hostname other than the node's name is kept: it says something that nodeName does not.
    is_node_name = topology.get(_HOSTNAME) is not None and topology[_HOSTNAME] == endpoint.get("nodeName")
    rest = without(topology, _ZONE, *([_HOSTNAME] if is_node_name else []))
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

_NEWER = VersionConverter(
    functools.partial(renamed, names=_TO_CORE), functools.partial(renamed, names=_FROM_CORE)
)

EVENTS: KindConverters = {"v1": SHARED, "events.k8s.io/v1": _NEWER, "events.k8s.io/v1beta1": _NEWER}


_RBAC_API_GROUP = "rbac.authorization.k8s.io"
_RBAC_V1ALPHA1 = f"{_RBAC_API_GROUP}/v1alpha1"


def _binding_to_shared(binding: JSONObject) -> JSONObject:
    return changed_items(binding, "subjects", _subject_to_shared)


def _subject_to_shared(subject: JSONObject) -> JSONObject:
    kind = text(subject.get("kind"), "kind")
    group = _group_of(kind, text(subject.get("apiVersion"), "apiVersion"))
    plain = without(subject, "apiVersion", "apiGroup") | ({"apiGroup": group} if group else {})
    if (kind, subject.get("name")) == ("User", "*"):
        return {**plain, "kind": "Group", "name": "system:authenticated"}
    return plain


def _group_of(kind: str, api_version: str) -> str:
    if kind in {"User", "Group"}:
        return _RBAC_API_GROUP
    if kind == "ServiceAccount" or api_version.count("/") != 1:
        return ""
    return api_version.partition("/")[0]


def _binding_from_shared(binding: JSONObject) -> JSONObject:
    return changed_items(binding, "subjects", _subject_from_shared)


def _subject_from_shared(subject: JSONObject) -> JSONObject:
    kind, group = text(subject.get("kind"), "kind"), text(subject.get("apiGroup"), "apiGroup")
    if kind == "ServiceAccount" and not group:
        api_version = "v1"
    elif kind in {"User", "Group"} and group == _RBAC_API_GROUP:
        api_version = _RBAC_V1ALPHA1
    else:
        api_version = f"{group}/" if group else ""
    return without(subject, "apiVersion", "apiGroup") | ({"apiVersion": api_version} if api_version else {})


RBAC_BINDINGS: KindConverters = {
    f"{_RBAC_API_GROUP}/v1": SHARED,
    f"{_RBAC_API_GROUP}/v1beta1": SHARED,
    _RBAC_V1ALPHA1: VersionConverter(_binding_to_shared, _binding_from_shared),
}


_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


def _with_limited_field(old: str, new: str) -> ObjectChange:
    return lambda level: changed(
        level, "spec", lambda spec: changed(spec, "limited", lambda limited: renamed(limited, {old: new}))
    )


def _v1beta3_to_shared(level: JSONObject) -> JSONObject:
    return annotated(level, {}, [_ZERO])


def _v1beta3_from_shared(level: JSONObject) -> JSONObject:
    limited = mapping(mapping(level.get("spec"), "spec").get("limited"), "limited")
    if limited.get("nominalConcurrencyShares") != 0 or annotation(level, _ZERO) is not None:
        return level
    return annotated(level, {_ZERO: ""})


_ASSURED, _NOMINAL = "assuredConcurrencyShares", "nominalConcurrencyShares"
_ASSURED_SHARES = VersionConverter(
    _with_limited_field(_ASSURED, _NOMINAL), _with_limited_field(_NOMINAL, _ASSURED)
)
_FLOW_CONTROL_GROUP = "flowcontrol.apiserver.k8s.io"

PRIORITY_LEVELS: KindConverters = {
    f"{_FLOW_CONTROL_GROUP}/v1": SHARED,
    f"{_FLOW_CONTROL_GROUP}/v1beta3": VersionConverter(_v1beta3_to_shared, _v1beta3_from_shared),
    f"{_FLOW_CONTROL_GROUP}/v1beta2": _ASSURED_SHARES,
    f"{_FLOW_CONTROL_GROUP}/v1beta1": _ASSURED_SHARES,
    f"{_FLOW_CONTROL_GROUP}/v1alpha1": _ASSURED_SHARES,
}


_SHARED_FIELDS = {
    "subresources": "subresources",
    "schema": "validation",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""Fields of a version in v1, and the names under which v1beta1 sets them for all versions."""


def _definition_to_shared(definition: JSONObject) -> JSONObject:
    return changed(definition, "spec", _definition_spec_to_shared)


def _definition_spec_to_shared(spec: JSONObject) -> JSONObject:
    versions = [_columns_to_shared(version) for version in mappings(spec.get("versions"), "versions")]
    common = _common(versions)
    converted = changed(
        {
            **without(spec, "versions", *_SHARED_FIELDS.values()),
            **({"versions": [without(version, *common) for version in versions]} if versions else {}),
            **present(**{_SHARED_FIELDS[name]: value for name, value in common.items()}),
            # Absent means false in v1, and true in v1beta1.
            "preserveUnknownFields": spec.get("preserveUnknownFields") or False,
        },
        "conversion",
        _conversion_to_shared,
    )
    return {**converted, "version": text(versions[0].get("name"), "name")} if versions else converted


def _common(versions: list[JSONObject]) -> dict[str, JSON]:
    """The fields that have the same value, or are missing, in all versions."""
    if not versions:
        return {}
    first = versions[0]
    common = {
        name: first.get(name)
        for name in _SHARED_FIELDS
        if all(version.get(name) == first.get(name) for version in versions)
    }
    # Selectable fields belong to the schema, and stay with it.
    return common if "schema" in common else {n: v for n, v in common.items() if n != "selectableFields"}


def _columns_to_shared(version: JSONObject) -> JSONObject:
    return changed_items(
        version, "additionalPrinterColumns", lambda column: renamed(column, {"jsonPath": "JSONPath"})
    )


def _columns_from_shared(version: JSONObject) -> JSONObject:
    return changed_items(
        version, "additionalPrinterColumns", lambda column: renamed(column, {"JSONPath": "jsonPath"})
    )


def _conversion_to_shared(conversion: JSONObject) -> JSONObject:
    webhook = mapping(conversion.get("webhook"), "webhook")
    return without(conversion, "webhook") | present(
        webhookClientConfig=webhook.get("clientConfig"),
        conversionReviewVersions=webhook.get("conversionReviewVersions"),
    )


def _definition_from_shared(definition: JSONObject) -> JSONObject:
    return changed(definition, "spec", _definition_spec_from_shared)


def _definition_spec_from_shared(spec: JSONObject) -> JSONObject:
    versions = mappings(spec.get("versions"), "versions")
    if not versions and spec.get("version"):
        versions = [{"name": spec["version"], "served": True, "storage": True}]
    common = {name: spec[of_all] for name, of_all in _SHARED_FIELDS.items() if spec.get(of_all) is not None}
    written = [_columns_from_shared({**version, **common}) for version in versions]
    converted = {
        **without(spec, "version", "versions", "preserveUnknownFields", *_SHARED_FIELDS.values()),
        **({"versions": written} if written else {}),
        # v1beta1 preserves unknown fields unless told otherwise: its defaults.go.
        **({} if spec.get("preserveUnknownFields") is False else {"preserveUnknownFields": True}),
    }
    return changed(converted, "conversion", _conversion_from_shared)


def _conversion_from_shared(conversion: JSONObject) -> JSONObject:
    webhook = present(
        clientConfig=conversion.get("webhookClientConfig"),
        conversionReviewVersions=conversion.get("conversionReviewVersions"),
    )
    plain = without(conversion, "webhook", "webhookClientConfig", "conversionReviewVersions")
    return {**plain, "webhook": webhook} if webhook else plain


CUSTOM_RESOURCE_DEFINITIONS: KindConverters = {
    "apiextensions.k8s.io/v1": VersionConverter(_definition_to_shared, _definition_from_shared),
    "apiextensions.k8s.io/v1beta1": SHARED,
}
