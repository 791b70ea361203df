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
    from pratique.configuration.mutation_allow_lists import MutationAllowList
    from pratique.configuration.policy_exceptions import PolicyException
    from pratique.configuration.policy_rollouts import PolicyRollout

_CHARACTERS = 32
"""The length of a digest: the first 128 bits of a SHA-256 in hexadecimal. Accidental collisions are practically
impossible, and each call carries only 32 bytes."""


class InputDigests(NamedTuple):
    """The digests of one set of inputs."""

    whole: str
    """The digest of everything, which calls and answers carry."""
    chain: str
    """The digest of the enabled controllers in order, with their settings."""
    configuration: str
    """The digest of webhook configurations, policies and bindings."""
    cluster: str
    """The digest of the cluster's objects."""

    @classmethod
    def of(cls, chain: str, configuration: str, cluster: str) -> InputDigests:
        """Combine the digests of the parts."""
        whole = _digest((chain.encode(), configuration.encode(), cluster.encode()))
        return cls(whole, chain, configuration, cluster)

    def differences(self, other: InputDigests) -> tuple[str, ...]:
        """Name the parts in which another set differs, with both digests for comparison by hand."""
        parts = zip(("chain", "configuration", "cluster"), self[1:], other[1:], strict=True)
        return tuple(
            f"{name} ({_short(theirs)} there, {_short(ours)} here)"
            for name, ours, theirs in parts
            if ours != theirs
        )


def chain_digest(controllers: Iterable[Controller], configurations: Mapping[str, JSON]) -> str:
    """Digest the enabled controllers with their settings from an AdmissionConfiguration and flags."""
    return _digest(
        _encoded(
            [
                controller.name,
                _without(configurations.get(controller.name), controller.location_settings) or {},
            ]
        )
        for controller in controllers
    )


def configuration_digest(configurations: Configurations) -> str:
    """Digest the contents of ``--config`` after defaulting. Of the metadata, only names count."""
    webhooks = (
        (configuration.kind.value, configuration.name, configuration.webhooks)
        for configuration in (*configurations.mutating, *configurations.validating)
    )
    policies_and_bindings: tuple[PolicyConfiguration[Any], ...] = (
        *configurations.mutating_policies,
        *configurations.mutating_bindings,
        *configurations.validating_policies,
        *configurations.validating_bindings,
    )
    policies = (
        (configuration.kind.value, configuration.name, configuration.spec)
        for configuration in policies_and_bindings
    )
    own_kinds: tuple[PolicyException | PolicyRollout | MutationAllowList, ...] = (
        *configurations.exceptions,
        *configurations.rollouts,
        *configurations.allow_lists,
    )
    own = ((document.kind.value, document.name, document.spec) for document in own_kinds)
    return _digest(_encoded(configuration) for configuration in (*webhooks, *policies, *own))


def cluster_digest(store: ObjectStore) -> str:
    """Digest the contents of ``--cluster``. That takes 0.14 s for 3,000 objects.

    Of a live cluster, only its identity counts, and whether it is asked what users may do: see
    ``docs/adr/0032-live-clusters.md``.
    """
    if store.source:
        asked = (b"access reviews",) if store.access_reviews is not None else ()
        return _digest((b"live", store.source.encode(), *asked))
    assumed = b"every namespace exists" if store.assumes_namespaces else b"nothing else exists"
    objects = ((_encoded(key), _encoded(document)) for key, document in store.items())
    return _digest((assumed, *(part for pair in objects for part in pair)))


def _digest(parts: Iterable[bytes]) -> str:
    summed = hashlib.sha256()
    for part in parts:
        # The lengths keep different lists of parts from giving the same bytes.
        summed.update(len(part).to_bytes(8))
        summed.update(part)
    return summed.hexdigest()[:_CHARACTERS]


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _without(value: Any, location_settings: Collection[str]) -> Any:
    """The settings of a controller without the members in ``location_settings``, at any depth."""
    if not location_settings:
        return value
    if isinstance(value, dict):
        return {
            key: _without(member, location_settings)
            for key, member in value.items()
            if key not in location_settings
        }
    return [_without(member, location_settings) for member in value] if isinstance(value, list) else value


