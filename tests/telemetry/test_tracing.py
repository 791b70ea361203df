"""Whether tracing is set up is decided by OpenTelemetry's environment variables."""

from __future__ import annotations

import asyncio

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.telemetry.tracing import TRACE_METADATA, open_tracing, set_trace_metadata

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {"OTEL_TRACES_EXPORTER": "none"},
        ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"},
        ENDPOINT | {"OTEL_SDK_DISABLED": "True"},
    ],
)
def test_tracing_is_off_unless_the_environment_asks_for_it(environment: dict[str, str]) -> None:
    assert open_tracing("mutator", environment) is None


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER: must be one of otlp, console, none, not zipkin",
        ),
        (
            ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf or grpc, not http/json",
        ),
        (
            ENDPOINT
            | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "thrift"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf or grpc, not thrift",
        ),
    ],
)
def test_an_unknown_value_is_a_configuration_error(environment: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        open_tracing("mutator", environment)
    assert str(raised.value) == problem


def test_trace_metadata_reaches_tasks_started_later() -> None:
    async def child() -> object:
        return TRACE_METADATA.get()

    async def run() -> tuple[object, object]:
        before = await asyncio.ensure_future(child())
        set_trace_metadata((("traceparent", "00-a"),))
        return before, await asyncio.ensure_future(child())

    assert asyncio.run(run()) == (None, (("traceparent", "00-a"),))
