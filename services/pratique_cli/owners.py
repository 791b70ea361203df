"""Owners: which workloads an object belongs to, by its controlling owner references and theirs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pratique.json_values import member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.clusters import Cluster
    from pratique.json_values import JSON, JSONObject

_RESOURCES = {
    "CronJob": ("batch", "cronjobs"),
    "DaemonSet": ("apps", "daemonsets"),
    "Deployment": ("apps", "deployments"),
    "Job": ("batch", "jobs"),
    "ReplicaSet": ("apps", "replicasets"),
    "ReplicationController": ("", "replicationcontrollers"),
    "StatefulSet": ("apps", "statefulsets"),
}
_SCHEDULED = re.compile(r"(.+)-\d+")
"""The name that a CronJob gives a Job: its own, and the minute."""


class Owner(NamedTuple):
    """A workload."""

    resource: str
    namespace: str
    name: str


def controller_of(document: JSON) -> JSONObject | None:
    """The owner reference that says who manages an object; None where nobody does."""
    references = member(document, "metadata", "ownerReferences")
    found = references if isinstance(references, list) else []
    return next((each for each in found if member(each, "controller") is True), None)


def owners_of(pod: JSON, namespace: str, cluster: Cluster) -> Iterator[Owner]:
    """Follow the controlling owners of a Pod, from one to the next.

    A ReplicaSet or Job that the cluster does not have is taken at its name, which its own owner has given it.
    """
    document, seen = pod, set[Owner]()
    while reference := controller_of(document):
        kind, name = reference.get("kind"), reference.get("name")
        group, resource = _RESOURCES.get(str(kind), ("", ""))
        owner = Owner(resource, namespace, str(name))
        if not resource or owner in seen:
            return
        seen.add(owner)
        yield owner
        document = cluster.get(group, resource, owner.name, namespace)
        if document is None:
            yield from _by_name(owner, pod)


def _by_name(owner: Owner, pod: JSON) -> Iterator[Owner]:
    hashed = f"-{member(pod, 'metadata', 'labels', 'pod-template-hash')}"
    if owner.resource == "replicasets" and owner.name.endswith(hashed):
        yield Owner("deployments", owner.namespace, owner.name.removesuffix(hashed))
    elif owner.resource == "jobs" and (found := _SCHEDULED.fullmatch(owner.name)):
        yield Owner("cronjobs", owner.namespace, found[1])
