"""Conversions for tests: an object as plain JSON, and the version that it is wanted in."""

from __future__ import annotations

import copy

from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, parse_api_version
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.conversion import convert, without_conversion_webhooks
from pratique.cluster.store import ANY_NAMESPACE, Cluster


def converted(document: JSONObject, api_version: str, *, cluster: Cluster = ANY_NAMESPACE) -> JSONObject:
    """Convert an object, and check that it is left as it was."""
    before = copy.deepcopy(document)
    kind = GroupVersionKind(*parse_api_version(api_version), document["kind"])
    collection, source = _collection(kind, cluster.resources), Document.from_data(document)
    found = without_conversion_webhooks(lambda: convert(source, collection, kind, cluster))
    assert document == before
    result = found.data
    assert (result["apiVersion"], result["kind"]) == (api_version, document["kind"])
    assert isinstance(result, dict)
    return result


def _collection(kind: GroupVersionKind, resources: ApiResources) -> GroupVersionResource:
    return next(each.resource for each in resources if each.kind == kind)


def without_type(document: JSONObject) -> JSONObject:
    """All of an object but ``apiVersion`` and ``kind``."""
    return {name: value for name, value in document.items() if name not in {"apiVersion", "kind"}}
