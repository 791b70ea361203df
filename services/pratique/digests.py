"""Digests: by what a process decides, beside the review, so that those who have to agree can tell that they do.

Equal inputs have equal digests, wherever the files are, in whatever order and form they are written. Settings that only
say where something is (:attr:`pratique.definitions.Controller.places`) are left out: services may lawfully differ in
those.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pratique.clusters import ObjectStore
    from pratique.configurations.all_configurations import Configurations
    from pratique.configurations.policies import Configured
    from pratique.definitions import Controller
    from pratique.json_values import JSON

_CHARACTERS = 32
"""Of the SHA-256, in hexadecimal: 128 bits, which nobody who writes the inputs could make collide by chance, and which
cost each call 32 bytes."""


class Digests(NamedTuple):
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
    def of(cls, chain: str, configuration: str, cluster: str) -> Digests:
        """Make the digest of everything from those of its parts."""
        whole = _digest((chain.encode(), configuration.encode(), cluster.encode()))
        return cls(whole, chain, configuration, cluster)

    def differences(self, other: Digests) -> tuple[str, ...]:
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
        _encoded([one.name, _without(configurations.get(one.name), one.places) or {}]) for one in controllers
    )


def configuration_digest(configurations: Configurations) -> str:
    """Of what ``--config`` holds, as it is after defaulting. Metadata other than names decide nothing."""
    webhooks = (
        (one.kind.value, one.name, one.webhooks)
        for one in (*configurations.mutating, *configurations.validating)
    )
    every: tuple[Configured[Any], ...] = (
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


def _without(value: Any, places: Collection[str]) -> Any:
    """The settings of a controller but for those that say where something is, at whatever depth."""
    if not places:
        return value
    if isinstance(value, dict):
        return {key: _without(each, places) for key, each in value.items() if key not in places}
    return [_without(each, places) for each in value] if isinstance(value, list) else value


def _short(digest: str) -> str:
    return digest[:12] or "none"
