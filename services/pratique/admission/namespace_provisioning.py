"""Namespace provisioning: how every service sees the namespaces that NamespaceAutoProvision creates.

The mutator, the validators and the front door are separate processes, possibly with replicas, and none of them stores
admitted objects. So no process remembers a created namespace: each derives it from the review alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

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
    """Tell whether a chain of these controllers makes namespaces."""
    return any(one.name == _PROVISIONER for one in controllers)


def with_provisioned_namespace(review: Review) -> Review:
    """The review with the namespace that it is in, where a chain that makes namespaces has made that.

    A CREATE makes its namespace. What is updated, deleted or connected to was once created in its namespace, so
    that was made then. A CREATE that is a dry run makes nothing, and finds only what the cluster holds.
    """
    if not store.is_in_namespace(review) or (review.dry_run and review.operation is Operation.CREATE):
        return review
    if review.cluster.get("", "namespaces", review.namespace) is not None:
        return review
    try:
        store.check_namespace_name(review.namespace)
    except RefusalError:
        return review  # nobody can make it, and the controller says why
    return dataclasses.replace(review, cluster=_ClusterWithNamespace(review.cluster, review.namespace))


class _ClusterWithNamespace(ReloadableCluster):
    """One state of a cluster, in which one namespace more exists, with its ``default`` ServiceAccount.

    What is kept for each state of a cluster, such as compiled roles, is that of the state itself.
    """

    __slots__ = ("_namespace",)

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        super().__init__(cluster.current if isinstance(cluster, ReloadableCluster) else cluster)
        self._namespace = namespace

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        found = super().get(group, resource, name, namespace)
        if found is None and (name if resource == "namespaces" else namespace) == self._namespace:
            assumed = ANY_NAMESPACE.get(group, resource, name, namespace)
            # Selectors and policies may ask for its name's label, as in every namespace that an API server stores.
            return assumed and store.with_namespace_defaults(assumed) if resource == "namespaces" else assumed
        return found

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        found = super().list(group, resource, namespace)
        assumed = ANY_NAMESPACE.list(group, resource, namespace) if namespace == self._namespace else ()
        missing = [one for one in assumed if name_of(one) not in map(name_of, found)]
        return sorted((*found, *missing), key=name_of) if missing else found
