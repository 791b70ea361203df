"""Turning documents into reviews, storing admitted objects, and finding the owners of Pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member
from pratique.apimachinery.patterns import pattern
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
PHASES = {"admit": BOTH, "mutate": MUTATE, "validate": VALIDATE}
"""The phases of a review, by the values of ``--phase``, and of ``phase`` in suites and recordings."""
_SCHEDULED = pattern(r"(.+)-\d+")
"""The name that a CronJob gives a Job: its own name and the scheduled minute."""


class WorkloadKey(NamedTuple):
    """The identity of a workload."""

    resource: str
    namespace: str
    name: str


def controller_of(document: JSON) -> JSONObject | None:
    """The controlling owner reference of an object; None if it has none."""
    references = member(document, "metadata", "ownerReferences")
    found = references if isinstance(references, list) else []
    return next((reference for reference in found if member(reference, "controller") is True), None)


def owning_workloads(pod: JSON, namespace: str, cluster: Cluster) -> Iterator[WorkloadKey]:
    """Yield the chain of controlling owners of a Pod.

    The owner of a ReplicaSet or Job that is not in the cluster is derived from its name.
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


class RequestShape(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that are not in its manifest. An AdmissionReview contains them itself."""

    operation: Operation = Operation.CREATE
    """The operation of the request."""
    old: ObjectStore | None = None
    """The stored objects before an UPDATE or DELETE; None to take the cluster's."""
    namespace: str | None = None
    """The namespace of objects that name none; None means ``default``."""
    user: UserInfo = KUBECTL_USER
    """The user of the request."""
    dry_run: bool = False
    """Whether the request is a dry run."""
    subresource: str = ""
    """The subresource, such as ``status``; empty for the object itself."""
    object_validation: bool = False
    """Whether the object is decoded, defaulted and validated as by an API server."""


CREATED = RequestShape()
"""The request of ``kubectl create``."""


def review_of(
    document: SourceDocument, store: ObjectStore, number: int, shape: RequestShape = CREATED
) -> Review:
    """Make the review of a document, which is an AdmissionReview or a manifest.

    ``number`` is its index in the input, and distinguishes equal manifests. ``shape`` applies only to manifests.

    Raises:
        InputError: it is neither, or the request is impossible; the message names file, document and line.
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
            object_validation=shape.object_validation,
        )
    except InputError as error:
        raise document.fault((), str(error)) from None


def store_admitted(
    review: Review, decision: Decision, store: ObjectStore, shape: RequestShape = CREATED
) -> None:
    """Store or delete the object of an admitted request for later reviews, unless it is a dry run.

    Subresources and connections store nothing. An old object of ``shape`` is dropped once the object is written.

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
        return  # an object whose name is not generated yet cannot be looked up
    at = review.resource
    store.put(document, ObjectKey(at.group, at.resource, _stored_in(review), name))
    if review.concerns("", "namespaces") and store.get("", "serviceaccounts", "default", name) is None:
        # In a cluster a controller creates it; the next document must not wait for one.
        store.put(assumed_service_account(name))


def _stored_in(review: Review) -> str:
    """The namespace of the stored object; a Namespace has none, unlike its requests."""
    return "" if review.concerns("", "namespaces") else review.namespace