def _short(digest: str) -> str:
    return digest[:12] or "none"


T = TypeVar("T")

GRACE_SECONDS = 120.0
"""How long replaced inputs are kept. 120: kubelets bring a changed ConfigMap to their Pods at different times, within
their sync period of 60 s plus the delay of their caches."""
_MAX_RECENT = 4
"""How many sets are kept, the current one included. A change of two files counts as two changes here, and a process may
see both before another sees either; more would only use memory."""


class RecentInputs(Generic[T]):
    """The current and recent inputs, as values that were built from them, by digest."""

    def __init__(self, digests: InputDigests, value: T, grace_seconds: float = GRACE_SECONDS) -> None:
        """Begin with one set."""
        self._by_digest: dict[str, tuple[InputDigests, T]] = {
            digests.whole: (digests, value)
        }  # the newest last
        self._grace_seconds = grace_seconds
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._listeners: list[Callable[[], None]] = []
        self._suspended = False
        self.mismatches = 0
        """The number of calls refused because the two sides decide by different inputs."""

    @property
    def current(self) -> T:
        """The value of the current inputs."""
        return self._newest[1]

    @property
    def digests(self) -> InputDigests:
        """The digests of the current inputs."""
        return self._newest[0]

    @property
    def _newest(self) -> tuple[InputDigests, T]:
        return next(reversed(self._by_digest.values()))

    def __iter__(self) -> Iterator[tuple[InputDigests, T]]:
        """All sets, the newest first; none while they are suspended."""
        return iter(() if self._suspended else tuple(reversed(self._by_digest.values())))

    def get(self, digest: str) -> T | None:
        """The value of the inputs with a digest; an empty digest means the current ones. None if they are unknown."""
        found = self.find(digest)
        return None if found is None else found[1]

    def find(self, digest: str) -> tuple[InputDigests, T] | None:
        """Like :meth:`get`, with all digests."""
        if self._suspended:
            return None
        return self._by_digest.get(digest) if digest else self._newest

    async def wait_for(self, digest: str, seconds: float | None) -> T | None:
        """Wait for the inputs with a digest, and give their value; None if they do not come within ``seconds``."""
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
        """Call ``listener`` at each change of the sets; gives a function that ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def switch_to(self, digests: InputDigests, value: T) -> None:
        """Make these inputs current. Needs a running event loop."""
        before = self.digests.whole
        self._by_digest.pop(digests.whole, None)
        self._by_digest[digests.whole] = digests, value
        if digests.whole == before:
            return
        if timer := self._timers.pop(digests.whole, None):
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[before] = loop.call_later(self._grace_seconds, self._expire, before)
        while len(self._by_digest) > _MAX_RECENT:
            self._remove(next(iter(self._by_digest)))
        self._notify()

    @property
    def suspended(self) -> bool:
        """Whether nobody gets a set."""
        return self._suspended

    def suspend(self, suspended: bool) -> None:  # noqa: FBT001 - called with one fact
        """Give no set to anybody, or all of them again: whether they are current is not known meanwhile."""
        if suspended is not self._suspended:
            self._suspended = suspended
            self._notify()

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that let operators compare processes."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - as asked

        held = GaugeMetricFamily(
            "pratique_inputs_info",
            "The inputs of decisions, as digests: 1 for the current ones, 0 for replaced ones that are still kept.",
            labels=["digest", "chain", "configuration", "cluster"],
        )
        for digests, _ in self:
            held.add_metric(digests, int(digests is self.digests))
        mismatches = CounterMetricFamily(
            "pratique_inputs_mismatches_total",
            "Calls that were refused because the two sides decide by different inputs.",
        )
        mismatches.add_metric([], self.mismatches)
        yield from (held, mismatches)

    def _expire(self, digest: str) -> None:
        self._remove(digest)
        self._notify()

    def _remove(self, digest: str) -> None:
        self._by_digest.pop(digest, None)
        if timer := self._timers.pop(digest, None):
            timer.cancel()

    def _notify(self) -> None:
        for listener in tuple(self._listeners):
            listener()
