"""Kubernetes Status objects, which tell a user why a request was refused.

Constructors and messages follow ``k8s.io/apimachinery/pkg/api/errors``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.requests import RequestAttributes

if TYPE_CHECKING:
    # At runtime this would be a circle: field errors are causes of a Status.
    from pratique.apimachinery.field_errors import FieldError


class StatusCause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of several causes."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The object that a refusal is about. ``retry_after_seconds`` is 0 if not given."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was refused. ``code`` is the HTTP code; ``reason`` may be empty, as in Kubernetes."""

    metadata: dict[str, str] = {}
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


_STATUS_REASONS = frozenset(
    {
        "Unauthorized", "Forbidden", "NotFound", "AlreadyExists", "Conflict", "Gone", "Invalid", "ServerTimeout",
        "StoreReadError", "Timeout", "TooManyRequests", "BadRequest", "MethodNotAllowed", "NotAcceptable",
        "RequestEntityTooLarge", "UnsupportedMediaType", "InternalError", "Expired", "ServiceUnavailable",
    }
)  # fmt: skip


def has_reason(status: Status, code: int, reason: str) -> bool:
    """Tell whether a Status has a reason, or its code and no known reason: ``errors.IsForbidden`` and the like."""
    return status.reason == reason or (status.reason not in _STATUS_REASONS and status.code == code)


def failure(code: int, reason: str, message: str, details: StatusDetails | None = None) -> Status:
    """A Status of failure."""
    return Status(status="Failure", message=message, reason=reason, details=details, code=code)


def qualified_resource(group: str, resource: str) -> str:
    """A group and resource as ``GroupResource.String`` writes them: ``pods``, ``deployments.apps``."""
    return f"{resource}.{group}" if group else resource


def go_quoted(text: str) -> str:
    """Quote a text as Go's ``%q`` does."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'  # the usual case
    quoted = "".join(_GO_ESCAPES.get(c) or _escape_unprintable(c) for c in text)
    return f'"{quoted}"'


_GO_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f",
    "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def _escape_unprintable(character: str) -> str:
    if character.isprintable():
        return character
    point = ord(character)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def aggregate(texts: Iterable[str]) -> str:
    """Join error messages as ``utilerrors.NewAggregate`` does: one bare, several as ``[a, b]``, without duplicates."""
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def forbidden(group: str, resource: str, name: str, text: str) -> Status:
    """``NewForbidden``: 403, ``<resource> "<name>" is forbidden: <text>``."""
    subject = qualified_resource(group, resource)
    if not subject:
        message = f"forbidden: {text}"
    elif not name:
        message = f"{subject} is forbidden: {text}"
    else:
        message = f"{subject} {go_quoted(name)} is forbidden: {text}"
    return failure(403, "Forbidden", message, StatusDetails(name=name, group=group, kind=resource))


def admission_forbidden(request: RequestAttributes, text: str) -> Status:
    """``admission.NewForbidden``: 403 with the request's resource and the object's name.

    Source: ``k8s.io/apiserver/pkg/admission/errors.go`` ``extractResourceName``: the request's name, else the
    object's name, else its generateName, else ``Unknown``.
    """
    resource = request.resource
    return forbidden(resource.group, resource.resource, display_name(request), text)


def display_name(request: RequestAttributes) -> str:
    """The name of the reviewed object in error messages."""
    if request.name:
        return request.name
    metadata = request.object.get("metadata") if isinstance(request.object, dict) else None
    if not isinstance(metadata, dict):
        return "Unknown"
    return str(metadata.get("name") or metadata.get("generateName") or "Unknown")


def not_found(group: str, resource: str, name: str) -> Status:
    """``NewNotFound``: 404, ``<resource> "<name>" not found``."""
    message = f"{qualified_resource(group, resource)} {go_quoted(name)} not found"
    return failure(404, "NotFound", message, StatusDetails(name=name, group=group, kind=resource))


def conflict(group: str, resource: str, name: str, text: str) -> Status:
    """``NewConflict``: 409, ``Operation cannot be fulfilled on <resource> "<name>": <text>``."""
    subject = f"{qualified_resource(group, resource)} {go_quoted(name)}"
    message = f"Operation cannot be fulfilled on {subject}: {text}"
    return failure(409, "Conflict", message, StatusDetails(name=name, group=group, kind=resource))


def bad_request(text: str) -> Status:
    """``NewBadRequest``: 400."""
    return failure(400, "BadRequest", text)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError], text: str = "") -> Status:
    """``NewInvalid``: 422, ``<Kind> "<name>" is invalid: <errors>``, with one cause per error.

    ``text`` stands in the place of errors that are too many to be told.
    """
    text = text or aggregate(str(error) for error in errors)
    causes = tuple(error.cause for error in errors)
    details = StatusDetails(name=name, group=group, kind=kind, causes=causes)
    message = f"{qualified_resource(group, kind)} {go_quoted(name)} is invalid: {text}"
    return failure(422, "Invalid", message, details)


def method_not_allowed() -> Status:
    """Return a 405 with the message of ``NewGenericServerResponse``."""
    text = "the server does not allow this method on the requested resource"
    return failure(405, "MethodNotAllowed", text)


def internal_error(text: str) -> Status:
    """``NewInternalError``: 500, with the bare text as its cause."""
    details = StatusDetails(causes=(StatusCause(message=text),))
    return failure(500, "InternalError", f"Internal error occurred: {text}", details)


def plain_error(text: str) -> Status:
    """A Go error that is not a Status: 500 without a reason, the message unchanged."""
    return failure(500, "", text)


def timeout(text: str) -> Status:
    """``NewTimeoutError``: 504."""
    return failure(504, "Timeout", f"Timeout: {text}")


def service_unavailable(text: str) -> Status:
    """``NewServiceUnavailable``: 503."""
    return failure(503, "ServiceUnavailable", text)


def to_document(status: Status) -> dict[str, object]:
    """The Status as the JSON object that an API server sends, with ``kind`` and ``apiVersion``."""
    fields: dict[str, object] = msgspec.to_builtins(status)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}} | fields
