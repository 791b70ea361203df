"""Service metrics: everything that ``GET /metrics`` shows of a mutator or a validator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from pratique.measures.certificates import CertificateMetrics
from pratique.measures.controllers import ControllerMetrics
from pratique.measures.merging import Merged
from pratique.measures.reloads import ReloadMetrics
from pratique.rpc.call_metrics import CallMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client.registry import Collector

    from pratique.definitions import Phase
    from pratique.hosting import Hosting
    from pratique.outcomes import Outcome
    from pratique.rpc.servers import RpcServer
    from pratique.rpc.settings import ServerSettings
    from pratique.running import Runner

_log = logging.getLogger(__name__)


class ServiceMetrics:
    """What one service counts. There is one only where somebody may ask for it."""

    def __init__(self, phase: Phase, hosted: Hosting[Any], runners: Mapping[str, Runner]) -> None:
        """Start at zero."""
        self.calls = CallMetrics()
        """Stands round the methods."""
        self._controllers = ControllerMetrics(phase, runners)
        self.collectors: tuple[Collector, ...] = (
            self.calls,
            self._controllers,
            Merged([each for one in hosted.controllers for each in one.halves.collectors]),
            ReloadMetrics(hosted.reloads),
            hosted.held,
        )
        """All of it, but what there is only once a server runs."""

    @classmethod
    def of(
        cls, settings: ServerSettings, phase: Phase, hosted: Hosting[Any], runners: Mapping[str, Runner]
    ) -> ServiceMetrics | None:
        """What a service counts; None where it is told to show nothing."""
        return None if settings.metrics_port is None else cls(phase, hosted, runners)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count what came of one call, in the next turn of the loop, when the answer is on its way."""
        asyncio.get_running_loop().call_soon(self._controllers.observe, outcomes)

    @contextlib.contextmanager
    def served(self, settings: ServerSettings, server: RpcServer) -> Iterator[None]:
        """Show them until this ends.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        # Here, because HTTP is for those that are asked over it.
        from pratique.measures.registries import open_registry  # noqa: PLC0415
        from pratique.measures.servers import MetricsServer  # noqa: PLC0415

        registry = open_registry()
        kept = () if server.tls is None else server.tls.kept
        for one in (*self.collectors, CertificateMetrics(kept)):
            registry.register(one)
        serving = MetricsServer(registry, settings.metrics_host, settings.metrics_port or 0)
        _log.info("metrics are served", extra={"address": serving.address})
        try:
            yield
        finally:
            serving.close()
