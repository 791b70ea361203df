"""Image reviews: what a backend is asked of a Pod, and what it answers.

Source: ``k8s.io/api/imagepolicy/v1alpha1/types.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.decoding import ResponseDecoder
from pratique.apimachinery.errors import BadAnswerError
from pratique.apimachinery.json_values import JSON, JSONObject, go_json, member
from pratique.apimachinery.names import check_qualified_name
from pratique.apimachinery.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.admission.reviews import Review

EPHEMERAL_CONTAINERS = "ephemeralcontainers"
"""The subresource of which only what it adds is reviewed."""

AUDIT_PREFIX = "imagepolicywebhook.image-policy.k8s.io/"
"""Begins the key of every audit annotation."""

_GROUP, _VERSION, _KIND = "imagepolicy.k8s.io", "v1alpha1", "ImageReview"
_ANNOTATION_INFIX = ".image-policy.k8s.io/"
"""Which annotations of a Pod the backend sees: those with this anywhere in their key."""


@dataclasses.dataclass(frozen=True, slots=True)
class ImageReviewStatus:
    """What a backend says of images."""

    allowed: bool
    reason: str = ""
    """Why it refuses them; may be empty."""
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """For the audit log, keyed as it will have them; what has no key there is left out."""

    @property
    def size(self) -> int:
        """About how many characters it holds."""
        return len(self.reason) + sum(len(key) + len(value) for key, value in self.audit_annotations.items())


def review_spec(review: Review) -> str:
    """What the backend is told of a Pod, as JSON: the same for the same question."""
    pod = review.object
    fields = ("ephemeralContainers",) if review.subresource == EPHEMERAL_CONTAINERS else ("containers", "initContainers")
    told: JSONObject = {
        "containers": [_container(each) for field in fields for each in _items(pod, field)],
        "annotations": dict(sorted(_annotations(pod))),
        "namespace": review.namespace,
    }
    return go_json({name: value for name, value in told.items() if value})


def encode_review(spec: str) -> bytes:
    """Write an ImageReview as Kubernetes' client does."""
    return (
        f'{{"kind":"{_KIND}","apiVersion":"{_GROUP}/{_VERSION}","metadata":{{}},'
        f'"spec":{spec},"status":{{"allowed":false}}}}\n'
    ).encode()


def decode_review(body: bytes) -> ImageReviewStatus:
    """Read a backend's answer.

    Raises:
        BadAnswerError: it is no ImageReview. The text is that of Kubernetes' decoder.
    """
    document = _decoder.decode(body)
    _check_api_type(document.api_version or "", document.kind or "")
    status = document.status or _WireStatus()
    annotations = {AUDIT_PREFIX + key: value or "" for key, value in (status.audit_annotations or {}).items()}
    return ImageReviewStatus(
        allowed=bool(status.allowed),
        reason=status.reason or "",
        audit_annotations={key: value for key, value in annotations.items() if _is_audit_key(key)},
    )


class _WireStatus(msgspec.Struct, frozen=True, rename="camel"):
    allowed: bool | None = None
    reason: str | None = None
    audit_annotations: dict[str, str | None] | None = None


class _ImageReview(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    status: _WireStatus | None = None


_decoder = ResponseDecoder(
    _ImageReview,
    _KIND,
    {
        "apiVersion": (_KIND, "string"),
        "kind": (_KIND, "string"),
        "status": (_KIND, "v1alpha1.ImageReviewStatus"),
        "status.allowed": ("ImageReviewStatus", "bool"),
        "status.reason": ("ImageReviewStatus", "string"),
        "status.auditAnnotations": ("ImageReviewStatus", "map[string]string"),
        "status.auditAnnotations[]": ("ImageReviewStatus", "string"),
    },
)


def _check_api_type(api_version: str, kind: str) -> None:
    """Refuse what says that it is something else; what it does not say it is taken for."""
    group, slash, version = api_version.rpartition("/")
    if not api_version or (group == _GROUP and slash and not version):
        group, version = _GROUP, _VERSION
    kind = kind or _KIND
    if (group, version, kind) == (_GROUP, _VERSION, _KIND):
        return
    if (group, version, kind) == ("", "v1", "Status"):
        raise BadAnswerError("converting (v1.Status) to (v1alpha1.ImageReview): unknown conversion")
    named = f"{group}/{version}" if group else version
    raise BadAnswerError(
        f"no kind {go_quoted(kind)} is registered for version {go_quoted(named)} "
        'in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )


def _is_audit_key(key: str) -> bool:
    """``checkKeyFormat`` in ``k8s.io/apiserver/pkg/admission/attributes.go``."""
    return key.count("/") == 1 and not check_qualified_name(key)


def _items(pod: JSON, field: str) -> list[JSON]:
    items = member(pod, "spec", field)
    return items if isinstance(items, list) else []


def _container(container: JSON) -> JSONObject:
    image = member(container, "image")
    return {"image": image} if isinstance(image, str) and image else {}


def _annotations(pod: JSON) -> Iterable[tuple[str, str]]:
    annotations = member(pod, "metadata", "annotations")
    if isinstance(annotations, dict):
        for key, value in annotations.items():
            if _ANNOTATION_INFIX in key:
                yield key, value if isinstance(value, str) else ""
