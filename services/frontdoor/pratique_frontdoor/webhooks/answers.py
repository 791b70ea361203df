"""Decodes webhooks' answers, validates them as the API server does, and converts them to outcomes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED, Denied, Failed, FailureKind, Outcome, OutcomeDecision, Patched
from pratique.admission.reviews import Review
from pratique.apimachinery.decoding import GoTypes, ResponseDecoder, Scheme, TypeMeta, go_type_mismatch
from pratique.apimachinery.errors import BadAnswerError
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_reading import go_kind
from pratique.apimachinery.json_values import (
    JSON,  # msgspec reads the types of fields
    JSONObject,
    go_json,
)
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.names import check_qualified_name
from pratique.apimachinery.patches import PatchDecodeError, decode_patch
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails, go_quoted

if TYPE_CHECKING:
    from pratique_frontdoor.webhooks.reviews import ReviewVersion, SentReview


def webhook_annotations(webhook: str, annotations: Mapping[str, str]) -> dict[str, str]:
    """Key a webhook's own annotations ``<webhook>/<key>``; those without a valid key are dropped."""
    keyed = ((f"{webhook}/{key}", value) for key, value in annotations.items())
    return {key: value for key, value in keyed if is_annotation_key(key)}


def is_annotation_key(key: str) -> bool:
    """Return whether an audit annotation can have this key: a DNS subdomain, one slash, and a name."""
    return key.count("/") == 1 and not check_qualified_name(key)


def mutation_annotation(configuration: str, webhook: str, *, mutated: bool) -> str:
    """Return the annotation value for a call of a mutating webhook."""
    return go_json({"configuration": configuration, "webhook": webhook, "mutated": mutated})


def patch_annotation(configuration: str, webhook: str, operations: Iterable[JSONObject]) -> str:
    """Return the annotation value for a mutating webhook's patch: operations in order, their members sorted by name."""
    patch = [dict(sorted(operation.items())) for operation in operations]
    return go_json(
        {"configuration": configuration, "webhook": webhook, "patch": patch, "patchType": "JSONPatch"}
    )


_LONGEST_KEY = 63
"""Characters of the name part of a qualified name."""
_DIGEST_CHARACTERS = 20
"""80 bits of SHA-256: two keys of one decision do not collide by accident."""
_NOT_IN_KEYS = pattern(r"[^A-Za-z0-9.-]+")


def answer_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Give audit annotations keys that an API server keeps in the answer of a webhook.

    The API server prefixes each key with ``<webhook>/``, and drops keys that then have two slashes. A key
    ``<prefix>/<name>`` becomes ``<prefix>_<name>``: a prefix is a DNS subdomain without underscores, so the first
    underscore marks the slash. A key that is too long for that, or was invalid, is truncated and ends in a digest of
    the whole; it has no underscore, so it is never mistaken for one of the others. No two keys of a decision become
    equal.
    """
    keyed: dict[str, str] = {}
    for key, value in annotations.items():
        answered = answer_key(key)
        while answered in keyed:
            answered = _digested(f"{key}\0{answered}")
        keyed[answered] = value
    return keyed


@functools.lru_cache(maxsize=1024)
def answer_key(key: str) -> str:
    """Return the key without a slash that replaces an audit annotation's key in the answer of a webhook."""
    prefix, _, name = key.partition("/")
    answered = f"{prefix}_{name}"
    if len(answered) <= _LONGEST_KEY and is_annotation_key(key):
        return answered
    return _digested(key)


def _digested(key: str) -> str:
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    shown = _NOT_IN_KEYS.sub("-", key).strip("-.")[: _LONGEST_KEY - _DIGEST_CHARACTERS - 1].rstrip("-.")
    return f"{shown}.{digest}" if shown else digest


class StatusCauseDocument(msgspec.Struct, frozen=True):
    """``metav1.StatusCause``."""

    reason: str | None = None
    message: str | None = None
    field: str | None = None


