"""Assumed clusters: those of which some is known, and in which servers of webhooks have run before."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.clusters import ObjectStore
from pratique.namespaces import assumed_namespace, assumed_service_account, with_defaults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.clusters import Cluster
    from pratique.json_values import JSONObject
    from pratique.resources import Resources


@dataclasses.dataclass(frozen=True, slots=True)
class AssumedCluster:
    """The cluster that configurations are for, with every namespace, and in it every ServiceAccount.

    That one is not described says nothing of what a webhook would be asked there. A namespace has the label of its
    name, if nothing else.
    """

    known: Cluster

    @property
    def resources(self) -> Resources:
        """All kinds that the cluster knows."""
        return self.known.resources

    @property
    def is_described(self) -> bool:
        """Whether somebody has said what there is: what they have not named does not exist."""
        return isinstance(self.known, ObjectStore) and not self.known.assumes_namespaces

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object; a Namespace or ServiceAccount in any case."""
        found = self.known.get(group, resource, name, namespace)
        if (group, resource) == ("", "namespaces") and name:
            return with_defaults(found or assumed_namespace(name))
        if found is None and (group, resource) == ("", "serviceaccounts") and name and namespace:
            account = assumed_service_account(namespace)
            return {**account, "metadata": {**account["metadata"], "name": name}}
        return found

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """All objects of a resource that are known."""
        return self.known.list(group, resource, namespace)
