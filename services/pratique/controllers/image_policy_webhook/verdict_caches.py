"""Verdict caches: what a backend has said, for as long as it counts.

Source: ``k8s.io/apimachinery/pkg/util/cache/lruexpirecache.go``.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import cachetools

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.controllers.image_policy_webhook.configurations import Limits
    from pratique.controllers.image_policy_webhook.image_reviews import Verdict

_MOST_ENTRIES = 1024
_LARGEST_ENTRY = 16 * 1024
"""Characters of a verdict that is remembered. A backend must not be able to fill the memory: all together are 16 MiB
at most, or four times that where they are no ASCII."""


class VerdictCache:
    """The last verdicts, by what they are about."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        """Remember nothing yet. ``clock`` gives seconds, and never goes back."""
        self._limits = limits
        self._verdicts: cachetools.TLRUCache[bytes, Verdict] = cachetools.TLRUCache(
            _MOST_ENTRIES, ttu=self._forgotten_at, timer=clock
        )

    def get(self, spec: str) -> Verdict | None:
        """What was said of a spec; None where nothing counts any more."""
        return self._verdicts.get(_key(spec))

    def add(self, spec: str, verdict: Verdict) -> None:
        """Remember what was said of a spec."""
        if verdict.size <= _LARGEST_ENTRY and self._seconds(verdict):
            self._verdicts[_key(spec)] = verdict

    def _seconds(self, verdict: Verdict) -> float:
        return self._limits.allow_seconds if verdict.allowed else self._limits.deny_seconds

    def _forgotten_at(self, _: bytes, verdict: Verdict, now: float) -> float:
        # It counts up to and including its last moment.
        return math.nextafter(now + self._seconds(verdict), math.inf)


def _key(spec: str) -> bytes:
    """Stands for a spec, which may be large, and is nothing to keep."""
    return hashlib.sha256(spec.encode()).digest()
