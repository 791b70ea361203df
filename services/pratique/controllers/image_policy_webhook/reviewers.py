"""Reviewers: they ask a backend about the images of Pods, and remember what it answers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from typing import TYPE_CHECKING

import cachetools

from pratique.admission.answers import Answer, allow, deny
from pratique.admission.calls import Deadline
from pratique.admission.edits import Edits
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import BadAnswerError, CallError
from pratique.apimachinery.flow_control import Backoff, retry_with_backoff
from pratique.controllers.image_policy_webhook.image_reviews import (
    AUDIT_PREFIX,
    encode_review,
    decode_review,
    review_spec,
)
from pratique.pods import containers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pratique.admission.controllers import Backend
    from pratique.admission.reviews import Review
    from pratique.controllers.image_policy_webhook.configurations import ImagePolicyLimits
    from pratique.controllers.image_policy_webhook.image_reviews import ImageReviewStatus

_CACHE_ENTRIES = 1024
_CACHE_ENTRY_CHARACTERS = 16 * 1024
"""Characters of a verdict that is remembered. A backend must not be able to fill the memory: all together are 16 MiB
at most, or four times that where they are no ASCII."""


class ReviewCache:
    """The last verdicts, by what they are about."""

    def __init__(self, limits: ImagePolicyLimits, clock: Callable[[], float]) -> None:
        """Remember nothing yet. ``clock`` gives seconds, and never goes back."""
        self._limits = limits
        self._verdicts: cachetools.TLRUCache[bytes, ImageReviewStatus] = cachetools.TLRUCache(
            _CACHE_ENTRIES, ttu=self._forgotten_at, timer=clock
        )

    def get(self, spec: str) -> ImageReviewStatus | None:
        """What was said of a spec; None where nothing counts any more."""
        return self._verdicts.get(_cache_key(spec))

    def add(self, spec: str, verdict: ImageReviewStatus) -> None:
        """Remember what was said of a spec."""
        if verdict.size <= _CACHE_ENTRY_CHARACTERS and self._seconds(verdict):
            self._verdicts[_cache_key(spec)] = verdict

    def _seconds(self, verdict: ImageReviewStatus) -> float:
        return self._limits.allow_seconds if verdict.allowed else self._limits.deny_seconds

    def _forgotten_at(self, _: bytes, verdict: ImageReviewStatus, now: float) -> float:
        # It counts up to and including its last moment.
        return math.nextafter(now + self._seconds(verdict), math.inf)


def _cache_key(spec: str) -> bytes:
    """Stands for a spec, which may be large, and is nothing to keep."""
    return hashlib.sha256(spec.encode()).digest()


_log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_SECONDS = 60.0
"""How long all attempts may take where nothing else ends them: the ``--request-timeout`` of kube-apiserver."""

_ANSWER_MARGIN_SECONDS = 0.5
"""What is left of a review's time to say what becomes of a Pod whose backend did not answer; a tenth where that is
less."""

_FAILED_OPEN = "alpha.image-policy.k8s.io/failed-open"
"""The annotation of a Pod that was let through because nobody answered."""


class ImageReviewer:
    """Asks one backend."""

    def __init__(
        self,
        backend: Backend,
        limits: ImagePolicyLimits,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``clock`` says when verdicts are forgotten; ``sleep`` waits before the backend is asked again."""
        self._backend = backend
        self._backoff = Backoff(limits.backoff_seconds)
        self._default_allow = limits.default_allow
        self._verdicts = ReviewCache(limits, clock)
        self._sleep = sleep

    async def validate(self, review: Review) -> Answer:
        """Refuse a Pod whose images the backend refuses."""
        if not containers.is_pod(review.object):
            return deny(status=statuses.bad_request(containers.NOT_A_POD))
        spec = review_spec(review)
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
        """Decide without the backend. Its error is not logged: the backend may have written it."""
        decision = "allowed" if self._default_allow else "refused"
        reason = f"{type(error).__name__}: the Pod is {decision}"
        _log.warning("the image review backend gave no answer", extra={"uid": review.uid, "reason": reason})
        if self._default_allow:
            edits = Edits(review.object)
            edits.set(("metadata", "annotations", _FAILED_OPEN), "true")
            return edits.answer(audit_annotations={f"{AUDIT_PREFIX}failed-open": "true"})
        status = error.status if isinstance(error, BadAnswerError) else None
        if status is not None and statuses.has_reason(status, 403, "Forbidden"):
            return deny(status=status)  # as Kubernetes, which does not wrap an error of the same type
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
