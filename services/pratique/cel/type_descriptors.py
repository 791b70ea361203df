"""Type descriptors: Kubernetes' own types as the type checker knows them.

The checker takes types with fields as protocol buffer messages, so this module declares messages of which no instance
ever exists. Source: ``k8s.io/apiserver/pkg/admission/plugin/cel/compile.go`` ``BuildRequestType`` and
``BuildNamespaceType``.
"""

from __future__ import annotations

from typing import TypeAlias

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from pratique.apimachinery.patterns import pattern
from pratique.cel.activation import DeclaredVariable

_WELL_KNOWN = (
    any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
)  # fmt: skip

StructTypes: TypeAlias = "tuple[tuple[str, tuple[tuple[str, str], ...]], ...]"
"""Type names, each with the names and types of its fields."""

_OPAQUE = (
    "kubernetes.URL",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
    "net.IP",
    "net.CIDR",
)
"""Types without fields."""

_GVK = {"group": "string", "version": "string", "kind": "string"}
_STRUCTS: dict[str, dict[str, str]] = {
    "kubernetes.GroupVersionKind": _GVK,
    "kubernetes.GroupVersionResource": {"group": "string", "version": "string", "resource": "string"},
    "kubernetes.UserInfo": {
        "username": "string",
        "uid": "string",
        "groups": "list<string>",
        "extra": "map<string,list>",
    },
    "kubernetes.AdmissionRequest": {
        "kind": "kubernetes.GroupVersionKind",
        "resource": "kubernetes.GroupVersionResource",
        "subResource": "string",
        "requestKind": "kubernetes.GroupVersionKind",
        "requestResource": "kubernetes.GroupVersionResource",
        "requestSubResource": "string",
        "name": "string",
        "namespace": "string",
        "operation": "string",
        "userInfo": "kubernetes.UserInfo",
        "dryRun": "bool",
        "options": "dyn",
    },
    "kubernetes.NamespaceSpec": {"finalizers": "list<string>"},
    "kubernetes.NamespaceCondition": {
        "status": "string",
        "type": "string",
        "lastTransitionTime": "timestamp",
        "message": "string",
        "reason": "string",
    },
    "kubernetes.NamespaceStatus": {"conditions": "list<kubernetes.NamespaceCondition>", "phase": "string"},
    "kubernetes.NamespaceMetadata": {
        "name": "string",
        "generateName": "string",
        "namespace": "string",
        "labels": "map<string,string>",
        "annotations": "map<string,string>",
        "UID": "string",
        "creationTimestamp": "timestamp",
        "deletionGracePeriodSeconds": "int",
        "deletionTimestamp": "timestamp",
        "generation": "int",
        "resourceVersion": "string",
        "finalizers": "list<string>",
    },
    "kubernetes.Namespace": {
        "metadata": "kubernetes.NamespaceMetadata",
        "spec": "kubernetes.NamespaceSpec",
        "status": "kubernetes.NamespaceStatus",
    },
    "kubernetes.DRADevice": {
        "driver": "string",
        "allowMultipleAllocations": "bool",
        "attributes": "map<string,map>",
        "capacity": "map<string,map>",
    },
}
"""Types with fields."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int": _Field.TYPE_INT64,
    "double": _Field.TYPE_DOUBLE,
}
_MESSAGES = {
    "dyn": "google.protobuf.Value",
    "list": "google.protobuf.ListValue",
    "map": "google.protobuf.Struct",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}


_EXPRESSIBLE = pattern(
    r"(?:list<|map<string,)?(?:{names})>?".format(names="|".join([*_SCALARS, "timestamp", "duration"]))
)
"""Matches the types that a message field can have."""


def build_pool(
    structs: StructTypes = (), variables: tuple[DeclaredVariable, ...] | None = None
) -> descriptor_pool.DescriptorPool:
    """Describe Kubernetes' types, the types of ``structs``, and a type whose fields are ``variables``."""
    pool = descriptor_pool.DescriptorPool()
    for module in _WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for package in ("net", "kubernetes.authorization", "kubernetes"):
        pool.AddSerializedFile(_file(package).SerializeToString())
    if structs:
        pool.AddSerializedFile(_struct_file(structs).SerializeToString())
    if variables is not None:
        pool.AddSerializedFile(_variables_file(variables).SerializeToString())
    return pool


def _variables_file(variables: tuple[DeclaredVariable, ...]) -> descriptor_pb2.FileDescriptorProto:
    """Describe ``kubernetes.variables``; a field whose type a message cannot express becomes ``dyn``."""
    file = descriptor_pb2.FileDescriptorProto(name="variables.proto", package="kubernetes", syntax="proto3")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("struct", "timestamp", "duration"))
    message = file.message_type.add(name="variables")
    for number, variable in enumerate(variables, start=1):
        kind = variable.kind if _EXPRESSIBLE.fullmatch(variable.kind) else "dyn"
        _add_field(message, "kubernetes.variables", number, variable.name, kind)
    return file


def _struct_file(structs: StructTypes) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="structs.proto", syntax="proto3")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("struct", "timestamp", "duration"))
    for name, fields in structs:
        message = file.message_type.add(name=name)
        message.options.deprecated_legacy_json_field_conflicts = True  # a schema may have fooBar and foo_bar
        for number, (field, kind) in enumerate(fields, start=1):
            _add_field(message, name, number, field, kind)
    return file


def _file(package: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    file.dependency.extend(["google/protobuf/struct.proto", "google/protobuf/timestamp.proto"])
    for name in (*_OPAQUE, *_STRUCTS):
        parent, _, short = name.rpartition(".")
        if parent == package:
            message = file.message_type.add(name=short)
            for number, (field, kind) in enumerate(_STRUCTS.get(name, {}).items(), start=1):
                _add_field(message, name, number, field, kind)
    return file


def _add_field(
    message: descriptor_pb2.DescriptorProto, parent: str, number: int, name: str, kind: str
) -> None:
    field = message.field.add(name=name, json_name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind.startswith("list<"):
        field.label = _Field.LABEL_REPEATED
        _set_type(field, kind[len("list<") : -1])
    elif kind.startswith("map<string,"):
        field.label = _Field.LABEL_REPEATED
        entry = message.nested_type.add(name=_entry_name(name))
        entry.options.map_entry = True
        _add_field(entry, parent, 1, "key", "string")
        _add_field(entry, parent, 2, "value", kind[len("map<string,") : -1])
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{parent}.{entry.name}"
    else:
        _set_type(field, kind)


def _entry_name(field: str) -> str:
    """Name the entry type of a map as descriptors require: ``node_selector`` has ``NodeSelectorEntry``."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _set_type(field: descriptor_pb2.FieldDescriptorProto, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _Field.TYPE_MESSAGE
    field.type_name = f".{_MESSAGES.get(kind, kind)}"
