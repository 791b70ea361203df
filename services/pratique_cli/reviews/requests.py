"""What a document asks of the API server, and what an admitted request leaves behind."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import NamedTuple

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.store import Cluster, ObjectKey, ObjectStore, assumed_service_account
from pratique.manifests.requests import KUBECTL_USER, review_of_manifest
from pratique_frontdoor.chain.decisions import Decision

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


class WorkloadKey(NamedTuple):
    """A workload."""

    resource: str
    namespace: str
    name: str


def controller_of(document: JSON) -> JSONObject | None:
    """The owner reference that says who manages an object; None where nobody does."""
    references = member(document, "metadata", "ownerReferences")
    found = references if isinstance(references, list) else []
    return next((each for each in found if member(each, "controller") is True), None)


def owning_workloads(pod: JSON, namespace: str, cluster: Cluster) -> Iterator[WorkloadKey]:
    """Follow the controlling owners of a Pod, from one to the next.

    A ReplicaSet or Job that the cluster does not have is taken at its name, which its own owner has given it.
    """
    document, seen = pod, set[WorkloadKey]()
    while reference := controller_of(document):
        kind, name = reference.get("kind"), reference.get("name")
        group, resource = _RESOURCES.get(str(kind), ("", ""))
        owner = WorkloadKey(resource, namespace, str(name))
        if not resource or owner in seen:
            return
        seen.add(owner)
        yield owner
        document = cluster.get(group, resource, owner.name, namespace)
        if document is None:
            yield from _owner_by_name(owner, pod)


def _owner_by_name(owner: WorkloadKey, pod: JSON) -> Iterator[WorkloadKey]:
    hashed = f"-{member(pod, 'metadata', 'labels', 'pod-template-hash')}"
    if owner.resource == "replicasets" and owner.name.endswith(hashed):
        yield WorkloadKey("deployments", owner.namespace, owner.name.removesuffix(hashed))
    elif owner.resource == "jobs" and (found := _SCHEDULED.fullmatch(owner.name)):
        yield WorkloadKey("cronjobs", owner.namespace, found[1])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """What a request says that its manifest does not. An AdmissionReview says all of it itself."""

    operation: Operation = Operation.CREATE
    """What is done with the object."""
    old: ObjectStore | None = None
    """Objects as they are stored before an UPDATE or DELETE, where the cluster's are not to be taken."""
    namespace: str | None = None
    """Where namespaced objects go that name no namespace; None means ``default``."""
    user: UserInfo = KUBECTL_USER
    """Who asks."""
    dry_run: bool = False
    """Nothing is to be stored."""
    subresource: str = ""
    """What of the object is asked for, such as ``status``; empty for the object itself."""


CREATED = RequestShape()
"""The request of ``kubectl create``."""


def review_of(
    document: SourceDocument, store: ObjectStore, number: int, shape: RequestShape = CREATED
) -> Review:
    """Make the review of a document: the AdmissionReview that it is, or a request about the object that it is.

    ``number`` is its place in the whole input, and tells equal manifests apart. ``shape`` is for manifests alone.

    Raises:
        InputError: it is neither, or there is no such request; the text names file, document and line.
    """
    try:
        if document.data.get("kind") == "AdmissionReview":
            from pratique_frontdoor.http.codecs import decode_review  # noqa: PLC0415 - manifests need none

            return decode_review(encode(document.data), store).review
        return review_of_manifest(
            document.data,
            store.resources,
            operation=shape.operation,
            before=shape.old,
            namespace=shape.namespace,
            user=shape.user,
            dry_run=shape.dry_run,
            subresource=shape.subresource,
            cluster=store,
            index=number,
        )
    except InputError as error:
        raise document.fault((), str(error)) from None


def store_admitted(
    review: Review, decision: Decision, store: ObjectStore, shape: RequestShape = CREATED
) -> None:
    """Let the reviews that follow see what an admitted request leaves behind; a dry run leaves nothing.

    Subresources and connections store no object of their own. What ``shape`` calls old has had its time when the
    object has been written.

    Raises:
        InputError: the object is a CustomResourceDefinition that defines nothing.
    """
    if not decision.allowed or review.dry_run or review.subresource:
        return
    at = review.resource
    if shape.old is not None:
        shape.old.remove(at.group, at.resource, review.name, _stored_in(review))
    if review.operation is Operation.DELETE:
        store.remove(at.group, at.resource, review.name, _stored_in(review))
    elif review.operation in {Operation.CREATE, Operation.UPDATE}:
        _store(review, decision, store)


def _store(review: Review, decision: Decision, store: ObjectStore) -> None:
    document = decision.object_document.data
    name = review.name or member(document, "metadata", "name")
    if not isinstance(document, dict) or not name:
        return  # a name that is still to be generated can be looked up by nobody
    at = review.resource
    store.put(document, ObjectKey(at.group, at.resource, _stored_in(review), name))
    if review.concerns("", "namespaces") and store.get("", "serviceaccounts", "default", name) is None:
        # In a cluster a controller makes it; what comes next in the input is not to wait for one.
        store.put(assumed_service_account(name))


def _stored_in(review: Review) -> str:
    """The namespace of the object: none for a Namespace, whose requests are in itself."""
    return "" if review.concerns("", "namespaces") else review.namespace
