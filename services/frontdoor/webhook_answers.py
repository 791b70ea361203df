"""Webhook answers: checked as the API server checks them, and turned into outcomes.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin/webhook``: ``request/admissionreview.go``,
``errors/statuserror.go``, and the two ``dispatcher.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.webhook_answer_documents import decode_answer
from pratique.definitions import Phase
from pratique.errors import BadAnswerError
from pratique.outcomes import ALLOWED, Decided, Denied, Failed, FailureKind, Outcome, Patched
from pratique.patches import PatchDecodeError, decode_patch
from pratique.reviews import GroupVersionKind
from pratique.statuses import Status, StatusCause, StatusDetails, go_quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontdoor.webhook_answer_documents import (
        ResponseDocument,
        ReviewDocument,
        StatusDetailsDocument,
        StatusDocument,
    )
    from frontdoor.webhook_reviews import ReviewVersion, SentReview
    from pratique.reviews import Review

_GROUP = "admission.k8s.io"
_EXPECTED = GroupVersionKind(_GROUP, "v1", "AdmissionReview")
_STATUS = GroupVersionKind("", "v1", "Status")
_OTHER_VERSION: Mapping[str, str] = {"v1": "v1beta1", "v1beta1": "v1"}
_JSON_PATCH = "JSONPatch"
_LOWEST_DENIAL = 400
"""The API server answers a denial with no lower code."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswer:
    """What a webhook answered, its form checked."""

    allowed: bool
    """Whether it lets the request through."""
    patch: bytes = b""
    """A JSON Patch, not yet decoded; empty where there is none."""
    patch_type: str = ""
    """What the patch is said to be."""
    status: StatusDocument | None = None
    """Why it refuses the request, as far as it says."""
    warnings: tuple[str, ...] = ()
    """Texts for the user."""
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Entries for the audit log, keyed as the webhook wrote them."""


def read_answer(body: bytes, sent: SentReview, phase: Phase) -> WebhookAnswer:
    """Read and check a webhook's answer to a review.

    Raises:
        BadAnswerError: it cannot be used; the text is what follows ``failed calling webhook "…": ``.
    """
    try:
        document = decode_answer(body)
        _check_convertible(document, sent.version)
        patch = document.response.patch_bytes() if document.response is not None else b""
    except BadAnswerError as error:
        raise BadAnswerError(f"failed to call webhook: {error}") from None
    fault = _fault(document, patch, sent, phase)
    if fault or document.response is None:
        raise BadAnswerError(f"received invalid webhook response: {fault}")
    return _answer(document.response, patch, sent.version, phase)


def _check_convertible(document: ReviewDocument, sent: ReviewVersion) -> None:
    """Refuse what the API server's decoder knows and cannot make an AdmissionReview of the version sent from.

    A type that it does not know is refused there, too, in words of its own. Here it is left to the checks of
    the version: they come to the same for v1, and let it pass for v1beta1.
    """
    text = document.api_version or ""
    if text.count("/") > 1:
        raise BadAnswerError(f"unexpected GroupVersion string: {text}")
    found, other = _group_version_kind(document), _OTHER_VERSION[sent]
    if found == _STATUS:
        name = "v1.Status"
    elif (found.group, found.version) == (_GROUP, other) and found.kind in {"", "AdmissionReview"}:
        name = f"{other}.AdmissionReview"
    else:
        return
    raise BadAnswerError(f"converting ({name}) to ({sent}.AdmissionReview): unknown conversion")


def _group_version_kind(document: ReviewDocument) -> GroupVersionKind:
    group, _, version = (document.api_version or "").rpartition("/")
    return GroupVersionKind(group, version, document.kind or "")


def _fault(document: ReviewDocument, patch: bytes, sent: SentReview, phase: Phase) -> str:
    response = document.response
    if response is None:
        return "webhook response was absent"
    if sent.version == "v1beta1":
        return ""
    uid = response.uid or ""
    if uid != sent.uid:
        return f"expected response.uid={go_quoted(sent.uid)}, got {go_quoted(uid)}"
    found = _group_version_kind(document)
    if found != _EXPECTED:
        return f"expected webhook response of {_EXPECTED}, got {found}"
    return _patch_fault(patch, response.patch_type, phase)


def _patch_fault(patch: bytes, patch_type: str | None, phase: Phase) -> str:
    if phase is Phase.VALIDATE:
        if patch:
            return "validating webhook may not return response.patch"
        return "" if patch_type is None else "validating webhook may not return response.patchType"
    if patch and patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not patch and patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if patch_type == "" else ""


def _answer(response: ResponseDocument, patch: bytes, version: ReviewVersion, phase: Phase) -> WebhookAnswer:
    if phase is Phase.VALIDATE:
        patch = b""
    # The type of a patch is looked at in v1 alone: v1beta1 knew one.
    patch_type = (response.patch_type or "") if version == "v1" else _JSON_PATCH
    return WebhookAnswer(
        allowed=bool(response.allowed),
        patch=patch,
        patch_type=patch_type if patch else "",
        status=response.status,
        warnings=tuple(warning or "" for warning in response.warnings or ()),
        audit_annotations={key: value or "" for key, value in (response.audit_annotations or {}).items()},
    )


def to_outcome(webhook: str, answer: WebhookAnswer, review: Review) -> Outcome:
    """Say what a webhook's answer means for the review.

    A patch that cannot be used makes the outcome ``Failed`` and raises no CallError, because the warnings and
    audit annotations beside it are kept. One for a review without an object stays ``Patched``: such a request
    is refused whatever the failure policy and the patch's type, and that is the chain's to do.
    """
    return Outcome(
        controller=webhook,
        decision=_decision(answer, review) if answer.allowed else Denied(denial(webhook, answer.status)),
        warnings=answer.warnings,
        audit_annotations=answer.audit_annotations,
    )


def _decision(answer: WebhookAnswer, review: Review) -> Decided:
    if not answer.patch:
        return ALLOWED
    try:
        operations = decode_patch(answer.patch)
    except PatchDecodeError as error:
        return Failed(FailureKind.ERROR, f"received undecodable patch in webhook response: {error}")
    if not operations:
        return ALLOWED
    if answer.patch_type != _JSON_PATCH and not review.object_document.is_null:
        text = f"unsupported patch type {go_quoted(answer.patch_type)}"
        return Failed(FailureKind.ERROR, text, denial("", answer.status).code)
    return Patched(tuple(operations))


def denial(webhook: str, given: StatusDocument | None) -> Status:
    """Make the Status that the user reads from the one that the webhook gave: ``ToStatusErr``."""
    if given is None:
        return Status(status="Failure", message=_denied(webhook, "", ""), code=_LOWEST_DENIAL)
    reason = given.reason or ""
    return Status(
        metadata=_metadata(given),
        status="Failure" if given.status in {None, "", "Success"} else given.status or "",
        message=_denied(webhook, given.message or "", reason),
        reason=reason,
        details=_details(given.details) if given.details is not None else None,
        code=max(given.code or 0, _LOWEST_DENIAL),
    )


def _denied(webhook: str, message: str, reason: str) -> str:
    denied = f"admission webhook {go_quoted(webhook)} denied the request"
    explanation = message or reason
    return f"{denied}: {explanation}" if explanation else f"{denied} without explanation"


def _metadata(given: StatusDocument) -> dict[str, str]:
    if given.metadata is None:
        return {}
    fields = {
        "selfLink": given.metadata.self_link,
        "resourceVersion": given.metadata.resource_version,
        "continue": given.metadata.continue_,
    }
    return {name: value for name, value in fields.items() if value}


def _details(given: StatusDetailsDocument) -> StatusDetails:
    causes = tuple(
        StatusCause(cause.reason or "", cause.message or "", cause.field or "") if cause else StatusCause()
        for cause in given.causes or ()
    )
    return StatusDetails(
        name=given.name or "",
        group=given.group or "",
        kind=given.kind or "",
        uid=given.uid or "",
        causes=causes,
        retry_after_seconds=given.retry_after_seconds or 0,
    )
