"""Image reviews: what the backend is asked about a Pod, what it answers, and how long the answers are cached.

Sources: ``k8s.io/api/imagepolicy/v1alpha1/types.go`` and ``plugin/pkg/admission/imagepolicy/admission.go``.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import cachetools
import msgspec

from pratique.admission.controllers import Backend
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.decoding import ResponseDecoder, Scheme, TypeMeta
from pratique.apimachinery.errors import BadAnswerError, CallError
from pratique.apimachinery.flow_control import Backoff, retry_with_backoff
from pratique.apimachinery.json_values import JSON, JSONObject, go_json, member
from pratique.apimachinery.names import check_qualified_name
from pratique.controllers.image_policy_webhook import ImagePolicyLimits
from pratique.pods import pod_spec
from pratique.processes.review_threads import work_on_review

EPHEMERAL_CONTAINERS = "ephemeralcontainers"
"""The subresource for which only ephemeral containers are reviewed."""

AUDIT_PREFIX = "imagepolicywebhook.image-policy.k8s.io/"
"""The prefix of every audit annotation's key."""

_GROUP, _VERSION, _KIND = "imagepolicy.k8s.io", "v1alpha1", "ImageReview"
_ANNOTATION_INFIX = ".image-policy.k8s.io/"
"""The backend sees those annotations of a Pod whose key contains this."""


class ImageReviewStatus(msgspec.Struct, frozen=True):
    """The backend's decision about images."""

    allowed: bool
    reason: str = ""
    """Why it denies them; may be empty."""
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    """For the audit log, with their final keys. Annotations with an invalid key are dropped."""

    @property
    def size(self) -> int:
        """Roughly how many characters it holds."""
        return len(self.reason) + sum(len(key) + len(value) for key, value in self.audit_annotations.items())


def review_spec(review: Review) -> str:
    """The ``spec`` of the ImageReview as JSON. Equal questions give equal texts, so it is the key of the cache."""
    pod = review.object
    fields = (
        ("ephemeralContainers",)
        if review.subresource == EPHEMERAL_CONTAINERS
        else ("containers", "initContainers")
    )
    spec: JSONObject = {
        "containers": [_container(container) for field in fields for container in _items(pod, field)],
        "annotations": dict(sorted(_annotations(pod))),
        "namespace": review.namespace,
    }
    return go_json({name: value for name, value in spec.items() if value})


def _spec_of_pod(review: Review) -> str | None:
    """The ``spec``; None if the object is no Pod."""
    return review_spec(review) if pod_spec.is_pod(review.object) else None


def encode_review(spec: str) -> bytes:
    """Encode an ImageReview as Kubernetes' client does."""
    return (
        f'{{"kind":"{_KIND}","apiVersion":"{_GROUP}/{_VERSION}","metadata":{{}},'
        f'"spec":{spec},"status":{{"allowed":false}}}}\n'
    ).encode()


def decode_review(body: bytes) -> ImageReviewStatus:
    """Decode the backend's answer.

    Raises:
        BadAnswerError: It is not an ImageReview. The text is that of Kubernetes' decoder.
    """
    document = _decoder.decode(body, _VERSION)
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


class _ImageReview(TypeMeta, frozen=True):
    status: _WireStatus | None = None


