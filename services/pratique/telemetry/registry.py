"""The registry: what every process shows of itself, and the text that Prometheus reads."""

from __future__ import annotations

import platform
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The content type of :func:`render_metrics`."""


def create_registry() -> CollectorRegistry:
    """Make a registry of its own: what other libraries register for themselves is not in it."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    labels = {"version": version("pratique"), "python_version": platform.python_version()}
    gauge = Gauge(
        "pratique_build_info", "Always 1; its labels say what runs.", list(labels), registry=registry
    )
    gauge.labels(**labels).set(1)
    return registry


def render_metrics(registry: CollectorRegistry) -> bytes:
    """Everything in Prometheus' text format."""
    return generate_latest(registry)
