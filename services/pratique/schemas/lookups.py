"""Looking up the schema of a kind, be it built in or a custom resource's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import custom_resources
from pratique.json_values import member
from pratique.schemas.built_in import built_in_schema
from pratique.schemas.custom import custom_schema

if TYPE_CHECKING:
    from pratique.clusters import Cluster
    from pratique.kinds import GroupVersionKind
    from pratique.schemas.types import Structure


def schema_of(kind: GroupVersionKind, cluster: Cluster) -> Structure | None:
    """The schema of a kind that the cluster knows; None where it knows none."""
    return built_in_schema(kind) or _custom(kind, cluster)


def _custom(kind: GroupVersionKind, cluster: Cluster) -> Structure | None:
    for definition in cluster.list(custom_resources.GROUP, custom_resources.RESOURCE):
        named = (member(definition, "spec", "group"), member(definition, "spec", "names", "kind"))
        if named == (kind.group, kind.kind):
            return custom_schema(definition, kind.version)
    return None