_decoder = ResponseDecoder(
    _ImageReview,
    Scheme(_GROUP, (_VERSION,), (_KIND,), "pkg/api/legacyscheme/scheme.go:30"),
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


_CACHE_ENTRIES = 1024
_CACHE_ENTRY_CHARACTERS = 16 * 1024
"""Characters of the largest cached review. It keeps a backend from filling the memory: 1,024 entries take 16 MiB at
most, or four times that if they are not ASCII."""


class ReviewCache:
    """The latest reviews by their spec."""

    def __init__(self, limits: ImagePolicyLimits, clock: Callable[[], float]) -> None:
        """Start empty. ``clock`` is the time in seconds, and never goes back."""
        self._limits = limits
        self._verdicts: cachetools.TLRUCache[bytes, ImageReviewStatus] = cachetools.TLRUCache(
            _CACHE_ENTRIES, ttu=self._forgotten_at, timer=clock
        )

    def get(self, spec: str) -> ImageReviewStatus | None:
        """The cached review of a spec; None if there is none or it has expired."""
        return self._verdicts.get(_cache_key(spec))

    def add(self, spec: str, verdict: ImageReviewStatus) -> None:
        """Cache the review of a spec."""
        if verdict.size <= _CACHE_ENTRY_CHARACTERS and self._seconds(verdict):
            self._verdicts[_cache_key(spec)] = verdict

    def _seconds(self, verdict: ImageReviewStatus) -> float:
        return self._limits.allow_seconds if verdict.allowed else self._limits.deny_seconds

    def _forgotten_at(self, _: bytes, verdict: ImageReviewStatus, now: float) -> float:
        # An entry is still valid in its last moment.
        return math.nextafter(now + self._seconds(verdict), math.inf)


def _cache_key(spec: str) -> bytes:
    """The digest of a spec, which may be too large to keep."""
    return hashlib.sha256(spec.encode()).digest()


_log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_SECONDS = 60.0
"""How long all attempts may take if the review has no deadline: kube-apiserver's ``--request-timeout``."""

_ANSWER_MARGIN_SECONDS = 0.5
"""The part of a review's time that is reserved for answering after the backend has failed; a tenth of the time if
that is less."""

_FAILED_OPEN = "alpha.image-policy.k8s.io/failed-open"
"""The annotation of a Pod that was admitted because the backend did not answer."""


class ImageReviewer:
    """Asks one backend about images."""

    def __init__(
        self,
        backend: Backend,
        limits: ImagePolicyLimits,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``clock`` says when cached reviews expire; ``sleep`` waits between retries."""
        self._backend = backend
        self._backoff = Backoff(limits.backoff_seconds)
        self._default_allow = limits.default_allow
        self._verdicts = ReviewCache(limits, clock)
        self._sleep = sleep

    async def validate(self, review: Review) -> Answer:
        """Deny a Pod whose images the backend denies."""
        spec = await work_on_review(review.received_values, _spec_of_pod, review)
        if spec is None:
            return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
        verdict = self._verdicts.get(spec)
        if verdict is None:
            try:
                verdict = await self._ask(spec, _deadline(review))
            except CallError as error:
                return self._unanswered(review, error)
            self._verdicts.add(spec, verdict)
        return _answer(review, verdict)

    async def _ask(self, spec: str, deadline: Deadline) -> ImageReviewStatus:
        body = encode_review(spec)
        answered = await retry_with_backoff(
            lambda: self._backend.ask(body, deadline), self._backoff, deadline, self._sleep
        )
        return decode_review(answered)

    def _unanswered(self, review: Review, error: CallError) -> Answer:
        """Decide without the backend. The error is not logged, because the backend may have written it."""
        decision = "allowed" if self._default_allow else "refused"
        reason = f"{type(error).__name__}: the Pod is {decision}"
        _log.warning("the image review backend did not answer", extra={"uid": review.uid, "reason": reason})
        if self._default_allow:
            edits = Edits(review.object)
            edits.set(("metadata", "annotations", _FAILED_OPEN), "true")
            return edits.answer(audit_annotations={f"{AUDIT_PREFIX}failed-open": "true"})
        status = error.status if isinstance(error, BadAnswerError) else None
        if status is not None and statuses.has_reason(status, 403, "Forbidden"):
            return deny(status=status)  # as in Kubernetes, which does not wrap an error of the same type
        return deny(status=statuses.admission_forbidden(review, str(error)))


def _deadline(review: Review) -> Deadline:
    if review.deadline is None:
        return Deadline.after(_REQUEST_TIMEOUT_SECONDS)
    remaining = review.deadline.remaining_seconds
    return Deadline.after(remaining - min(_ANSWER_MARGIN_SECONDS, remaining / 10))


def _answer(review: Review, verdict: ImageReviewStatus) -> Answer:
    if verdict.allowed:
        return allow(audit_annotations=verdict.audit_annotations)
    text = "one or more images rejected by webhook backend"
    if verdict.reason:
        text = f"image policy webhook backend denied one or more images: {verdict.reason}"
    status = statuses.admission_forbidden(review, text)
    return deny(status=status, audit_annotations=verdict.audit_annotations)
