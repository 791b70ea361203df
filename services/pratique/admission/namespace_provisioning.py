"""Namespace provisioning: how every service sees the namespaces that NamespaceAutoProvision creates.

The mutator, the validators and the front door are separate processes, possibly with replicas, and none of them stores
admitted objects. So no process remembers a created namespace: each derives it from the review alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pratique.admission.controllers import Controller
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.names import name_of
from pratique.apimachinery.requests import Operation
from pratique.cluster import store
from pratique.cluster.store import ANY_NAMESPACE, Cluster, ReloadableCluster

_PROVISIONER = "NamespaceAutoProvision"


def provisions_namespaces(controllers: Iterable[Controller]) -> bool:
    """Tell whether a chain of these controllers creates missing namespaces."""
    return any(controller.name == _PROVISIONER for controller in controllers)


def with_provisioned_namespace(review: Review) -> Review:
    """Return the review with its namespace in the cluster, if NamespaceAutoProvision has created that.

    A CREATE creates its namespace. The object of any other operation was once created, and its namespace with it. A
    dry run creates nothing, so its CREATE sees only the namespaces in the cluster.
    """
    if not store.is_in_namespace(review) or (review.dry_run and review.operation is Operation.CREATE):
        return review
    if review.cluster.get("", "namespaces", review.namespace) is not None:
        return review
    try:
        store.check_namespace_name(review.namespace)
    except RefusalError:
        return review  # the name is invalid, and the controller denies the request
    return msgspec.structs.replace(review, cluster=_ClusterWithNamespace(review.cluster, review.namespace))


class _ClusterWithNamespace(ReloadableCluster):
    """A cluster with one more namespace and its ``default`` ServiceAccount.

    It shares the cluster's caches, such as compiled roles.
    """

    __slots__ = ("_namespace",)

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        super().__init__(cluster.current if isinstance(cluster, ReloadableCluster) else cluster)
        self._namespace = namespace

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        found = super().get(group, resource, name, namespace)
        if found is None and (name if resource == "namespaces" else namespace) == self._namespace:
            return ANY_NAMESPACE.get(group, resource, name, namespace)
        return found

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        found = super().list(group, resource, namespace)
        assumed = ANY_NAMESPACE.list(group, resource, namespace) if namespace == self._namespace else ()
        missing = [document for document in assumed if name_of(document) not in map(name_of, found)]
        return sorted((*found, *missing), key=name_of) if missing else found
