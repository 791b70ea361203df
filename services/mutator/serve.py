"""Serve: the mutator as a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mutator.hosts import MutatorHost
from mutator.servicer import services
from pratique.definitions import Phase
from pratique.hosting import hosting
from pratique.rpc.lifetimes import be_process, live
from pratique.rpc.service_metrics import ServiceMetrics

if TYPE_CHECKING:
    from mutator.settings import MutatorSettings


async def serve(settings: MutatorSettings) -> None:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and close the controllers.

    Raises:
        ConfigurationError: a file or flag cannot be used, or the address cannot be listened on.
    """
    async with hosting(settings.chain, Phase.MUTATE, MutatorHost, settings.isolation) as hosted:
        metrics = ServiceMetrics.of(settings, Phase.MUTATE, hosted, hosted.held.current.runners)
        await live("mutator", services(hosted.held, metrics), settings, metrics)


def run(settings: MutatorSettings) -> None:
    """Be the mutator's process: log, and serve.

    Raises:
        ConfigurationError: as ``serve``.
    """
    be_process("mutator", serve(settings))
