"""Webhook answers as JSON: the members of an AdmissionReview that an answer may have, all of which may be absent."""

from __future__ import annotations

import msgspec

from pratique.answer_decoders import AnswerDecoder, GoTypes, mismatch
from pratique.base64_values import decode_base64
from pratique.errors import BadAnswerError
from pratique.json_errors import go_kind
from pratique.json_values import JSON  # noqa: TC001  # msgspec reads the types of fields


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
        """The patch, which JSON holds as Base64 or as an array of bytes.

        Raises:
            BadAnswerError: it holds something else.
        """
        match self.patch:
            case None:
                return b""
            case str():
                return _base64(self.patch)
            case list():
                return _bytes(self.patch)
            case _:
                raise mismatch(go_kind(self.patch), "AdmissionResponse.response.patch", "[]uint8")


class ReviewDocument(msgspec.Struct, frozen=True, rename="camel"):
    """``admissionv1.AdmissionReview``, as far as an answer needs it."""

    api_version: str | None = None
    kind: str | None = None
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

_decoder = AnswerDecoder(ReviewDocument, "AdmissionReview", _GO_TYPES)


def decode_answer(body: bytes) -> ReviewDocument:
    """Read a webhook's answer.

    Raises:
        BadAnswerError: it is not JSON, or a member is of another type. The text is the decoder's.
    """
    return _decoder.decode(body)


def _bytes(items: list[JSON]) -> bytes:
    for item in items:
        if not isinstance(item, int | None) or isinstance(item, bool) or not 0 <= (item or 0) <= 255:
            raise mismatch(_number(item), "AdmissionResponse.response.patch", "uint8")
    return bytes(item or 0 for item in items)


def _number(value: JSON) -> str:
    kind = go_kind(value)
    return f"number {value}" if kind == "number" else kind


def _base64(text: str) -> bytes:
    try:
        return decode_base64(text)
    except ValueError as error:
        raise BadAnswerError(str(error)) from None
