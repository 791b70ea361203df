"""Encodes the AdmissionReview that is sent to a webhook.

Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go``. Both versions have the same
fields; those that the API server leaves out when they are empty are left out here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Literal, TypeAlias, cast

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import CallError
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import (
    GroupVersionKind,  # msgspec reads the types of fields
    GroupVersionResource,  # msgspec reads the types of fields
)
from pratique.apimachinery.requests import UserInfo  # msgspec reads the types of fields

ReviewVersion: TypeAlias = Literal["v1", "v1beta1"]
"""A supported version of ``admission.k8s.io``."""

_VERSIONS = frozenset({"v1", "v1beta1"})
_NULL = msgspec.Raw(b"null")
_encoder = msgspec.json.Encoder()


class _SentRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str = ""
    request_kind: GroupVersionKind
    request_resource: GroupVersionResource
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str
    user_info: UserInfo
    object: msgspec.Raw
    old_object: msgspec.Raw
    dry_run: bool
    options: msgspec.Raw


class _SentAdmissionReview(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    api_version: str
    request: _SentRequest


class SentReview(msgspec.Struct, frozen=True):
    """An encoded AdmissionReview for a webhook, and what its answer is checked against."""

    uid: str
    """The uid that the answer must repeat; it differs for every call."""
    version: ReviewVersion
    """The version that the answer must have."""
    body: bytes
    """The JSON text."""


def build_review(review: Review, versions: Iterable[str]) -> SentReview:
    """Encode a review for a webhook that accepts ``versions``, in the first supported one.

    Raises:
        CallError: none is supported.
    """
    version = next((version for version in versions if version in _VERSIONS), None)
    if version is None:
        raise CallError(
            "could not create admission objects: "
            "webhook does not accept known AdmissionReview versions (v1, v1beta1)",
            code=400,
        )
    uid = str(uuid.uuid4())
    message = _SentAdmissionReview("AdmissionReview", f"admission.k8s.io/{version}", _request(uid, review))
    return SentReview(uid, cast("ReviewVersion", version), _encoder.encode(message))


def _request(uid: str, review: Review) -> _SentRequest:
    unconverted = review.request_resource is None
    return _SentRequest(
        uid=uid,
        kind=review.kind,
        resource=review.resource,
        sub_resource=review.subresource,
        request_kind=review.request_kind or review.kind,
        request_resource=review.request_resource or review.resource,
        request_sub_resource=review.subresource if unconverted else review.request_subresource,
        name=review.name,
        namespace=review.namespace,
        operation=review.operation,
        user_info=review.user,
        object=_embedded(review.object_document),
        old_object=_embedded(review.old_object_document),
        dry_run=review.dry_run,
        options=_embedded(review.options_document),
    )


def _embedded(document: Document) -> msgspec.Raw:
    return _NULL if document.is_null else msgspec.Raw(document.raw)
