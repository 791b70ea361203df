"""Reviews as protobuf messages, and back.

Objects travel as the bytes that they are held as. Of what comes in, whoever it comes from, JSON is read at once and
within its limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.admission.v1 import review_pb2
from pratique.errors import ReviewError
from pratique.json_limits import JsonLimitError, read_document
from pratique.reviews import GroupVersionKind, GroupVersionResource, Operation, Review, UserInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from pratique.clusters import Cluster
    from pratique.json_values import Document

    ReadDocument: TypeAlias = Callable[[bytes], Document]
    """Makes a document of JSON text, or raises what ``json_limits.read_document`` raises."""

_TO_NUMBER = {
    Operation.CREATE: review_pb2.OPERATION_CREATE,
    Operation.UPDATE: review_pb2.OPERATION_UPDATE,
    Operation.DELETE: review_pb2.OPERATION_DELETE,
    Operation.CONNECT: review_pb2.OPERATION_CONNECT,
}
_FROM_NUMBER = {number: operation for operation, number in _TO_NUMBER.items()}


def write_review(message: review_pb2.Review, review: Review) -> None:
    """Write a review into a message, such as one within another: to put it there later would copy the objects again."""
    message.uid = review.uid
    message.operation = _TO_NUMBER[review.operation]
    message.sub_resource = review.subresource
    message.request_sub_resource = review.request_subresource
    message.name = review.name
    message.namespace = review.namespace
    message.object = review.object_document.raw
    message.old_object = review.old_object_document.raw
    message.options = review.options_document.raw
    message.dry_run = review.dry_run
    _write_kind(message.kind, review.kind)
    _write_resource(message.resource, review.resource)
    if review.request_kind is not None:
        _write_kind(message.request_kind, review.request_kind)
    if review.request_resource is not None:
        _write_resource(message.request_resource, review.request_resource)
    _write_user(message.user_info, review.user)


def _write_kind(message: review_pb2.GroupVersionKind, kind: GroupVersionKind) -> None:
    message.SetInParent()  # an empty one is still a present one
    message.group = kind.group
    message.version = kind.version
    message.kind = kind.kind


def _write_resource(message: review_pb2.GroupVersionResource, resource: GroupVersionResource) -> None:
    message.SetInParent()
    message.group = resource.group
    message.version = resource.version
    message.resource = resource.resource


def _write_user(message: review_pb2.UserInfo, user: UserInfo) -> None:
    message.username = user.username
    message.uid = user.uid
    message.groups.extend(user.groups)
    for key, values in user.extra.items():
        entry = message.extra[key]
        entry.values.extend(values)


def review_from_message(
    message: review_pb2.Review, cluster: Cluster, read: ReadDocument = read_document, digest: str = ""
) -> Review:
    """Read a review that came in, its documents by ``read``; its controllers look things up in ``cluster``.

    ``digest`` is that of what it is to be decided by.

    Raises:
        ReviewError: a field is missing or holds what it may not. The text names the field, never its content.
    """
    operation = _FROM_NUMBER.get(message.operation)
    if operation is None:
        names = ", ".join(f"OPERATION_{operation}" for operation in Operation)
        raise ReviewError(f"review.operation must be one of {names}")
    _require(bool(message.uid), "uid")
    _require(message.HasField("kind"), "kind")
    _require(message.HasField("resource"), "resource")
    return Review(
        uid=message.uid,
        operation=operation,
        kind=_read_kind(message.kind),
        resource=_read_resource(message.resource),
        subresource=message.sub_resource,
        request_kind=_read_kind(message.request_kind) if message.HasField("request_kind") else None,
        request_resource=(
            _read_resource(message.request_resource) if message.HasField("request_resource") else None
        ),
        request_subresource=message.request_sub_resource,
        name=message.name,
        namespace=message.namespace,
        user=_read_user(message.user_info),
        object_document=_document("object", message.object, read),
        old_object_document=_document("old_object", message.old_object, read),
        options_document=_document("options", message.options, read),
        dry_run=message.dry_run,
        cluster=cluster,
        digest=digest,
    )


def _require(present: bool, field: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not present:
        raise ReviewError(f"review.{field} is missing")


def _document(field: str, raw: bytes, read: ReadDocument) -> Document:
    try:
        return read(raw)
    except JsonLimitError as error:
        raise ReviewError(f"review.{field} {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ReviewError(f"review.{field} is not JSON") from None


def _read_kind(message: review_pb2.GroupVersionKind) -> GroupVersionKind:
    return GroupVersionKind(message.group, message.version, message.kind)


def _read_resource(message: review_pb2.GroupVersionResource) -> GroupVersionResource:
    return GroupVersionResource(message.group, message.version, message.resource)


def _read_user(message: review_pb2.UserInfo) -> UserInfo:
    extra = {key: tuple(entry.values) for key, entry in message.extra.items()} if message.extra else {}
    return UserInfo(message.username, message.uid, tuple(message.groups), extra)
