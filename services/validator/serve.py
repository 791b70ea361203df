"""Serve: the validator as a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.definitions import Phase
from pratique.hosting import hosting
from pratique.rpc.lifetimes import be_process, live
from pratique.rpc.service_metrics import ServiceMetrics
from validator.hosts import ValidatorHost
from validator.servicer import services

if TYPE_CHECKING:
    from validator.settings import ValidatorSettings


async def serve(settings: ValidatorSettings) -> None:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and close the controllers.

    Raises:
        ConfigurationError: a file or flag cannot be used, or the address cannot be listened on.
    """
    async with hosting(settings.chain, Phase.VALIDATE, ValidatorHost, settings.isolation) as hosted:
        metrics = ServiceMetrics.of(settings, Phase.VALIDATE, hosted, hosted.held.current.runners)
        await live("validator", services(hosted.held, metrics), settings, metrics)


def run(settings: ValidatorSettings) -> None:
    """Be the validator's process: log, and serve.

    Raises:
        ConfigurationError: as ``serve``.
    """
    be_process("validator", serve(settings))
