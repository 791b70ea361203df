"""Fields that an API server drops, because the feature that they belong to is off by default.

An object that uses a feature already may go on using it.

Sources: ``dropDisabledFields`` and what it calls, in ``pkg/api/pod/util.go``, ``pkg/api/job/util.go``,
``pkg/apis/resource`` and ``pkg/registry/*/*/strategy.go``, and ``pkg/features/kube_features.go`` of Kubernetes 1.37.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.schemas import ListType, MapType, Structure, Type, built_in_schema, built_in_type

_USER_FIELDS = {"user": "AtomicWriteVolumeUserFields"}
_DEFAULT_USER = {"defaultUser": "AtomicWriteVolumeUserFields"}
_ATTRIBUTE_LISTS = dict.fromkeys(("bools", "ints", "strings", "versions"), "DRAListTypeAttributes")
_DERIVED = {"derivedAttributes": "DRADerivedAttributes"}
_PREEMPTION = {"preemptionPolicy": "PodGroupPreemptionPolicy"}
_PARENT = {"parentCompositePodGroupName": "CompositePodGroup"}
_GROUP_TEMPLATE = _PREEMPTION | {
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
    "resourceClaims": "DRAWorkloadResourceClaims",
}
_CHILD_TEMPLATES = {"compositePodGroupTemplates": "CompositePodGroup"}

_DISABLED: Mapping[str, Mapping[str, str]] = {
    "api.batch.v1.JobSpec": {"scheduling": "WorkloadWithJob"},
    "api.coordination.v1.LeaseSpec": {
        "preferredHolder": "CoordinatedLeaderElection (preferred holder)",
        "strategy": "CoordinatedLeaderElection (strategy)",
    },
    "api.core.v1.ClusterTrustBundleProjection": _USER_FIELDS,
    "api.core.v1.ConfigMapVolumeSource": _DEFAULT_USER,
    "api.core.v1.DownwardAPIVolumeFile": _USER_FIELDS,
    "api.core.v1.DownwardAPIVolumeSource": _DEFAULT_USER,
    "api.core.v1.EmptyDirVolumeSource": {"mode": "EmptyDirVolumeMode"},
    "api.core.v1.GRPCAction": {"mode": "GRPCContainerProbeTLS"},
    "api.core.v1.HTTPGetAction": {"protocol": "H2CContainerProbe"},
    "api.core.v1.KeyToPath": _USER_FIELDS,
    "api.core.v1.Lifecycle": {"stopSignal": "ContainerStopSignals"},
    "api.core.v1.NodeSpec": {"podPreemptionPolicy": "InPlacePodVerticalScalingSchedulerPreemption"},
    "api.core.v1.PodCertificateProjection": _USER_FIELDS,
    "api.core.v1.PodSpec": {
        "evictionResponders": "EvictionRequestAPI",
        "schedulingGroup": "GenericWorkload",
    },
    "api.core.v1.ProjectedVolumeSource": _DEFAULT_USER,
    "api.core.v1.SecretVolumeSource": _DEFAULT_USER,
    "api.core.v1.ServiceAccountTokenProjection": _USER_FIELDS,
    "api.core.v1.VolumeMount": {"bindMountOptions": "VolumeBindMountOptions"},
    "api.resource.v1alpha3.ResourcePoolStatusRequestSpec": {
        "defaultPartitionTypeAttribute": "DRAPartitionableDevicesType"
    },
    "api.scheduling.v1alpha3.CompositePodGroupSpec": _PREEMPTION,
    **{
        f"api.resource.{version}.{type_}": fields
        for version in ("v1", "v1beta1", "v1beta2")
        for type_, fields in {
            "Device": {"nodeAllocatableResources": "DRANodeAllocatableResources"},
            "DeviceAttribute": _ATTRIBUTE_LISTS,
            "DeviceCounterConsumption": {"compatibilityGroups": "DRADeviceCompatibilityGroups"},
            "DeviceSubRequest": _DERIVED,
            "DeviceRequest" if version == "v1beta1" else "ExactDeviceRequest": _DERIVED,
            "ResourceSliceSpec": {
                "partitionTypeAttribute": "DRAPartitionableDevicesType",
                "skipNodeOperations": "DRAOptionalNodeOperations",
            },
        }.items()
    },
    "api.resource.v1beta1.BasicDevice": {"nodeAllocatableResources": "DRANodeAllocatableResources"},
    **{
        f"api.scheduling.{version}.{type_}": fields
        for version in ("v1alpha3", "v1beta1")
        for type_, fields in {
            "CompositePodGroupTemplate": _PREEMPTION | _CHILD_TEMPLATES,
            "PodGroupSpec": _GROUP_TEMPLATE | _PARENT,
            "PodGroupTemplate": _GROUP_TEMPLATE,
            "WorkloadSpec": _CHILD_TEMPLATES,
        }.items()
    },
}
"""By type and field, the feature that it belongs to."""


def without_disabled_fields(
    kind: GroupVersionKind, written: JSONObject, stored: JSONObject | None
) -> JSONObject:
    """The object without the fields of features that are off, and that the stored object does not use."""
    schema = built_in_schema(kind)
    if schema is None or not _leads_to_disabled(schema.name) or not _search_of(schema.name)(written):
        return written
    unused = frozenset(_features(schema, written))
    if unused and stored is not None:
        unused -= frozenset(_features(schema, stored))
    kept: JSONObject = _without(schema, written, unused) if unused else written
    return kept


@functools.cache
def _leads_to_disabled(name: str) -> bool:
    return bool(_DISABLED.get(name)) or bool(_fields_leading(name))


_Search: TypeAlias = Callable[[JSON], bool]
"""Tells whether a value may have disabled fields, which nearly none has."""


@functools.cache
def _search_of(name: str) -> _Search:
    """The search of the values of a type, made once, because every object is searched."""
    disabled, leading = frozenset(_DISABLED.get(name, ())), _fields_leading(name)
    pairs: list[tuple[str, _Search]] = []

    def search(value: JSON) -> bool:
        if not disabled.isdisjoint(value):
            return True
        if not pairs:  # made with the first value, because types are recursive
            # In one step, as other threads search, too.
            pairs.extend([(field, _search_in(type_)) for field, type_ in leading.items()])
        for field, inner in pairs:  # noqa: SIM110 - as in _finds
            if field in value and inner(value[field]):
                return True
        return False

    return search if leading else lambda value: not disabled.isdisjoint(value)


def _search_in(type_: Type) -> _Search:
    """The search of what a field holds: a structure, or several."""
    structure = _structure_in(type_)
    search = _search_of("" if structure is None else structure.name)
    if isinstance(type_, ListType):
        return lambda items: type(items) is list and _finds(search, items)
    if isinstance(type_, MapType):
        return lambda items: type(items) is dict and _finds(search, items.values())
    return lambda value: type(value) is dict and search(value)


def _finds(search: _Search, items: Iterable[JSON]) -> bool:
    # The generator for any() would cost more than most of these searches.
    for item in items:  # noqa: SIM110 - see above
        if type(item) is dict and search(item):
            return True
    return False


@functools.cache
def _fields_leading(name: str) -> Mapping[str, Type]:
    """The fields of a type whose values may have disabled fields."""
    return _found_leading(name, frozenset({name}))


def _found_leading(name: str, above: frozenset[str]) -> Mapping[str, Type]:
    leading: dict[str, Type] = {}
    for field, type_ in built_in_type(name).fields.items():
        inner = _structure_in(type_)
        if inner is None or inner.name.startswith("meta.v1.") or field == "status":
            continue
        if inner.name in above:
            leading |= {field: type_} if _DISABLED.get(name) else {}
        elif _DISABLED.get(inner.name) or _found_leading(inner.name, above | {inner.name}):
            leading[field] = type_
    return leading


def _structure_in(type_: Type) -> Structure | None:
    while isinstance(type_, ListType | MapType):
        type_ = type_.items if isinstance(type_, ListType) else type_.values
    return type_ if isinstance(type_, Structure) and not type_.open else None


def _features(type_: Type, value: JSON) -> set[str]:
    """The features, off by default, that a value uses."""
    found: set[str] = set()
    if isinstance(type_, Structure) and type(value) is dict:
        _add_features(type_.name, value, found)
    return found


def _add_features(name: str, value: JSONObject, found: set[str]) -> None:
    places = _places(name)
    for field in places if len(places) <= len(value) else value:
        child = value.get(field)
        if child is None or (place := places.get(field)) is None:
            continue
        feature, inner, is_map = place
        if feature:
            found.add(feature)
        if not inner:
            continue
        if type(child) is dict and not is_map:
            _add_features(inner, child, found)
            continue
        for item in child.values() if type(child) is dict else child if type(child) is list else ():
            if type(item) is dict:
                _add_features(inner, item, found)


@functools.cache
def _places(name: str) -> Mapping[str, tuple[str, str, bool]]:
    """The fields of a type that belong to features that are off, or lead to such fields.

    Each with its feature, the structures that it holds, and whether it holds them in a map.
    """
    disabled, leading = _DISABLED.get(name, {}), _fields_leading(name)
    places = {}
    for field in (*disabled, *leading):
        type_ = leading.get(field)
        inner = None if type_ is None else _structure_in(type_)
        places[field] = (
            disabled.get(field, ""), "" if inner is None else inner.name, isinstance(type_, MapType)
        )  # fmt: skip
    return places


_LIFECYCLE = "lifecycle"
_FIRST_OF = {
    "api.core.v1.Volume": ("secret", "configMap", "downwardAPI", "projected"),
    "api.core.v1.VolumeProjection": (
        "secret",
        "downwardAPI",
        "configMap",
        "serviceAccountToken",
        "clusterTrustBundle",
        "podCertificate",
    ),
}
"""Fields of which only the first that is there is looked into: ``dropDisabledAtomicWriteVolumeUserFields``."""


def _passed_over(name: str, value: JSONObject) -> frozenset[str]:
    """The fields of a value of a type that are not looked into, because another one comes before them."""
    present = [field for field in _FIRST_OF.get(name, ()) if value.get(field) is not None]
    return frozenset(present[1:])


def _without(type_: Type, value: JSON, features: frozenset[str]) -> JSON:
    """The value without the fields of features. It is copied: few objects have any."""
    match type_:
        case Structure() if type(value) is dict:
            disabled, leading = _DISABLED.get(type_.name, {}), _fields_leading(type_.name)
            passed_over = _passed_over(type_.name, value)
            kept = {
                field: _without(leading[field], child, features)
                if field in leading and field not in passed_over
                else child
                for field, child in value.items()
                if disabled.get(field) not in features
            }
            if kept.get(_LIFECYCLE) == {} and value[_LIFECYCLE]:
                del kept[
                    _LIFECYCLE
                ]  # of all structs, this one is not left empty: ``dropContainerStopSignals``
            return kept
        case ListType() if type(value) is list:
            return [_without(type_.items, item, features) for item in value]
        case MapType() if type(value) is dict:
            return {name: _without(type_.values, item, features) for name, item in value.items()}
    return value