class StatusDetailsDocument(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.StatusDetails``."""

    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: tuple[StatusCauseDocument | None, ...] | None = None
    retry_after_seconds: int | None = None


class ListMetaDocument(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.ListMeta``, but for a count that no Status has."""

    self_link: str | None = None
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class StatusDocument(msgspec.Struct, frozen=True):
    """``metav1.Status``."""

    metadata: ListMetaDocument | None = None
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: StatusDetailsDocument | None = None
    code: int | None = None


class ResponseDocument(msgspec.Struct, frozen=True, rename="camel"):
    """``admissionv1.AdmissionResponse``."""

    uid: str | None = None
    allowed: bool | None = None
    status: StatusDocument | None = None
    patch: JSON = None
    patch_type: str | None = None
    audit_annotations: dict[str, str | None] | None = None
    warnings: tuple[str | None, ...] | None = None

    def patch_bytes(self) -> bytes:
        """Return the patch, which JSON encodes as Base64 or as an array of bytes.

        Raises:
            BadAnswerError: it is neither.
        """
        match self.patch:
            case None:
                return b""
            case str():
                return _base64(self.patch)
            case list():
                return _bytes(self.patch)
            case _:
                raise go_type_mismatch(go_kind(self.patch), "AdmissionResponse.response.patch", "[]uint8")


class ReviewDocument(TypeMeta, frozen=True):
    """``admissionv1.AdmissionReview``, as far as an answer needs it."""

    response: ResponseDocument | None = None


_GO_TYPES: GoTypes = {
    "apiVersion": ("AdmissionReview", "string"),
    "kind": ("AdmissionReview", "string"),
    "response": ("AdmissionReview", "v1.AdmissionResponse"),
    "response.uid": ("AdmissionResponse", "types.UID"),
    "response.allowed": ("AdmissionResponse", "bool"),
    "response.status": ("AdmissionResponse", "v1.Status"),
    "response.patchType": ("AdmissionResponse", "v1.PatchType"),
    "response.auditAnnotations": ("AdmissionResponse", "map[string]string"),
    "response.auditAnnotations[]": ("AdmissionResponse", "string"),
    "response.warnings": ("AdmissionResponse", "[]string"),
    "response.warnings[]": ("AdmissionResponse", "string"),
    "response.status.metadata": ("Status", "v1.ListMeta"),
    "response.status.metadata.selfLink": ("ListMeta", "string"),
    "response.status.metadata.resourceVersion": ("ListMeta", "string"),
    "response.status.metadata.continue": ("ListMeta", "string"),
    "response.status.status": ("Status", "string"),
    "response.status.message": ("Status", "string"),
    "response.status.reason": ("Status", "v1.StatusReason"),
    "response.status.details": ("Status", "v1.StatusDetails"),
    "response.status.code": ("Status", "int32"),
    "response.status.details.name": ("StatusDetails", "string"),
    "response.status.details.group": ("StatusDetails", "string"),
    "response.status.details.kind": ("StatusDetails", "string"),
    "response.status.details.uid": ("StatusDetails", "types.UID"),
    "response.status.details.causes": ("StatusDetails", "[]v1.StatusCause"),
    "response.status.details.causes[]": ("StatusDetails", "v1.StatusCause"),
    "response.status.details.causes[].reason": ("StatusCause", "v1.CauseType"),
    "response.status.details.causes[].message": ("StatusCause", "string"),
    "response.status.details.causes[].field": ("StatusCause", "string"),
    "response.status.details.retryAfterSeconds": ("StatusDetails", "int32"),
}

_GROUP = "admission.k8s.io"
_EXPECTED = GroupVersionKind(_GROUP, "v1", "AdmissionReview")
_SCHEME = Scheme(_GROUP, ("v1", "v1beta1"), ("AdmissionReview",))
_decoder = ResponseDecoder(ReviewDocument, _SCHEME, _GO_TYPES)


def _bytes(items: list[JSON]) -> bytes:
    for item in items:
        if not isinstance(item, int | None) or isinstance(item, bool) or not 0 <= (item or 0) <= 255:
            raise go_type_mismatch(_number(item), "AdmissionResponse.response.patch", "uint8")
    return bytes(item or 0 for item in items)


def _number(value: JSON) -> str:
    kind = go_kind(value)
    return f"number {value}" if kind == "number" else kind


def _base64(text: str) -> bytes:
    try:
        return decode_base64(text)
    except ValueError as error:
        raise BadAnswerError(str(error)) from None


_JSON_PATCH = "JSONPatch"
_LOWEST_DENIAL = 400
"""The API server never answers a denial with a lower code."""


class WebhookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A validated answer of a webhook."""

    allowed: bool
    """Whether it allows the request."""
    patch: bytes = b""
    """A JSON Patch, not yet decoded; empty without one."""
    patch_type: str = ""
    """The declared type of the patch."""
    status: StatusDocument | None = None
    """The status of a denial, if there is one."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user."""
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Entries for the audit log, with the webhook's own keys."""


def read_answer(body: bytes, sent: SentReview, phase: Phase) -> WebhookAnswer:
    """Decode and validate a webhook's answer to a review.

    Raises:
        BadAnswerError: it cannot be used; the message is what follows ``failed calling webhook "…": ``.
    """
    try:
        document = _decoder.decode(body, sent.version)
        patch = document.response.patch_bytes() if document.response is not None else b""
    except BadAnswerError as error:
        raise BadAnswerError(f"failed to call webhook: {error}") from None
    return verify_answer(document, patch, sent, phase)


def verify_answer(document: ReviewDocument, patch: bytes, sent: SentReview, phase: Phase) -> WebhookAnswer:
    """Validate a decoded answer, as ``VerifyAdmissionResponse`` does.

    Raises:
        BadAnswerError: it is invalid.
    """
    fault = _response_fault(document, patch, sent, phase)
    if fault or document.response is None:
        raise BadAnswerError(f"received invalid webhook response: {fault}")
    return _checked_answer(document.response, patch, sent.version, phase)


def _response_fault(document: ReviewDocument, patch: bytes, sent: SentReview, phase: Phase) -> str:
    response = document.response
    if response is None:
        return "webhook response was absent"
    if sent.version == "v1beta1":
        return ""
    uid = response.uid or ""
    if uid != sent.uid:
        return f"expected response.uid={go_quoted(sent.uid)}, got {go_quoted(uid)}"
    found = document.group_version_kind
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


def _checked_answer(
    response: ResponseDocument, patch: bytes, version: ReviewVersion, phase: Phase
) -> WebhookAnswer:
    if phase is Phase.VALIDATE:
        patch = b""
    # Only v1 has a type of the patch; v1beta1 allows only JSON Patch.
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
    """Convert a webhook's answer to an outcome.

    An unusable patch makes the outcome ``Failed`` instead of raising a CallError, because the warnings and audit
    annotations beside it are kept. A patch for a review without an object stays ``Patched``: the chain denies such a
    request whatever the failure policy and the patch's type.
    """
    return Outcome(
        controller=webhook,
        decision=_decision(answer, review) if answer.allowed else Denied(denial(webhook, answer.status)),
        warnings=answer.warnings,
        audit_annotations=answer.audit_annotations,
    )


def _decision(answer: WebhookAnswer, review: Review) -> OutcomeDecision:
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


def denial(webhook: str, webhook_status: StatusDocument | None) -> Status:
    """Return the Status for the user from the one of the webhook, as ``ToStatusErr`` does."""
    if webhook_status is None:
        return Status(status="Failure", message=_denial_message(webhook, "", ""), code=_LOWEST_DENIAL)
    reason = webhook_status.reason or ""
    return Status(
        metadata=_metadata(webhook_status),
        status="Failure" if webhook_status.status in {None, "", "Success"} else webhook_status.status or "",
        message=_denial_message(webhook, webhook_status.message or "", reason),
        reason=reason,
        details=_details(webhook_status.details) if webhook_status.details is not None else None,
        code=max(webhook_status.code or 0, _LOWEST_DENIAL),
    )


def _denial_message(webhook: str, message: str, reason: str) -> str:
    denied = f"admission webhook {go_quoted(webhook)} denied the request"
    explanation = message or reason
    return f"{denied}: {explanation}" if explanation else f"{denied} without explanation"


def _metadata(webhook_status: StatusDocument) -> dict[str, str]:
    if webhook_status.metadata is None:
        return {}
    fields = {
        "selfLink": webhook_status.metadata.self_link,
        "resourceVersion": webhook_status.metadata.resource_version,
        "continue": webhook_status.metadata.continue_,
    }
    return {name: value for name, value in fields.items() if value}


def _details(webhook_status: StatusDetailsDocument) -> StatusDetails:
    causes = tuple(
        StatusCause(cause.reason or "", cause.message or "", cause.field or "") if cause else StatusCause()
        for cause in webhook_status.causes or ()
    )
    return StatusDetails(
        name=webhook_status.name or "",
        group=webhook_status.group or "",
        kind=webhook_status.kind or "",
        uid=webhook_status.uid or "",
        causes=causes,
        retry_after_seconds=webhook_status.retry_after_seconds or 0,
    )
