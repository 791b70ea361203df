"""ResourceQuotas and the objects that they limit, made short for tests."""

from __future__ import annotations

from collections.abc import Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import Cluster, ObjectStore
from pratique.pods.resource_requirements import ResourceList, read_resource_list
from support.admissions import review_of
from support.pods import container, pod

KINDS = {
    "pods": "Pod",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "configmaps": "ConfigMap",
    "events": "Event",
    "resourceclaims": "ResourceClaim",
}


def quota(
    hard: Mapping[str, str], used: Mapping[str, str] | None = None, *, name: str = "quota", **spec: JSON
) -> JSONObject:
    """A ResourceQuota of namespace ``shop``; without ``used``, one without a status."""
    written: JSONObject = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"hard": dict(hard), **spec},
    }
    return written if used is None else {**written, "status": {"hard": dict(hard), "used": dict(used)}}


def document(resource: str, spec: JSON = None, *, name: str = "one", **members: JSON) -> JSONObject:
    """An object of namespace ``shop``."""
    metadata = {"name": name, "namespace": "shop"}
    known = {"apiVersion": "v1", "kind": KINDS[resource], "metadata": metadata}
    return {**known, **({} if spec is None else {"spec": spec}), **members}


def requesting(name: str = "c", *, limits: JSON = None, **requests: str) -> JSONObject:
    """A container that requests something."""
    resources = {"requests": requests} | ({} if limits is None else {"limits": limits})
    return container(name, resources=resources)


def counted_pod(*containers: JSONObject, name: str = "one", **spec: JSON) -> JSONObject:
    """A Pod to count, named as ``review`` names it, with these containers only."""
    return pod(name=name, containers=list(containers), **spec)


def review(
    reviewed: JSON,
    *stored: JSONObject,
    resource: str = "pods",
    old: JSON = None,
    subresource: str = "",
    dry_run: bool = False,
    cluster: Cluster | None = None,
) -> Review:
    """The creation of an object, or its update where there is an old one, beside what is stored."""
    return review_of(
        {
            "operation": "CREATE" if old is None else "UPDATE",
            "kind": {"group": "", "version": "v1", "kind": KINDS[resource]},
            "resource": {"group": "", "version": "v1", "resource": resource},
            "subResource": subresource,
            "namespace": "shop",
            "name": "one",
            "object": reviewed,
            "oldObject": old,
            "dryRun": dry_run,
        },
        ObjectStore(stored) if cluster is None else cluster,
    )


def amounts(**written: str) -> ResourceList:
    """A list of resources."""
    return read_resource_list(written, ROOT)


def texts(found: ResourceList) -> dict[str, str]:
    """A list of resources as one reads it."""
    return {name: str(amount) for name, amount in found.items()}
