"""Metrics: what every service exposes, under which names, and how many series there can be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import string
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import ConfigurationError
from pratique.cluster.store import ANY_NAMESPACE, ReloadableCluster
from pratique.configuration.input_digests import RecentInputs
from pratique.configuration.settings import ChainSettings
from pratique.controllers import validating_admission_policy
from pratique.hosting.catalogue import HostedController, configure_controller
from pratique.hosting.running import MutatorHost
from pratique.hosting.services import HostedChain
from pratique.rpc.metrics import ServiceMetrics
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique.telemetry.metrics_server import MAX_CLIENTS, MetricsServer
from pratique.telemetry.registry import create_registry, render_metrics
from pratique_frontdoor.engines.engine import open_local
from pratique_frontdoor.http.codecs import decode_review
from pratique_frontdoor.http.metrics import Metrics
from pratique_mutator import service
from support.front_doors.reviews import review_document
from support.services import controllers
from support.services.reviews import review_of
from support.services.servers import DIGESTS, MUTATOR
from support.validating_policies import binding, deployment_review, loaded, policy
from support.waiting import until

MOST_SERIES = 200
RANDOM_REVIEWS = 10_000
ADMISSION = "apiserver_admission_"
NAMED_WITHOUT_TOTAL = {f"{ADMISSION}webhook_rejection_count", f"{ADMISSION}webhook_fail_open_count"}
"""Counters that the API server names so."""

# Name, labels, buckets: k8s.io/apiserver v0.36, pkg/admission/metrics and plugin/policy/{validating,mutating}/metrics.
_STEP = "0.005 0.025 0.1 0.5 1.0 2.5"
_CHECK = "5e-07 0.001 0.01 0.1 1.0"
API_SERVERS = {
    f"{ADMISSION}step_admission_duration_seconds": ("type operation rejected", _STEP),
    f"{ADMISSION}controller_admission_duration_seconds": ("name type operation rejected", _STEP),
    f"{ADMISSION}webhook_admission_duration_seconds": ("name type operation rejected", f"{_STEP} 10.0 25.0"),
    f"{ADMISSION}webhook_rejection_count": ("name type operation error_type rejection_code", ""),
    f"{ADMISSION}webhook_fail_open_count": ("name type", ""),
    f"{ADMISSION}webhook_request_total": ("name type operation code rejected", ""),
    f"{ADMISSION}match_condition_evaluation_errors_total": ("name kind type operation", ""),
    f"{ADMISSION}match_condition_exclusions_total": ("name kind type operation", ""),
    f"{ADMISSION}match_condition_evaluation_seconds": (
        "name kind type operation",
        "0.001 0.005 0.01 0.025 0.1 0.2 0.25",
    ),
    "apiserver_validating_admission_policy_check_total": (
        "policy policy_binding error_type enforcement_action",
        "",
    ),
    "apiserver_validating_admission_policy_check_duration_seconds": (
        "policy policy_binding error_type enforcement_action",
        _CHECK,
    ),
    "apiserver_mutating_admission_policy_check_total": ("policy policy_binding error_type", ""),
    "apiserver_mutating_admission_policy_check_duration_seconds": (
        "policy policy_binding error_type",
        _CHECK,
    ),
}


def families(text: str) -> dict[str, Metric]:
    """Metrics by name, as they are written."""
    found = {}
    for family in text_string_to_metric_families(text):
        suffix = "_total" if family.type == "counter" else ""
        found[f"{family.name}{suffix}"] = family
    return found


def labels_of(family: Metric) -> set[str]:
    return {name for sample in family.samples for name in sample.labels} - {"le"}


def buckets_of(family: Metric) -> set[str]:
    return {sample.labels["le"] for sample in family.samples if "le" in sample.labels} - {"+Inf"}


def series(text: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Every combination of labels of every metric: a histogram's buckets count once."""
    return {
        (name, tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le")))
        for name, family in families(text).items()
        for sample in family.samples
    }


@pytest.mark.parametrize("name", API_SERVERS)
def test_metrics_of_the_api_server_have_its_names_labels_and_buckets(
    shown: dict[str, str], name: str
) -> None:
    labels, buckets = API_SERVERS[name]
    holding = [found[name] for text in shown.values() if name in (found := families(text))]
    counted = [family for family in holding if family.samples]
    assert counted, name
    for family in counted:
        assert labels_of(family) == set(labels.split())
        assert buckets_of(family) == set(buckets.split())


def test_no_other_metric_has_the_prefix_of_the_api_server(shown: dict[str, str]) -> None:
    found = {name for text in shown.values() for name in families(text) if name.startswith("apiserver_")}
    assert found == set(API_SERVERS)


@pytest.mark.parametrize("service", ["frontdoor", "mutator", "validator-1"])
def test_metric_names_follow_promtool(shown: dict[str, str], service: str) -> None:
    for name, family in families(shown[service]).items():
        assert family.documentation, name
        if name in NAMED_WITHOUT_TOTAL:
            continue
        assert name == name.lower()
        assert name.endswith("_total") == (family.type == "counter"), name
        assert not name.endswith(("_count", "_sum", "_bucket", "_info_total")), name
        assert not any(unit in name for unit in ("_ms", "milliseconds", "_kb", "minutes")), name
        if family.type == "histogram":
            assert name.endswith("_seconds"), name


def test_every_service_has_build_and_process_metrics(shown: dict[str, str]) -> None:
    for text in shown.values():
        assert {"pratique_build_info", "process_resident_memory_bytes"} <= families(text).keys()
    mutator, validator = families(shown["mutator"]), families(shown["validator-1"])
    for found, method in ((mutator, "Mutate"), (validator, "Validate")):
        handled = {
            (sample.labels["grpc_method"], sample.labels["grpc_code"])
            for sample in found["grpc_server_handled_total"].samples
        }
        assert {(method, "OK"), ("Describe", "OK")} <= handled
        assert found["pratique_service_calls_in_flight"].samples[0].value == 0
        assert found["pratique_reloads_total"].samples
    door = families(shown["frontdoor"])
    hops = {
        (sample.labels["service"], sample.labels["code"])
        for sample in door["pratique_frontdoor_hops_total"].samples
    }
    assert hops == {("mutator", "OK"), ("validator", "OK")}
    assert [sample.value for sample in door["pratique_frontdoor_service_addresses"].samples] == [1, 1]


# How many series there can be.


def random_review(dice: random.Random) -> bytes:
    def text() -> str:
        return "".join(dice.choices(string.ascii_lowercase, k=12))

    return json.dumps(
        review_document(
            name=text(),
            namespace=text(),
            uid=text(),
            operation=dice.choice(["CREATE", "DELETE"]),
            userInfo={"username": text(), "groups": [text()]},
            resource={"group": text(), "version": "v1", "resource": text()},
            kind={"group": text(), "version": "v1", "kind": text()},
            subResource=text(),
            object={"metadata": {"name": text(), "labels": {text(): text()}}},
        )
    ).encode()


def test_ten_thousand_namespaces_users_and_names_add_no_series() -> None:
    dice, metrics = random.Random(36), Metrics()
    counted = []

    async def decide() -> None:
        engine = open_local(ChainSettings(), ANY_NAMESPACE)
        for number in range(RANDOM_REVIEWS):
            review = decode_review(random_review(dice), ANY_NAMESPACE).review
            decision = await engine.decide(review, BOTH, Deadline.after(30))
            metrics.observe_decision(review.operation, decision)
            if number % (RANDOM_REVIEWS // 2) == 100:
                counted.append(series(metrics.text().decode()))
        await engine.close()

    asyncio.run(decide())
    after = series(metrics.text().decode())
    assert counted[0] == after
    assert len(after) <= MOST_SERIES, len(after)


@contextlib.asynccontextmanager
async def counted_service(
    *hosted: HostedController, **settings: Any
) -> AsyncIterator[tuple[grpc.aio.Channel, ServiceMetrics]]:
    """A mutator that counts."""
    host = MutatorHost(hosted, ANY_NAMESPACE)
    held = RecentInputs(DIGESTS, host)
    chain = HostedChain(hosted, ReloadableCluster(ANY_NAMESPACE), held)
    metrics = service.MUTATOR.metrics_of(ServerSettings(metrics_port=0), chain)
    assert metrics is not None
    server = RpcServer(
        service.MUTATOR.services(held, metrics), ServerSettings(drain_seconds=0, **settings), [metrics.calls]
    )
    address = await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            yield channel, metrics
    finally:
        await server.stop()


def collected(metrics: ServiceMetrics) -> str:
    registry = create_registry()
    for collector in metrics.collectors:
        registry.register(collector)
    return render_metrics(registry).decode()


def test_unknown_controller_names_add_no_series() -> None:
    async def run() -> set[Any]:
        async with counted_service(controllers.hosted("c", controllers.allowing)) as (channel, metrics):
            for number in range(300):
                await MUTATOR.ask(channel, review_of(), [Call(f"c-{number}")])
            return series(collected(metrics))

    found = asyncio.run(run())
    durations = [labels for name, labels in found if name == "pratique_controller_duration_seconds"]
    assert durations == [(("name", "unknown"), ("outcome", "failed"), ("phase", "mutate"))]
    assert len(found) <= MOST_SERIES


async def _in_flight(metrics: ServiceMetrics, count: int) -> bool:
    return metrics.calls.in_flight == count


def test_calls_are_counted_by_status_code() -> None:
    async def run() -> str:
        async with counted_service(
            controllers.hosted("c", controllers.allowing),
            controllers.hosted("Hanging", controllers.hanging),
            max_concurrent_calls=1,
        ) as (channel, metrics):
            await MUTATOR.ask(channel, review_of(), [Call("c")])
            for request, seconds in ((b"\xff", 10), (MUTATOR.request(review_of(), [Call("c")]), None)):
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await MUTATOR.send(channel, request, seconds)
            await until(120, lambda: _in_flight(metrics, 0))
            hanging = asyncio.ensure_future(MUTATOR.ask(channel, review_of(), [Call("Hanging")], 30))
            await until(120, lambda: _in_flight(metrics, 1))
            with contextlib.suppress(grpc.aio.AioRpcError):
                await MUTATOR.ask(channel, review_of(), [Call("c")])
            hanging.cancel()
            await asyncio.wait([hanging])
            await until(120, lambda: _in_flight(metrics, 0))
            return collected(metrics)

    found = families(asyncio.run(run()))
    codes = {
        sample.labels["grpc_code"]: sample.value for sample in found["grpc_server_handled_total"].samples
    }
    assert codes == {"OK": 1, "InvalidArgument": 2, "ResourceExhausted": 1, "Canceled": 1}
    assert found["pratique_service_shed_calls_total"].samples[0].value == 1
    assert found["grpc_server_started_total"].samples[0].value == 5


def test_policies_are_counted_by_the_actions_of_their_bindings() -> None:
    hosted = configure_controller(validating_admission_policy.CONTROLLER, None)
    documents = [
        policy("true", "false", "object.nowhere.at.all == 1", name="p", failurePolicy="Fail"),
        binding("p", name="b", actions=("Warn", "Audit")),
        policy("object.nowhere.at.all == 1", name="open", failurePolicy="Ignore"),
        binding("open", name="b2"),
    ]
    hosted.handlers.use_configurations(loaded(*documents))
    assert hosted.handlers.validate is not None
    hosted.handlers.validate(deployment_review())
    registry = create_registry()
    registry.register(hosted.handlers.collectors[0])
    found = families(render_metrics(registry).decode())["apiserver_validating_admission_policy_check_total"]
    counts = {
        tuple(
            sample.labels[key] for key in ("policy", "policy_binding", "enforcement_action", "error_type")
        ): sample.value
        for sample in found.samples
    }
    assert counts == {
        ("p", "b", "warn", "invalid_error"): 2,
        ("p", "b", "audit", "invalid_error"): 2,
        ("open", "b2", "allow", "invalid_error"): 1,
    }


# The server.


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    serving = MetricsServer(create_registry(), "127.0.0.1", 0)
    yield serving
    serving.close()


def test_only_one_path_serves_metrics(server: MetricsServer) -> None:
    with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=120) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        urllib.request.urlopen(f"http://{server.address}/canary", timeout=120)
    assert "canary" not in refused.value.read().decode()
    refused.value.close()


def test_silent_connections_to_the_metrics_server_are_limited_and_delay_no_other(
    server: MetricsServer,
) -> None:
    host, _, port = server.address.rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_CLIENTS - 1):
            stack.enter_context(socket.create_connection((host, int(port))))
        with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=120) as answer:
            assert answer.status == 200
        more = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=120)) for _ in range(3)
        ]
        turned_away = [item.recv(1) for item in more[1:]]
    assert turned_away == [b"", b""]


def test_an_address_in_use_is_reported_with_its_flags(server: MetricsServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(ConfigurationError, match=f"--metrics-port {port}: cannot listen there"):
        MetricsServer(create_registry(), "127.0.0.1", port)


def test_services_serve_no_metrics_by_default() -> None:
    assert ServerSettings().metrics_port is None
    host = MutatorHost((), ANY_NAMESPACE)
    chain = HostedChain((), ReloadableCluster(ANY_NAMESPACE), RecentInputs(DIGESTS, host))
    assert service.MUTATOR.metrics_of(ServerSettings(), chain) is None
