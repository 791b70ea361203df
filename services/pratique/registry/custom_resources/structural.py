"""Structural schemas: the part of a definition's JSON schema that says which fields an object has.

Source: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{structural,convert}.go``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
"""The fields that every resource has, whatever its schema says."""


class Structural(msgspec.Struct, frozen=True, eq=False):
    """One node of a structural schema."""

    written: JSONObject
    """The node as JSON, with its value validations."""
    type: str
    properties: Mapping[str, Structural]
    items: Structural | None = None
    additional: Structural | None = None
    """The schema of the values of a map."""
    is_open_map: bool = False
    """Whether other members than ``properties`` are allowed: ``additionalProperties`` is a schema or true."""
    default: JSON = None
    nullable: bool = False
    preserves_unknown: bool = False
    is_embedded: bool = False
    is_int_or_string: bool = False
    list_type: str = ""
    """``x-kubernetes-list-type``; empty if there is none."""
    map_keys: tuple[str, ...] = ()
    rules: tuple[JSONObject, ...] = ()
    """``x-kubernetes-validations``."""
    all_of: tuple[Structural, ...] = ()
    """The conjuncts of ``allOf``, for their rules."""

    @property
    def children(self) -> tuple[Structural, ...]:
        """The schemas of its members and of its items."""
        inner = (self.items, self.additional)
        return (*self.properties.values(), *(child for child in inner if child is not None))

    def child(self, name: str) -> Structural | None:
        """The schema of a member; None if there is none."""
        found = self.properties.get(name)
        return self.additional if found is None else found


def structural(written: JSONObject) -> Structural:
    """Read a schema. What is not structural, and cannot be part of a valid definition, is left out."""
    properties, items = written.get("properties"), written.get("items")
    additional = written.get("additionalProperties")
    return Structural(
        written=written,
        type=written.get("type") or "",
        properties={name: structural(child) for name, child in (properties or {}).items()},
        items=structural(items) if isinstance(items, dict) else None,
        additional=structural(additional) if isinstance(additional, dict) else None,
        is_open_map=additional is not None,
        default=written.get("default"),
        nullable=bool(written.get("nullable")),
        preserves_unknown=bool(written.get("x-kubernetes-preserve-unknown-fields")),
        is_embedded=bool(written.get("x-kubernetes-embedded-resource")),
        is_int_or_string=bool(written.get("x-kubernetes-int-or-string")),
        list_type=written.get("x-kubernetes-list-type") or "",
        map_keys=tuple(written.get("x-kubernetes-list-map-keys") or ()),
        rules=tuple(written.get("x-kubernetes-validations") or ()),
        all_of=tuple(structural(clause) for clause in written.get("allOf") or ()),
    )


def any_node(schema: Structural, *, embedded: bool = False, rules: bool = False) -> bool:
    """Whether any node of a schema is an embedded resource, or has rules."""
    if (embedded and schema.is_embedded) or (rules and schema.rules):
        return True
    return any(any_node(child, embedded=embedded, rules=rules) for child in schema.children)
