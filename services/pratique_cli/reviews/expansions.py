"""Expanding workloads: reviewing the Pods that a reviewed workload would make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline, QuotaMode, Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldPath, Step
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.selectors import LabelSelector, Selector, compile_selector
from pratique.apimachinery.source_documents import Position
from pratique.apimachinery.statuses import Status
from pratique.cluster.store import ObjectStore
from pratique.manifests.pod_templates import WorkloadPod, pod_of_workload
from pratique.manifests.requests import review_of_manifest
from pratique_cli.reviews.requests import WorkloadKey, controller_of, owning_workloads
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.message_fields import fields_of, original_field, parse_field
from pratique_frontdoor.engines.engine import Engine

if TYPE_CHECKING:
    from pratique_cli.outputs import ReviewedDocument


class FieldPlace(msgspec.Struct, frozen=True):
    """A field of a workload, and its position in the file."""

    field: str
    """The path of the field, such as ``spec.template.spec.containers[0].image``."""
    position: Position
    """The position of the field, or of its nearest parent that is written."""


def template_position(reviewed: ReviewedDocument, expansion: Expansion) -> Position:
    """The position of the template of a Pod."""
    return reviewed.document.position((*object_path(reviewed), *expansion.workload_pod.template))


def places(reviewed: ReviewedDocument, expansion: Expansion) -> list[FieldPlace]:
    """List the fields of a workload that the denial of its Pod names."""
    status = expansion.decision.status
    if status is None:
        return []
    pod = expansion.decision.object_document.data or expansion.workload_pod.document
    found = dict.fromkeys(_fields(status, pod))
    return [field_place(reviewed, expansion, path) for path in found]


def field_place(reviewed: ReviewedDocument, expansion: Expansion, path: tuple[Step, ...]) -> FieldPlace:
    """Find the field of a workload for a field of its Pod, such as ``("spec", "containers", 0, "image")``.

    The Pod is the one after the chain. A field that a mutation added is not in the file; its position is that of its
    parent.
    """
    workload_pod = expansion.workload_pod
    pod = expansion.decision.object_document.data or workload_pod.document
    in_workload = workload_pod.field_in_workload(_reindexed(path, pod, workload_pod.document))
    beginning = object_path(reviewed)
    written = member(reviewed.document.data, *beginning)
    admitted = reviewed.decision.object_document.data or written
    position = reviewed.document.position((*beginning, *original_field(in_workload, admitted, written)))
    return FieldPlace(str(FieldPath(in_workload)), position)


def _reindexed(path: tuple[Step, ...], admitted: object, written: object) -> tuple[Step, ...]:
    """Translate a path in the admitted Pod to the Pod as made, matching list items by name."""
    found = original_field(path, admitted, written)
    rest = path[len(found) :]
    is_new = bool(rest) and isinstance(rest[0], int)
    return found if is_new else (*found, *rest)


def object_path(reviewed: ReviewedDocument) -> tuple[str, ...]:
    """The path of the workload in its document, which may be an AdmissionReview."""
    return ("request", "object") if reviewed.document.data.get("kind") == "AdmissionReview" else ()


def _fields(status: Status, pod: object) -> Iterator[tuple[Step, ...]]:
    causes = status.details.causes if status.details else ()
    for cause in causes:
        if path := parse_field(cause.field):
            yield path
    texts = dict.fromkeys([status.message, *(cause.message for cause in causes)])
    for text in texts:
        yield from fields_of(text, pod)


class UndecidedPodError(TimeoutError):
    """The Pod of a workload was not decided in time."""

    def __init__(self, workload_pod: WorkloadPod, review: Review) -> None:
        """Keep the Pod and its review."""
        super().__init__("no decision on a Pod")
        self.workload_pod = workload_pod
        self.review = review


class Expansion(msgspec.Struct, frozen=True):
    """A Pod that a workload would make, with its review and its decision."""

    workload_pod: WorkloadPod
    """The Pod, and where the workload sets its fields."""
    review: Review
    """The request of its controller."""
    decision: Decision
    """What was decided."""


class Expander(msgspec.Struct, frozen=True, kw_only=True):
    """Reviews the Pods of workloads, after the workloads themselves."""

    engine: Engine
    """The engine that decides."""
    phases: frozenset[Phase]
    """The phases of each review."""
    timeout_seconds: float
    """The time limit of each decision."""
    _counted: set[WorkloadKey] = msgspec.field(default_factory=set)
    """Workloads whose Pod has been charged to quotas."""
    _arrived: set[WorkloadKey] = msgspec.field(default_factory=set)
    """Workloads with a Pod in the input, which stands for the one made from their template."""

    def mark_charged(self, review: Review) -> Review:
        """Mark a Pod of the input as charged if it was charged with its workload.

        That applies to the first Pod of a workload; further Pods are charged in addition.
        """
        owners = _workload_keys(review)
        if self._counted.isdisjoint(owners) or not self._arrived.isdisjoint(owners):
            return review
        return review.with_quota_mode(QuotaMode.COUNTED)

    def remember_pod(self, review: Review, decision: Decision) -> None:
        """Remember that an admitted Pod of the input stands for the Pod of its workload."""
        if decision.allowed and not review.dry_run:
            self._arrived.update(_workload_keys(review))

    async def expand(self, reviewed: ReviewedDocument, number: int) -> ReviewedDocument:
        """Review the Pod of an admitted workload; documents that are not workloads are returned unchanged.

        ``number`` is the index of the workload in the input, and distinguishes equal Pods.

        Raises:
            UndecidedPodError: there was no decision in time.
        """
        workload = reviewed.decision.object_document.data
        workload_pod = pod_of_workload(reviewed.review, workload)
        if workload_pod is None:
            return reviewed
        review = _review_of(workload_pod, reviewed.review, number)
        if reviewed.decision.is_as_validated:
            review = review.with_parts_of({"spec": member(workload, *workload_pod.template, "spec")})
        # The Pods of a recorded workload are charged by their own recorded reviews, if there are any.
        counts = reviewed.decision.allowed and reviewed.document.data.get("kind") != "AdmissionReview"
        charging = _charging(reviewed.review, workload) if counts else QuotaMode.CHECK
        return await self._decide(reviewed, workload_pod, review.with_quota_mode(charging))

    async def retry(self, reviewed: ReviewedDocument) -> ReviewedDocument:
        """Review a denied Pod again, as its controller would retry.

        Raises:
            UndecidedPodError: there was no decision in time.
        """
        (refused,) = reviewed.expanded
        return await self._decide(reviewed, refused.workload_pod, refused.review)

    async def _decide(
        self, reviewed: ReviewedDocument, workload_pod: WorkloadPod, review: Review
    ) -> ReviewedDocument:
        key = _workload_key(reviewed.review, reviewed.decision.object_document.data)
        if key in self._counted or key in self._arrived:
            review = review.with_quota_mode(QuotaMode.COUNTED)
        deadline = Deadline.after(self.timeout_seconds)
        try:
            decision = await self.engine.decide(review, self.phases, deadline, explain=True)
        except TimeoutError:
            raise UndecidedPodError(workload_pod, review) from None
        if decision.allowed and review.quota_mode is QuotaMode.COMMIT:
            self._counted.add(key)
        with_pod = msgspec.structs.replace(reviewed.decision, expanded=(decision,))
        return msgspec.structs.replace(
            reviewed, decision=with_pod, expanded=(Expansion(workload_pod, review, decision),)
        )


def _review_of(workload_pod: WorkloadPod, parent: Review, number: int) -> Review:
    return review_of_manifest(
        workload_pod.document,
        parent.cluster.resources,
        user=workload_pod.user,
        dry_run=parent.dry_run,
        cluster=parent.cluster,
        index=number,
        object_validation=parent.object_validation,
    )


def _workload_key(review: Review, workload: JSON) -> WorkloadKey:
    name = review.name or str(member(workload, "metadata", "name") or review.uid)
    return WorkloadKey(review.resource.resource, review.namespace, name)


def _workload_keys(review: Review) -> frozenset[WorkloadKey]:
    """The workloads that own a Pod to create; empty for other requests."""
    if not review.concerns("", "pods") or review.operation is not Operation.CREATE:
        return frozenset()
    return frozenset(owning_workloads(review.object, review.namespace, review.cluster))


def _charging(review: Review, workload: JSON) -> QuotaMode:
    """Whether the Pod is charged in addition to everything counted already.

    The Pod of a ReplicaSet with an owner counts with its owner. A workload that selects existing Pods of the cluster
    makes no new one. The Pod of an UPDATE replaces another one sooner or later.
    """
    if controller_of(workload) or (review.operation is Operation.CREATE and _has_pods(review, workload)):
        return QuotaMode.COUNTED
    is_idle = any(member(workload, "spec", count) == 0 for count in ("replicas", "parallelism"))
    return QuotaMode.CHECK if is_idle or review.operation is Operation.UPDATE else QuotaMode.COMMIT


def _has_pods(review: Review, workload: JSON) -> bool:
    selector = _selector(review, workload)
    if selector is None or selector.is_empty:
        return False
    cluster = review.cluster
    if isinstance(cluster, ObjectStore):
        return cluster.has_selected("", "pods", review.namespace, selector)
    return selector.matches_object(*cluster.list("", "pods", review.namespace))


def _selector(review: Review, workload: JSON) -> Selector | None:
    """The selector of a workload; None if it is missing or invalid."""
    written = member(workload, "spec", "selector")
    if review.resource.resource == "replicationcontrollers":
        written = {"matchLabels": written}
    try:
        return compile_selector(msgspec.convert(written, prepared(LabelSelector))) if written else None
    except (msgspec.ValidationError, InputError):
        return None
