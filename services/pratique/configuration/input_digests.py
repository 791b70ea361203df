"""Digests of the inputs that a process decides by: the current ones, and recent ones for a while after a reload."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from pratique.admission.controllers import Controller
    from pratique.apimachinery.json_values import JSON
    from pratique.cluster.store import ObjectStore
    from pratique.configuration.admissionregistration import PolicyConfiguration
    from pratique.configuration.loading import Configurations

_CHARACTERS = 32
"""Of the SHA-256, in hexadecimal: 128 bits, which nobody who writes the inputs could make collide by chance, and which
cost each call 32 bytes."""


class InputDigests(NamedTuple):
    """What one set of inputs comes to."""

    whole: str
    """Of everything; calls and answers name this one."""
    chain: str
    """Of the controllers that are on, in their order, with the settings of each."""
    configuration: str
    """Of webhook configurations, policies and bindings."""
    cluster: str
    """Of the cluster's objects."""

    @classmethod
    def of(cls, chain: str, configuration: str, cluster: str) -> InputDigests:
        """Make the digest of everything from those of its parts."""
        whole = _digest((chain.encode(), configuration.encode(), cluster.encode()))
        return cls(whole, chain, configuration, cluster)

    def differences(self, other: InputDigests) -> tuple[str, ...]:
        """Name the parts in which another set differs; the digests of both besides, to compare them by hand."""
        parts = zip(("chain", "configuration", "cluster"), self[1:], other[1:], strict=True)
        return tuple(
            f"{name} ({_short(theirs)} there, {_short(ours)} here)"
            for name, ours, theirs in parts
            if ours != theirs
        )


def chain_digest(controllers: Iterable[Controller], configurations: Mapping[str, JSON]) -> str:
    """Of the controllers that are on, and what an AdmissionConfiguration and flags tell each."""
    return _digest(
        _encoded([one.name, _without(configurations.get(one.name), one.location_settings) or {}])
        for one in controllers
    )


def configuration_digest(configurations: Configurations) -> str:
    """Of what ``--config`` holds, as it is after defaulting. Metadata other than names decide nothing."""
    webhooks = (
        (one.kind.value, one.name, one.webhooks)
        for one in (*configurations.mutating, *configurations.validating)
    )
    every: tuple[PolicyConfiguration[Any], ...] = (
        *configurations.mutating_policies,
        *configurations.mutating_bindings,
        *configurations.validating_policies,
        *configurations.validating_bindings,
    )
    policies = ((one.kind.value, one.name, one.spec) for one in every)
    return _digest(_encoded(one) for one in (*webhooks, *policies))


def cluster_digest(store: ObjectStore) -> str:
    """Of what ``--cluster`` holds. For a large one it takes a while: 0.14 s for 3,000 objects."""
    assumed = b"every namespace exists" if store.assumes_namespaces else b"nothing else exists"
    objects = ((_encoded(key), _encoded(document)) for key, document in store.items())
    return _digest((assumed, *(part for pair in objects for part in pair)))


def _digest(parts: Iterable[bytes]) -> str:
    summed = hashlib.sha256()
    for part in parts:
        # With their lengths, so that no two lists of parts come to the same bytes.
        summed.update(len(part).to_bytes(8))
        summed.update(part)
    return summed.hexdigest()[:_CHARACTERS]


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _without(value: Any, location_settings: Collection[str]) -> Any:
    """The settings of a controller but for those that say where something is, at whatever depth."""
    if not location_settings:
        return value
    if isinstance(value, dict):
        return {
            key: _without(each, location_settings)
            for key, each in value.items()
            if key not in location_settings
        }
    return [_without(each, location_settings) for each in value] if isinstance(value, list) else value


def _short(digest: str) -> str:
    return digest[:12] or "none"


T = TypeVar("T")

GRACE_SECONDS = 120.0
"""How long what is there no more is kept. 120: each kubelet brings a changed ConfigMap to its Pods in its own time,
within the 60 s between two looks and the delay of its cache."""
_MAX_RECENT = 4
"""The present inputs among them. One change of two files is two changes here, and a process may see a change of each
before another sees any; more would only be memory."""


class RecentInputs(Generic[T]):
    """What is decided by now and before, and what was made of each, by digest."""

    def __init__(self, digests: InputDigests, value: T, grace_seconds: float = GRACE_SECONDS) -> None:
        """Hold one set."""
        self._held: dict[str, tuple[InputDigests, T]] = {digests.whole: (digests, value)}  # the newest last
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
    def digests(self) -> InputDigests:
        """Of what is decided by now."""
        return self._newest[0]

    @property
    def _newest(self) -> tuple[InputDigests, T]:
        return next(reversed(self._held.values()))

    def __iter__(self) -> Iterator[tuple[InputDigests, T]]:
        """All that is held, the newest first."""
        return iter(tuple(reversed(self._held.values())))

    def get(self, digest: str) -> T | None:
        """What was made of the inputs of a digest, an empty one for the present; None where they are not held."""
        found = self.find(digest)
        return None if found is None else found[1]

    def find(self, digest: str) -> tuple[InputDigests, T] | None:
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

    def switch_to(self, digests: InputDigests, value: T) -> None:
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
        while len(self._held) > _MAX_RECENT:
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
