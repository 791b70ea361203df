"""Decisions on the Pods that a reviewed workload would make."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline, QuotaMode, Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldPath, Step
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.selectors import LabelSelector, Selector, compile_selector
from pratique.apimachinery.source_documents import Position
from pratique.apimachinery.statuses import Status
from pratique.manifests.pod_templates import WorkloadPod, pod_of_workload
from pratique.manifests.requests import review_of_manifest
from pratique_cli.reviews.requests import WorkloadKey, controller_of, owning_workloads
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.message_fields import fields_of, original_field, parse_field
from pratique_frontdoor.engines.engine import Engine

if TYPE_CHECKING:
    from pratique_cli.outputs import Reviewed


@dataclasses.dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field of a workload."""

    field: str
    """Its path, such as ``spec.template.spec.containers[0].image``."""
    position: Position
    """Where it is written, or what is nearest to it where it is not."""


def template_position(reviewed: Reviewed, expansion: Expansion) -> Position:
    """Find the template that a Pod was made of."""
    return reviewed.document.position((*object_path(reviewed), *expansion.made.template))


def places(reviewed: Reviewed, expansion: Expansion) -> list[FieldPlace]:
    """Find the fields of a workload that the denial of its Pod names; none where it names none."""
    status = expansion.decision.status
    if status is None:
        return []
    pod = expansion.decision.object_document.data or expansion.made.document
    found = dict.fromkeys(_fields(status, pod))
    return [field_place(reviewed, expansion, path) for path in found]


def field_place(reviewed: Reviewed, expansion: Expansion, path: tuple[Step, ...]) -> FieldPlace:
    """Find in a workload the field of its Pod, such as ``("spec", "containers", 0, "image")``.

    The Pod is the one that the chain left. What controllers, webhooks or the workload's own mutations added to it is
    written nowhere; its place is that of what it was added to.
    """
    made = expansion.made
    pod = expansion.decision.object_document.data or made.document
    in_workload = made.field_in_workload(_reindexed(path, pod, made.document))
    beginning = object_path(reviewed)
    written = member(reviewed.document.data, *beginning)
    admitted = reviewed.decision.object_document.data or written
    position = reviewed.document.position((*beginning, *original_field(in_workload, admitted, written)))
    return FieldPlace(str(FieldPath(in_workload)), position)


def _reindexed(path: tuple[Step, ...], told: object, written: object) -> tuple[Step, ...]:
    """The path in the Pod as it was made: as far as that goes by the names of items, the rest as it is told."""
    found = original_field(path, told, written)
    rest = path[len(found) :]
    is_new = bool(rest) and isinstance(rest[0], int)
    return found if is_new else (*found, *rest)


def object_path(reviewed: Reviewed) -> tuple[str, ...]:
    """Where the workload stands in its document, which may be an AdmissionReview."""
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
    """There was no decision in time on a Pod that a workload would make."""

    def __init__(self, made: WorkloadPod, review: Review) -> None:
        """Say which Pod it is, and what its controller would ask."""
        super().__init__("no decision on a Pod")
        self.made = made
        self.review = review


