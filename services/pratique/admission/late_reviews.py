"""Reviews that were late or deadly twice, which fail at once for a while.

Whoever sends such a review sends it again, and so does a service on its next replica: without this, one request keeps
one replica after another busy, or ends them. A review counts by what it asks, not by its uid, which is another for
each attempt.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from pratique.admission.results import Failed, FailureKind
from pratique.admission.reviews import Review
from pratique.telemetry.metrics import CallbackMetric

OUT_OF_TIME = Failed(FailureKind.TIMEOUT, "context deadline exceeded")
"""How a call fails that takes too long."""
LEAST_SECONDS = 0.5
"""A call that had less time says nothing about its review. 0.5: half of the shortest time limit of a review."""
_FAILURES = 2
"""After how many failures a review fails at once."""
_REFUSED_SECONDS = 30.0
"""How long it does so after its last failure. 30: the longest time that a review can have, so that whoever sends it
again and again keeps a replica busy for a part of the time at most."""
_MAX_REVIEWS = 1_024
"""How many are remembered, of which the oldest is forgotten first; each takes some 200 bytes."""


_refused: Counter[tuple[str, ...]] = Counter()
"""How many calls of this process failed at once, by name of the service, webhook or controller."""


class LateReviews:
    """The reviews that one service, webhook or controller was late with, or died of."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without any; ``name`` is that of who is called, and ``clock`` tells seconds."""
        self._name = name
        self._clock = clock
        self.remembered: OrderedDict[bytes, tuple[int, float, Failed]] = OrderedDict()
        """Failures by digest of their review. While it is empty, no review needs to be asked about."""

    def refuse(self, review: Review) -> Failed | None:
        """Return how a call of the review is to fail at once, and count it; None if it is to be made."""
        failures, until, failed = self.remembered.get(_digest(review), (0, 0.0, None))
        if failures < _FAILURES or self._clock() >= until:
            return None
        _refused[self._name,] += 1
        return failed

    def fail(self, review: Review, took_seconds: float, failed: Failed = OUT_OF_TIME) -> None:
        """Record that a call was late, or that whoever was called died of it, after how long, and how that failed.

        Calls that were made at the same time count as one: one death ends them all.
        """
        digest, now = _digest(review), self._clock()
        failures, until, _ = self.remembered.pop(digest, (0, 0.0, failed))
        began_after = now - took_seconds >= until - _REFUSED_SECONDS
        failures = failures + began_after if now < until else 1
        self.remembered[digest] = (failures, now + _REFUSED_SECONDS, failed)
        if len(self.remembered) > _MAX_REVIEWS:
            self.remembered.popitem(last=False)

    def answer(self, review: Review) -> None:
        """Record that a call was answered: what was late before was not so because of the review."""
        self.remembered.pop(_digest(review), None)


def late_reviews_metric() -> CallbackMetric:
    """Return the metric of calls that failed at once in this process, read on every scrape."""
    return CallbackMetric(
        "pratique_late_reviews_refused_total",
        "Calls that failed at once: the same review was late, or deadly, twice.",
        _refused.copy,
        "name",
    )


def _digest(review: Review) -> bytes:
    """Return a digest of what the review asks; 16 bytes, so that nobody finds another review of the same digest."""
    asked = (
        review.operation.value,
        *(f"{part.group}/{part.version}" for part in (review.kind, review.resource)),
        review.kind.kind,
        review.resource.resource,
        review.subresource,
        review.namespace,
        review.name,
        review.user.username,
    )
    parts = [
        *(text.encode("utf-8", "surrogatepass") for text in asked),
        *(document.raw for document in review.documents),
    ]
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.digest()
