"""Metrics of third-party controllers in worker processes: the worker sends their text, and the service shows it.

The service believes nothing of it but numbers: it limits the length, and drops names that are its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pratique.telemetry.logs import describe_error
from pratique.telemetry.metrics import MergedCollectors

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024
"""The longest text of one controller: about 2,000 series, where its label values come from a configuration."""
_SEND_SECONDS = 1.0
"""How old metrics are at most. 1: a fifteenth of the usual interval at which Prometheus asks."""
_OWN_PREFIXES = ("pratique_", "apiserver_", "grpc_server_", "process_")
"""The names of a service's own metrics, which a controller must not show as its own."""

_MAX_REFUSED = 100
"""How many names the log is told of."""


def _text(collectors: Sequence[Collector]) -> bytes:
    """Return the metrics in Prometheus' text format."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - most controllers have no metrics
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(MergedCollectors(collectors))
    return generate_latest(registry)


async def send_metrics(
    collectors: Sequence[Collector], send: Callable[[bytes], None], seconds: float = _SEND_SECONDS
) -> None:
    """Send the metrics whenever they have changed, until cancelled; end where they cannot be collected.

    Args:
        collectors: The controller's metrics.
        send: Sends their text.
        seconds: The time between two looks.
    """
    sent = b""
    while True:
        try:
            text = _text(collectors)
        except Exception as error:  # noqa: BLE001 - it is somebody else's code
            _log.warning(
                "the metrics of a controller cannot be shown", extra={"error": describe_error(error)}
            )
            return
        if len(text) > MAX_BYTES:
            reason = f"they have more than {MAX_BYTES} bytes: too many label values"
            _log.warning("the metrics of a controller cannot be shown", extra={"reason": reason})
            return
        if text != sent:
            send(text)
            sent = text
        await asyncio.sleep(seconds)


class WorkerMetrics:
    """The metrics that a controller's worker sent last."""

    def __init__(self, controller: str) -> None:
        """Start without any; ``controller`` is the name for the log."""
        self._controller = controller
        self._received = b""
        self._refused: set[str] = set()

    def receive(self, text: bytes) -> None:
        """Take what the worker sent."""
        if len(text) <= MAX_BYTES:
            self._received = text

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, for a registry; none if the text is not Prometheus' format."""
        from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - as asked

        try:
            families = list(text_string_to_metric_families(self._received.decode()))
        except ValueError:
            self._refuse("", "they are not in Prometheus' text format")
            return
        for family in families:
            if family.name.startswith(_OWN_PREFIXES):
                self._refuse(family.name, f"{family.name} begins like a metric of Pratique")
            else:
                yield family

    def _refuse(self, name: str, reason: str) -> None:
        if name not in self._refused and len(self._refused) < _MAX_REFUSED:
            self._refused.add(name)
            extra = {"controller": self._controller, "reason": reason}
            _log.warning("the metrics of a controller cannot be shown", extra=extra)
