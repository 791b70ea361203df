"""Custom resources and AdmissionReviews that are large in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from growth.fields import filled, places
from growth.measuring import fresh_number
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType

Value: TypeAlias = Callable[[int], JSON]

HULL = ResourceType(
    resource=GroupVersionResource("growth.example.com", "v1", "hulls"),
    kind=GroupVersionKind("growth.example.com", "v1", "Hull"),
    namespaced=True,
)
"""The custom resource of ``cluster.yaml``."""


def _listed(item: Value) -> Value:
    return lambda size: [item(number) for number in _numbers(size // 16)]


def _named(item: Value) -> Value:
    return lambda size: {f"k{number}": item(number) for number in _numbers(size // 16)}


def _numbers(count: int) -> range:
    number = fresh_number()
    return range(number, number + count)


CUSTOM_FIELDS: Mapping[str, Value] = {
    "set": _listed(lambda index: f"item-{index}"),
    "unique": _listed(lambda index: {"name": index}),
    "numbers": _listed(lambda index: index - 5),
    "lists": _listed(lambda index: [f"item-{index}"]),
    "keyed": _listed(lambda index: {"name": f"n{index}"}),
    "objects": _listed(lambda index: {"name": "ab"[index % 2]}),
    "named": _named(lambda index: f"text{index}"),
    "tree": _named(lambda index: {"size": index}),
    "any": _named(lambda index: {"a": index}),
    "choice": _named(lambda index: index),
    "atomic": _named(lambda index: index),
    "template": lambda size: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"labels": _named(str)(size)},
    },
    "unknown": _listed(lambda index: f"item-{index}"),
}
"""The fields of its ``spec``, and one that it does not have."""


def hull(field: str, size: int) -> JSONObject:
    """A custom resource with a large field."""
    return {
        "apiVersion": HULL.kind.api_version,
        "kind": HULL.kind.kind,
        "metadata": {"name": "web"},
        "spec": {field: CUSTOM_FIELDS[field](size)},
    }


REQUEST_FIELDS: Mapping[str, Callable[[int], JSONObject]] = {
    "groups": lambda size: {
        "userInfo": {"username": "alice", "groups": _listed(lambda i: f"group-{i}")(size)}
    },
    "extra": lambda size: {"userInfo": {"username": "alice", "extra": _named(lambda i: [f"e{i}"])(size)}},
    "values of extra": lambda size: {"userInfo": {"extra": {"a": _listed(lambda i: f"extra-{i}")(size)}}},
    "options": lambda size: {"options": _named(lambda index: index)(size)},
    "dryRun": lambda size: {"options": {"dryRun": _listed(lambda index: f"All{index}")(size)}},
}
"""Members of a request beside its objects."""


def small_pod() -> JSONObject:
    """A Pod."""
    kind = GroupVersionKind("", "v1", "Pod")
    return filled(places(kind)[0], "distinct", 1)
