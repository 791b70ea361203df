"""Held inputs: what a process decides by now, and for a while what it decided by before.

Files that change reach the processes of a chain one after another. So that no review falls between, each process keeps
what was there before for a grace, under its digest, and a review goes to the end under the digest that it began with.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from pratique.digests import Digests

T = TypeVar("T")

GRACE_SECONDS = 120.0
"""How long what is there no more is kept. 120: each kubelet brings a changed ConfigMap to its Pods in its own time,
within the 60 s between two looks and the delay of its cache."""
_MOST_KEPT = 4
"""The present inputs among them. One change of two files is two changes here, and a process may see a change of each
before another sees any; more would only be memory."""


class HeldInputs(Generic[T]):
    """What is decided by now and before, and what was made of each, by digest."""

    def __init__(self, digests: Digests, value: T, grace_seconds: float = GRACE_SECONDS) -> None:
        """Hold one set."""
        self._held: dict[str, tuple[Digests, T]] = {digests.whole: (digests, value)}  # the newest last
        self._grace_seconds = grace_seconds
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._listeners: list[Callable[[], None]] = []
        self.mismatches = 0
        """Calls that were not carried out, because they were to be decided by something else."""

    @property
    def current(self) -> T:
        """What was made of what is decided by now."""
        return self._newest[1]

    @property
    def digests(self) -> Digests:
        """Of what is decided by now."""
        return self._newest[0]

    @property
    def _newest(self) -> tuple[Digests, T]:
        return next(reversed(self._held.values()))

    def __iter__(self) -> Iterator[tuple[Digests, T]]:
        """All that is held, the newest first."""
        return iter(tuple(reversed(self._held.values())))

    def get(self, digest: str) -> T | None:
        """What was made of the inputs of a digest, an empty one for the present; None where they are not held."""
        found = self.find(digest)
        return None if found is None else found[1]

    def find(self, digest: str) -> tuple[Digests, T] | None:
        """Likewise, with all digests."""
        return self._held.get(digest) if digest else self._newest

    async def wait_for(self, digest: str, seconds: float | None) -> T | None:
        """What was made of the inputs of a digest, as soon as they are held; None where they are not in time."""
        news = asyncio.Event()
        ignore = self.listen(news.set)
        try:
            async with asyncio.timeout(seconds):
                while (found := self.get(digest)) is None:
                    news.clear()
                    await news.wait()
        except TimeoutError:
            return None
        finally:
            ignore()
        return found

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called whenever something else is held; gives what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def take_up(self, digests: Digests, value: T) -> None:
        """Decide by these from now on. Needs a running event loop."""
        before = self.digests.whole
        self._held.pop(digests.whole, None)
        self._held[digests.whole] = digests, value
        if digests.whole == before:
            return
        if timer := self._timers.pop(digests.whole, None):
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[before] = loop.call_later(self._grace_seconds, self._drop, before)
        while len(self._held) > _MOST_KEPT:
            self._forget(next(iter(self._held)))
        self._tell()

    def close(self) -> None:
        """Keep no time any more."""
        for timer in self._timers.values():
            timer.cancel()

    def collect(self) -> Iterator[Metric]:
        """Yield what operators compare between processes, for a registry."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - as asked

        held = GaugeMetricFamily(
            "pratique_inputs_info",
            "What is decided by, as digests: 1 for what counts now, 0 for what is still kept of before.",
            labels=["digest", "chain", "configuration", "cluster"],
        )
        for digests, _ in self:
            held.add_metric(digests, int(digests is self.digests))
        mismatches = CounterMetricFamily(
            "pratique_inputs_mismatches_total",
            "Calls that were not carried out because the two sides decide by different inputs.",
        )
        mismatches.add_metric([], self.mismatches)
        yield from (held, mismatches)

    def _drop(self, digest: str) -> None:
        self._forget(digest)
        self._tell()

    def _forget(self, digest: str) -> None:
        self._held.pop(digest, None)
        if timer := self._timers.pop(digest, None):
            timer.cancel()

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
