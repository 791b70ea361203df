"""Hypothesis strategies that build small, plausible objects from the schemas of their kinds.

Importing Hypothesis takes a third of a second, so this module is imported only when objects are generated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.schemas import ListType, MapType, MergeStrategy, Scalar, Structure, Type
from pratique_cli.mutator_checks.generation import GeneratedKind, Vocabulary

Draw: TypeAlias = "Callable[[st.SearchStrategy[JSON]], JSON]"

_DEEPEST = 7
"""Below this depth, only required fields are generated: ``spec.template.spec.containers[].resources.limits`` has seven
levels."""
_OFTEN = frozenset({
    "annotations", "containers", "image", "imagePullPolicy", "initContainers", "labels", "limits", "replicas",
    "requests", "resources", "runAsNonRoot", "runAsUser", "securityContext", "selector", "tolerations", "volumes",
})  # fmt: skip
"""Fields that policies use most, generated often in any case."""
_ALWAYS = frozenset({"metadata", "spec", "template"})
"""Fields that almost every object has, though schemas do not require them."""
_NEVER = frozenset({
    "apiVersion", "kind", "status",
    # set by the API server, or by controllers of a cluster
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
    "ownerReferences", "resourceVersion", "selfLink", "uid", "generateName", "finalizers", "ephemeralContainers",
    # refer to other objects, which do not exist, so that controllers would deny them
    "namespace", "nodeName", "overhead", "preemptionPolicy", "priority", "priorityClassName", "runtimeClassName",
    "serviceAccount", "serviceAccountName", "schedulingGroup", "resourceClaims", "storageClassName", "dataSource",
    "dataSourceRef", "volumeName", "secretRef", "secretName",
})  # fmt: skip
_CHOICES: dict[str, tuple[str, ...]] = {
    "dnsPolicy": ("ClusterFirst", "Default", "None"),
    "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "operator": ("Exists", "Equal", "In"),
    "pathType": ("Prefix", "Exact"),
    "protocol": ("TCP", "UDP", "SCTP"),
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "image": ("nginx", "nginx:1.27", "registry.example/team/app:1.0"),
    "ip": ("192.0.2.1", "192.0.2.2"),
    "mountPath": ("/data", "/tmp", "/etc/config"),  # noqa: S108 - where a container might mount something
    "volumeMode": ("Filesystem", "Block"),
    "accessModes": ("ReadWriteOnce", "ReadOnlyMany"),
}
_TEXTS = ("a", "b", "web")
_AMOUNTS = ("100m", "1", "2", "64Mi", "1Gi")
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")
_SCALARS: dict[Scalar, st.SearchStrategy[JSON]] = {
    Scalar.BYTES: st.sampled_from(["", "YQ=="]),
    Scalar.DATE_TIME: st.sampled_from(["2026-01-01T00:00:00Z"]),
    Scalar.DATE: st.sampled_from(["2026-01-01"]),
    Scalar.DURATION: st.sampled_from(["1s", "1h0m0s"]),
    Scalar.NUMBER: st.sampled_from([0, 1, 0.5]),
    Scalar.BOOLEAN: st.booleans(),
    Scalar.QUANTITY: st.sampled_from(_AMOUNTS),
    Scalar.INT_OR_STRING: st.sampled_from([1, 8080, "50%", "http"]),
    Scalar.ANY: st.just({}),
}


@st.composite
def generated_objects(draw: Draw, kind: GeneratedKind, words: Vocabulary) -> JSONObject:
    """Generate objects of a kind."""
    fields = _ObjectBuilder(draw, words).structure(kind.schema, 0)
    metadata = fields.pop("metadata", {})
    return {
        "apiVersion": kind.kind.api_version,
        "kind": kind.kind.kind,
        "metadata": {**metadata, "name": draw(st.sampled_from(["made", *words.names]))},
        **fields,
    }


class _ObjectBuilder:
    """Builds one object, value by value."""

    def __init__(self, draw: Draw, words: Vocabulary) -> None:
        self._draw = draw
        self._words = words
        self._names = [*_TEXTS, *words.names]
        self._keys = [*_TEXTS, *words.keys]
        self._values = [*_TEXTS, *words.values]

    def structure(self, type_: Structure, depth: int) -> JSONObject:
        """Build an object with its required fields, some fields of the vocabulary, and seldom another one."""
        fields = [name for name in sorted(type_.fields) if name not in _NEVER or name in type_.required]
        needed = [name for name in fields if name in type_.required or name in _ALWAYS]
        chosen = set(needed)
        if depth < _DEEPEST:
            often = [name for name in fields if name in _OFTEN or name in self._words.fields]
            seldom = [name for name in fields if name not in often]
            chosen |= self._some(often, 4) | self._some(seldom, 1)
        return {name: self._value(type_.fields[name], name, depth + 1) for name in fields if name in chosen}

    def _some(self, names: Sequence[str], most: int) -> set[str]:
        if not names:
            return set()
        return set(self._draw(st.lists(st.sampled_from(names), unique=True, max_size=most)))

    def _value(self, type_: Type, field: str, depth: int) -> JSON:
        if isinstance(type_, Structure):
            return self.structure(type_, depth)
        if isinstance(type_, ListType):
            return self._list(type_, field, depth)
        if isinstance(type_, MapType):
            return self._map(type_, depth)
        return self._scalar(type_, field)

    def _list(self, type_: ListType, field: str, depth: int) -> list[JSON]:
        least = 1 if field == "containers" else 0
        most = 2 if depth < _DEEPEST else least
        length = self._draw(st.integers(least, most))
        items = [self._value(type_.items, field, depth) for _ in range(length)]
        keyed = type_.keys if type_.merge is MergeStrategy.MAP else ()
        return _distinct_items(items, keyed) if keyed or type_.merge is MergeStrategy.SET else items

    def _map(self, type_: MapType, depth: int) -> JSONObject:
        if type_.values is Scalar.QUANTITY:
            keys: Sequence[str] = _RESOURCES
        else:
            keys = self._keys
        chosen = self._draw(st.lists(st.sampled_from(keys), unique=True, max_size=2))
        return {key: self._entry(type_.values, key, depth) for key in chosen}

    def _entry(self, type_: Type, key: str, depth: int) -> JSON:
        """Choose the value of a label or the like, most often one that a given object has."""
        known = [value for value in self._words.by_field.get(key, ()) if isinstance(value, str)]
        if type_ is Scalar.STRING and known:
            return self._draw(st.sampled_from([*known, _TEXTS[0]]))
        return self._value(type_, key, depth)

    def _scalar(self, type_: Scalar, field: str) -> JSON:
        if type_ is Scalar.STRING:
            return self._draw(st.sampled_from(self._texts(field)))
        if type_ is Scalar.INTEGER:
            known = [value for value in self._words.by_field.get(field, ()) if _is_whole(value)]
            usual = [1, 80, 65535] if "port" in field.lower() else [0, 1, 3, 1000]
            return self._draw(st.sampled_from([*usual, *known]))
        return self._draw(_SCALARS[type_])

    def _texts(self, field: str) -> Sequence[str]:
        known = [value for value in self._words.by_field.get(field, ()) if isinstance(value, str)]
        if field in _CHOICES:
            spoken = [text for text in self._words.values if field != "image" and text in _CHOICES[field]]
            return [*_CHOICES[field], *known, *spoken]
        return [*(self._names if field == "name" else self._values), *known]


def _distinct_items(items: list[JSON], keys: Sequence[str]) -> list[JSON]:
    """Keep the first item of each key, because the API server rejects duplicates."""
    seen: dict[str, JSON] = {}
    for item in items:
        key = [item.get(key) for key in keys] if isinstance(item, dict) else item
        seen.setdefault(repr(key), item)
    return list(seen.values())


def _is_whole(value: JSON) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