@dataclasses.dataclass(frozen=True, slots=True)
class Expansion:
    """One Pod that a workload would make, and what became of it."""

    made: WorkloadPod
    """The Pod, and where its fields are written."""
    review: Review
    """What its controller would ask."""
    decision: Decision
    """What was decided."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expander:
    """Reviews the Pods of workloads, once the workloads themselves have been."""

    engine: Engine
    """Decides."""
    phases: frozenset[Phase]
    """What each Pod goes through."""
    timeout_seconds: float
    """How long each may take."""
    _counted: set[WorkloadKey] = dataclasses.field(default_factory=set, init=False)
    """Workloads whose Pod has been charged."""
    _arrived: set[WorkloadKey] = dataclasses.field(default_factory=set, init=False)
    """Workloads of which a Pod has come in the input: the one that was made of their template, or would be."""

    def recognise(self, review: Review) -> Review:
        """See that a Pod of the input is not charged that has been charged with its workload.

        One Pod was: the first that comes. Others come on top of it.
        """
        owners = _workload_keys(review)
        if self._counted.isdisjoint(owners) or not self._arrived.isdisjoint(owners):
            return review
        return dataclasses.replace(review, quota_mode=QuotaMode.COUNTED)

    def note(self, review: Review, decision: Decision) -> None:
        """Keep in mind that an admitted Pod of the input stands for the one that its workload would make."""
        if decision.allowed and not review.dry_run:
            self._arrived.update(_workload_keys(review))

    async def expand(self, reviewed: Reviewed, number: int) -> Reviewed:
        """Decide on a Pod of a workload, as the chain left that; of anything else, nothing.

        ``number`` is the workload's place in the whole input, and tells equal Pods apart.

        Raises:
            UndecidedPodError: there was no decision in time.
        """
        workload = reviewed.decision.object_document.data
        made = pod_of_workload(reviewed.review, workload)
        if made is None:
            return reviewed
        asked = _review_of(made, reviewed.review, number)
        # Of a recorded review the Pods come as recorded reviews of their own, if they are to be counted at all.
        counts = reviewed.decision.allowed and reviewed.document.data.get("kind") != "AdmissionReview"
        charging = _charging(reviewed.review, workload) if counts else QuotaMode.CHECK
        return await self._decide(reviewed, made, dataclasses.replace(asked, quota_mode=charging))

    async def again(self, reviewed: Reviewed) -> Reviewed:
        """Decide anew on the Pod that was denied, as controllers ask again and again.

        Raises:
            UndecidedPodError: there was no decision in time.
        """
        (refused,) = reviewed.expanded
        return await self._decide(reviewed, refused.made, refused.review)

    async def _decide(self, reviewed: Reviewed, made: WorkloadPod, asked: Review) -> Reviewed:
        key = _workload_key(reviewed.review, reviewed.decision.object_document.data)
        if key in self._counted or key in self._arrived:
            asked = dataclasses.replace(asked, quota_mode=QuotaMode.COUNTED)
        deadline = Deadline.after(self.timeout_seconds)
        try:
            decision = await self.engine.decide(asked, self.phases, deadline, explain=True)
        except TimeoutError:
            raise UndecidedPodError(made, asked) from None
        if decision.allowed and asked.quota_mode is QuotaMode.COMMIT:
            self._counted.add(key)
        with_pod = dataclasses.replace(reviewed.decision, expanded=(decision,))
        return dataclasses.replace(reviewed, decision=with_pod, expanded=(Expansion(made, asked, decision),))


def _review_of(made: WorkloadPod, parent: Review, number: int) -> Review:
    return review_of_manifest(
        made.document,
        parent.cluster.resources,
        user=made.user,
        dry_run=parent.dry_run,
        cluster=parent.cluster,
        index=number,
    )


def _workload_key(review: Review, workload: JSON) -> WorkloadKey:
    name = review.name or str(member(workload, "metadata", "name") or review.uid)
    return WorkloadKey(review.resource.resource, review.namespace, name)


def _workload_keys(review: Review) -> frozenset[WorkloadKey]:
    """The workloads that a Pod belongs to which is asked for; none where it is something else."""
    if not review.concerns("", "pods") or review.operation is not Operation.CREATE:
        return frozenset()
    return frozenset(owning_workloads(review.object, review.namespace, review.cluster))


def _charging(review: Review, workload: JSON) -> QuotaMode:
    """Tell whether the Pod comes on top of all that is counted already.

    That of a ReplicaSet with an owner is its owner's; and where the cluster has Pods that a workload would call its
    own, it makes none. That of an UPDATE takes the place of another one, sooner or later.
    """
    if controller_of(workload) or (review.operation is Operation.CREATE and _has_pods(review, workload)):
        return QuotaMode.COUNTED
    is_idle = any(member(workload, "spec", count) == 0 for count in ("replicas", "parallelism"))
    return QuotaMode.CHECK if is_idle or review.operation is Operation.UPDATE else QuotaMode.COMMIT


def _has_pods(review: Review, workload: JSON) -> bool:
    selector = _selector(review, workload)
    if selector is None or selector.is_empty:
        return False
    return selector.matches_object(*review.cluster.list("", "pods", review.namespace))


def _selector(review: Review, workload: JSON) -> Selector | None:
    """How a workload knows its Pods; None where it does not say, or not rightly."""
    written = member(workload, "spec", "selector")
    if review.resource.resource == "replicationcontrollers":
        written = {"matchLabels": written}
    try:
        return compile_selector(msgspec.convert(written, LabelSelector)) if written else None
    except (msgspec.ValidationError, InputError):
        return None
