"""Run one controller on a review made from plain JSON, and read its outcome."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Mapping, Sequence

from pratique.admission.controllers import Controller, Handler, Handlers, Phase
from pratique.admission.results import Allow, Answer, Deny, Patch
from pratique.admission.reviews import Review
from pratique.admission.rules import compile_rules
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.statuses import Status
from pratique.cluster.store import ANY_NAMESPACE, Cluster
from pratique.configuration.loading import Configurations
from pratique.hosting.catalogue import configure_controller

BOTH = (Phase.MUTATE, Phase.VALIDATE)


@dataclasses.dataclass(frozen=True)
class Admission:
    """What came of a review."""

    status: Status | None
    """The refusal; None where the request was let through."""
    object: JSON
    """The object as it was left."""
    operations: tuple[JSONObject, ...] = ()
    """What was changed."""
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def allowed(self) -> bool:
        return self.status is None


def denial(found: Admission) -> tuple[int, str, str]:
    """The code, the reason and the message of a denial."""
    assert found.status is not None
    return found.status.code, found.status.reason, found.status.message


def forbidden_text(found: Admission, subject: str = 'pods "web"') -> str:
    """Why a request is forbidden, without ``<subject> is forbidden: ``."""
    code, reason, message = denial(found)
    assert (code, reason) == (403, "Forbidden")
    beginning, _, text = message.partition(" is forbidden: ")
    assert beginning == subject
    return text


def review_of(request: JSONObject, cluster: Cluster = ANY_NAMESPACE) -> Review:
    """Make a review of the ``request`` of an AdmissionReview."""
    user = request.get("userInfo") or {}
    return Review(
        uid=request.get("uid", "1"),
        operation=Operation(request["operation"]),
        kind=GroupVersionKind(**request["kind"]),
        resource=GroupVersionResource(**request["resource"]),
        subresource=request.get("subResource") or "",
        name=request.get("name") or "",
        namespace=request.get("namespace") or "",
        user=UserInfo(user.get("username", ""), groups=tuple(user.get("groups") or ())),
        object_document=Document.from_data(request.get("object")),
        old_object_document=Document.from_data(request.get("oldObject")),
        options_document=Document.from_data(request.get("options")),
        dry_run=bool(request.get("dryRun")),
        cluster=cluster,
    )


def pod_review(
    pod: JSON, *, operation: str = "CREATE", old: JSON = None, subresource: str = "", name: str = "web"
) -> Review:
    """Make a review of a Pod in namespace ``shop``."""
    return review_of(
        {
            "operation": operation,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": subresource,
            "namespace": "shop",
            "name": name,
            "object": pod,
            "oldObject": old,
        }
    )


def admit(
    controller: Controller,
    review: Review,
    configuration: JSON = None,
    phases: Sequence[Phase] = BOTH,
    configurations: Configurations | None = None,
) -> Admission:
    """Run a controller with its settings on one review, as a chain of it alone would, and close it."""
    handlers = configure_controller(controller, configuration).handlers
    if configurations is not None:
        handlers.use_configurations(configurations)

    async def admitted() -> Admission:
        try:
            return await _run(controller, handlers, review, phases)
        finally:
            await handlers.close()

    return asyncio.run(admitted())


def run(
    controller: Controller, handlers: Handlers, review: Review, phases: Sequence[Phase] = BOTH
) -> Admission:
    """Run the handlers that the phases ask for, on what the rules of the controller match."""
    return asyncio.run(_run(controller, handlers, review, phases))


async def _run(
    controller: Controller, handlers: Handlers, review: Review, phases: Sequence[Phase]
) -> Admission:
    document = review.object
    operations: tuple[JSONObject, ...] = ()
    warnings: tuple[str, ...] = ()
    annotations: dict[str, str] = {}
    if not compile_rules(controller.rules).matches(review):
        return Admission(None, document)
    for phase, handler in ((Phase.MUTATE, handlers.mutate), (Phase.VALIDATE, handlers.validate)):
        if handler is None or phase not in phases:
            continue
        seen = review.with_object(Document.from_data(document))
        answer = await _answer_of(handler, seen)
        warnings += answer.warnings
        annotations |= answer.audit_annotations
        if isinstance(answer, Deny):
            status = answer.status or statuses.admission_forbidden(seen, answer.message)
            return Admission(status, document, operations, warnings, annotations)
        if isinstance(answer, Patch):
            assert answer.operations is not None
            operations += answer.operations
            document = apply_patch(document, answer.operations)
    return Admission(None, document, operations, warnings, annotations)


def answer_of(handler: Handler, review: Review) -> Answer:
    """Ask one handler, whether or not it is ``async``."""
    return asyncio.run(_answer_of(handler, review))


async def _answer_of(handler: Handler, review: Review) -> Answer:
    try:
        answer = handler(review)
        return await _awaited(answer) if inspect.isawaitable(answer) else answer
    except RefusalError as refusal:
        return Deny(refusal.status)


async def _awaited(answer: object) -> Answer:
    found = await answer  # type: ignore[misc]  # inspect.isawaitable has been asked
    assert isinstance(found, Allow | Deny | Patch)
    return found
