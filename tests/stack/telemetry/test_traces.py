"""Traces: what a collector of OpenTelemetry receives about reviews."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.telemetry.tracing import open_tracing
from support.front_doors.reviews import review_document
from support.observed_stacks import observed_process, observed_stack
from support.trace_collectors import collecting_over_grpc, collecting_over_http

CHAIN = ("--admission-control", "NamespaceLifecycle,AlwaysPullImages,DefaultTolerationSeconds")
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
ROOT, MUTATE, VALIDATE = (
    "POST /admit",
    "pratique.admission.v1.MutatorService/Mutate",
    "pratique.admission.v1.ValidatorService/Validate",
)


def test_a_review_is_one_trace_across_all_services() -> None:
    with (
        collecting_over_grpc() as collector,
        observed_stack(
            *CHAIN,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
            OTEL_EXPORTER_OTLP_HEADERS="tenant=shop",
            OTEL_BSP_SCHEDULE_DELAY="50",
        ) as stack,
    ):
        code, _ = stack.post("/admit", review_document(), TRACEPARENT)
        assert code == 200
        assert stack.stop() == 0
        spans = collector.spans
    [root] = collector.named(ROOT)
    [mutate] = collector.named(MUTATE)
    [validate] = collector.named(VALIDATE)
    steps = [span for span in spans if span.name.endswith(("/mutate", "/validate"))]
    assert (root.trace, root.parent) == (TRACE, CALLER)
    assert {span.trace for span in spans} == {TRACE}
    assert {span.parent for span in (mutate, validate, *steps)} == {root.id}
    assert [span.service for span in (root, mutate, validate)] == [
        "pratique-frontdoor",
        "pratique-mutator",
        "pratique-validator",
    ]
    assert {span.name for span in steps} >= {"AlwaysPullImages/mutate", "AlwaysPullImages/validate"}
    assert all(root.begun <= span.begun <= span.ended <= root.ended for span in spans)
    assert root.attributes == {
        "http.request.method": "POST",
        "http.route": "/admit",
        "http.response.status_code": 200,
        "pratique.operation": "CREATE",
        "pratique.resource": "pods",
        "pratique.dry_run": False,
        "pratique.allowed": True,
        "pratique.code": 200,
    }
    assert mutate.attributes["rpc.response.status_code"] == "OK"
    assert all(headers["tenant"] == "shop" for headers in collector.headers)


def test_traces_use_http_by_default_and_the_configured_service_name() -> None:
    with (
        collecting_over_http() as collector,
        observed_process(
            *CHAIN,
            OTEL_TRACES_EXPORTER="otlp",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            OTEL_SERVICE_NAME="admission",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=tests",
        ) as stack,
    ):
        stack.post(
            "/validate", review_document(resource={"group": "", "version": "v1", "resource": "canary"})
        )
        assert stack.stop() == 0
        [root] = collector.wait_for(1, "POST /validate")
    assert root.service == "admission"
    assert root.parent == ""
    assert root.attributes["pratique.resource"] == "other"
    assert b"deployment.environment.name" in collector.raw
    assert b"canary" not in collector.raw


def test_unsampled_reviews_are_not_exported() -> None:
    with (
        collecting_over_http() as collector,
        observed_process(
            *CHAIN,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            OTEL_TRACES_SAMPLER="parentbased_always_off",
        ) as stack,
    ):
        stack.post("/admit", review_document())
        stack.post("/admit", review_document(), TRACEPARENT)  # whose caller has it sampled
        assert stack.stop() == 0
    assert [span.trace for span in collector.named(ROOT)] == [TRACE]


def test_a_failing_collector_affects_no_review_and_is_logged_once() -> None:
    with (
        collecting_over_http(status=400) as collector,
        observed_process(
            *CHAIN, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, OTEL_BSP_SCHEDULE_DELAY="20"
        ) as stack,
    ):
        for _ in range(5):
            assert stack.post("/admit", review_document())[0] == 200
            collector.wait_for(1)
            collector.requests.clear()
        assert stack.stop() == 0
    lost = [entry for entry in stack.entries() if entry["message"] == "traces are lost: they cannot be sent"]
    assert [(entry["level"], entry["service"]) for entry in lost] == [("warning", "frontdoor")]


def test_a_missing_collector_affects_no_review() -> None:
    with observed_process(*CHAIN, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1") as stack:
        assert stack.post("/admit", review_document())[0] == 200
        assert stack.stop() == 0


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": ""},
    ],
)
def test_there_are_no_traces_by_default(environment: dict[str, str]) -> None:
    assert open_tracing("frontdoor", environment) is None


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: must be one of otlp, console, none"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf or grpc, not http/json",
        ),
    ],
)
def test_variables_with_unknown_values_are_refused(environment: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_tracing("frontdoor", environment)


def test_services_without_tracing_do_not_import_opentelemetry() -> None:
    code = (
        "import sys, pratique_frontdoor.serve, pratique_frontdoor.engines.remote\n"
        "import pratique_mutator.service, pratique_validator.service\n"
        "from pratique_frontdoor.http.app import build_app\n"
        "from pratique_frontdoor.engines.engine import open_local\n"
        "from pratique_frontdoor.settings import FrontDoorSettings\n"
        "from pratique.cluster.store import ANY_NAMESPACE\n"
        "from pratique.configuration.settings import ChainSettings\n"
        "from pratique.telemetry.tracing import open_tracing\n"
        "tracing = open_tracing('frontdoor', {})\n"
        "build_app(open_local(ChainSettings(), ANY_NAMESPACE), FrontDoorSettings(), None, tracing)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
