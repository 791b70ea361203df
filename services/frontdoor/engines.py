"""The engine: one chain, asked for decisions. HTTP, ``pratique review`` and tests use the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.decisions import Decision
    from frontdoor.local_engines import LocalEngine, LocalSources
    from frontdoor.settings import FrontDoorSettings
    from pratique.calls import Deadline
    from pratique.clusters import Cluster
    from pratique.definitions import Phase
    from pratique.reviews import Review
    from pratique.settings import ChainSettings


class Engine(Protocol):
    """Decides reviews by one chain."""

    @property
    def cluster(self) -> Cluster:
        """What the chain looks up; reviews are made with it."""

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the mutating phase, the validating phase, or both in their order.

        ``explain`` adds a step for everything that did not match, with the reason. Failures of controllers and
        webhooks are part of the decision; this raises only where Pratique itself is at fault, or the deadline
        passes (``TimeoutError``).
        """

    async def unready(self) -> Sequence[str]:
        """Why reviews cannot be decided now, a reason each; empty where they can."""

    async def close(self) -> None:
        """Let go of connections and controllers. No reviews may follow."""


def open_local(settings: ChainSettings, store: Cluster, read: LocalSources | None = None) -> LocalEngine:
    """Make the whole chain in this process, looking things up in ``store``.

    ``read`` is what the settings name, where it has been read already, for another engine.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    from frontdoor import local_engines  # noqa: PLC0415  # the two kinds share no imports worth their time

    return local_engines.LocalEngine(settings, store, read)


async def open_remote(settings: FrontDoorSettings) -> Engine:
    """Make the chain of a front door, whose controllers run in the mutator and the validators.

    It is a coroutine because it needs a running event loop.

    Raises:
        ConfigurationError: the configuration cannot be used.
    """
    from frontdoor.remote_engines import RemoteEngine  # noqa: PLC0415  # imports gRPC

    return RemoteEngine(settings)
