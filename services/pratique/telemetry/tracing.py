"""Tracing with OpenTelemetry, if its standard environment variables ask for it."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from pratique.apimachinery.errors import ConfigurationError

if TYPE_CHECKING:
    from pratique.telemetry.tracers import Tracing

TraceMetadata: TypeAlias = tuple[tuple[str, str], ...]
"""Metadata of outgoing calls, such as ``traceparent``."""

TRACE_METADATA: contextvars.ContextVar[TraceMetadata | None] = contextvars.ContextVar("traced", default=None)
"""The metadata for calls of the current task; None if nothing is traced. Every call reads it, so it has no getter."""


def set_trace_metadata(metadata: TraceMetadata) -> None:
    """Send this metadata with all calls that this task, and tasks it starts from now on, make."""
    TRACE_METADATA.set(metadata)


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_KNOWN_EXPORTERS = ("otlp", "console", "none")
_KNOWN_PROTOCOLS = ("http/protobuf", "grpc")


def open_tracing(service: str, environment: Mapping[str, str] | None = None) -> Tracing | None:
    """Set up tracing for ``service``; None, without importing the SDK, if the environment does not ask for it.

    Raises:
        ConfigurationError: a variable has an unknown value.
    """
    environment = os.environ if environment is None else environment
    exporter = _exporter(environment)
    if exporter == "none":
        return None
    protocol = _first(environment, _PROTOCOLS) or _KNOWN_PROTOCOLS[0]
    if protocol not in _KNOWN_PROTOCOLS:
        raise ConfigurationError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL: must be {' or '.join(_KNOWN_PROTOCOLS)}, not {protocol}"
        )
    from pratique.telemetry.tracers import Tracing  # noqa: PLC0415 - see above

    return Tracing.open(service, exporter, protocol)


def _exporter(environment: Mapping[str, str]) -> str:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "none"
    named = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if named and named not in _KNOWN_EXPORTERS:
        raise ConfigurationError(
            f"OTEL_TRACES_EXPORTER: must be one of {', '.join(_KNOWN_EXPORTERS)}, not {named}"
        )
    return named or ("otlp" if _first(environment, _ENDPOINTS) else "none")


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((found for name in names if (found := environment.get(name, "").strip())), "")
