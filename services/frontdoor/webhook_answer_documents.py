"""Webhook answers as JSON: read as the API server's decoder reads them, and refused in its words.

It is lenient where msgspec is strict: a null member is one that is not there, text that is no UTF-8 is
mended, and YAML is understood. Sources: ``k8s.io/apimachinery/pkg/runtime/serializer/json/json.go`` and
``…/serializer/{recognizer,versioning}``, and Go's ``encoding/json/decode.go``.
"""

from __future__ import annotations

import json
import re
from typing import TypeAlias

import msgspec

from pratique.base64_values import decode_base64
from pratique.errors import BadAnswerError
from pratique.json_errors import go_kind, syntax_error, type_error
from pratique.json_values import JSON  # noqa: TC001  # msgspec reads the types of fields

_YAML_LIMIT = 16 * 1024
"""Bytes up to which an answer that is not JSON is tried as YAML: enough for an error page, and soon done."""

_KIND_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_TOO_DEEP = "invalid character '{' exceeded max depth"
"""Go's limit is 10,000 levels; ours are fewer, and no answer needs ten."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


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
                raise _mismatch(go_kind(self.patch), "AdmissionResponse.response.patch", "[]uint8")


class ReviewDocument(msgspec.Struct, frozen=True, rename="camel"):
    """``admissionv1.AdmissionReview``, as far as an answer needs it."""

    api_version: str | None = None
    kind: str | None = None
    response: ResponseDocument | None = None


_TypeNames: TypeAlias = dict[str, tuple[str, str]]

_GO_TYPES: _TypeNames = {
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
"""By path: the Go struct that has the field, and the field's Go type."""

_GO_KINDS = {"str": "string", "int": "number", "float": "number"}
"""What Go calls the kinds of JSON values that msgspec calls otherwise."""

_VALIDATION = re.compile(r"got `(?P<got>\w+)`(?: - at `\$\.?(?P<path>[^`]*)`)?")
_ITEM = re.compile(r"\[[^\]]*\]")

_decoder = msgspec.json.Decoder(ReviewDocument)


def decode_answer(body: bytes) -> ReviewDocument:
    """Read a webhook's answer.

    Raises:
        BadAnswerError: it is not JSON, or a member is of another type. The text is the decoder's.
    """
    if not body.lstrip().startswith(b"{"):
        return _convert(_outer_yaml(body))
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _type_mismatch(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _convert(_mended(body))
    except RecursionError:
        raise _unreadable(_TOO_DEEP) from None


def _convert(data: JSON) -> ReviewDocument:
    try:
        return msgspec.convert(data, ReviewDocument)
    except msgspec.ValidationError as error:
        raise _type_mismatch(error) from None


def _mended(body: bytes) -> JSON:
    """Read JSON that Go reads and msgspec does not: its strings are no valid Unicode."""
    fault = syntax_error(body)
    if fault:
        raise _unreadable(fault)
    try:
        text = json.dumps(json.loads(body.decode("utf-8", "replace")), ensure_ascii=False)
    except RecursionError:
        raise _unreadable(_TOO_DEEP) from None
    return json.loads(_LONE_SURROGATE.sub("\ufffd", text))


def _outer_yaml(body: bytes) -> JSON:
    """Read an answer that does not begin as a JSON object does; it must hold one, or nothing."""
    data = _yaml(body) if len(body) <= _YAML_LIMIT else ""
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise _unreadable(type_error(data, _KIND_TYPE))
    return data


def _yaml(body: bytes) -> JSON:
    # Here, because only an answer that is not JSON needs it.
    from pratique.yaml_values import YamlFault, read_values  # noqa: PLC0415

    try:
        first = next(read_values(body), None)
    except YamlFault as fault:
        raise BadAnswerError(
            f"error converting YAML to JSON: yaml: line {fault.line}: {fault.problem}"
        ) from None
    return None if first is None else first.value


def _unreadable(reason: str) -> BadAnswerError:
    return BadAnswerError(f"couldn't get version/kind; json parse error: {reason}")


def _type_mismatch(error: msgspec.ValidationError) -> BadAnswerError:
    found = _VALIDATION.search(str(error))
    path = _ITEM.sub("[]", (found and found["path"]) or "")
    if found is None or path not in _GO_TYPES:
        return BadAnswerError(f"json: {error}")
    struct, go_type = _GO_TYPES[path]
    got = _GO_KINDS.get(found["got"], found["got"])
    if struct == "AdmissionReview" and go_type == "string":
        return _unreadable(f"json: cannot unmarshal {got} into Go struct field .{path} of type string")
    return _mismatch(got, f"{struct}.{path.replace('[]', '')}", go_type)


def _mismatch(kind: str, field: str, go_type: str) -> BadAnswerError:
    return BadAnswerError(f"json: cannot unmarshal {kind} into Go struct field {field} of type {go_type}")


def _bytes(items: list[JSON]) -> bytes:
    for item in items:
        if not isinstance(item, int | None) or isinstance(item, bool) or not 0 <= (item or 0) <= 255:
            raise _mismatch(_number(item), "AdmissionResponse.response.patch", "uint8")
    return bytes(item or 0 for item in items)


def _number(value: JSON) -> str:
    kind = go_kind(value)
    return f"number {value}" if kind == "number" else kind


def _base64(text: str) -> bytes:
    try:
        return decode_base64(text)
    except ValueError as error:
        raise BadAnswerError(str(error)) from None
