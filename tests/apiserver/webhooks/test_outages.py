"""While a service is out, the API server sees an outage, and its ``failurePolicy`` decides: docs/kubernetes.md."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

import pytest

from support.clusters import Cluster

ADMITTED, UNMUTATED, REFUSED = (201, True), (201, False), (500, False)
OUTCOMES = {
    # the service that is out, and what becomes of a Pod by the failure policies of the mutating and validating webhooks
    ("frontdoor", "documented"): REFUSED,
    ("frontdoor", "closed"): REFUSED,
    ("frontdoor", "open"): UNMUTATED,
    ("mutator", "documented"): UNMUTATED,
    ("mutator", "closed"): REFUSED,
    ("mutator", "open"): UNMUTATED,
    ("validator", "documented"): REFUSED,
    ("validator", "closed"): REFUSED,
    ("validator", "open"): ADMITTED,
}
CALLED = {"frontdoor": "mutate", "mutator": "mutate", "validator": "validate"}
SERVICES = ("frontdoor", "mutator", "validator")


def create(cluster: Cluster, namespace: str, pull: str = "Always") -> tuple[int, bool, str]:
    """What becomes of a Pod: the code, whether it was given a toleration, and the message of a refusal."""
    resources = {"limits": {"example.com/gpu": "1"}}
    container = {"name": "app", "image": "app:1", "imagePullPolicy": pull, "resources": resources}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [container]},
    }
    reply = cluster.api.ask("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    if reply.code != 201:
        return reply.code, False, reply.body["message"]
    tolerated = {toleration["key"] for toleration in reply.body["spec"]["tolerations"]}
    return reply.code, "example.com/gpu" in tolerated, ""


@contextlib.contextmanager
def down(cluster: Cluster, service: str) -> Iterator[None]:
    """Kill all replicas of a service, and start them again afterwards."""
    for replica in cluster.stack.replicas[service]:
        replica.kill()
    try:
        yield
    finally:
        for replica in cluster.stack.replicas[service]:
            replica.start()
        cluster.stack.wait_until_ready()


@contextlib.contextmanager
def hung(cluster: Cluster, service: str) -> Iterator[None]:
    """Stop all replicas of a service, so that they take calls and do not answer."""
    for replica in cluster.stack.replicas[service]:
        replica.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for replica in cluster.stack.replicas[service]:
            replica.signal(signal.SIGCONT)
        cluster.stack.wait_until_ready()


def failed_calls(cluster: Cluster, metric: str, webhook: str) -> float:
    """How often the API server has counted a failed call of a webhook of the manifests."""
    metric = f"apiserver_admission_webhook_{metric}"
    return cluster.api.counted(metric, name=f"{webhook}.pratique.pratique.svc")


@pytest.mark.parametrize("fault", [down, hung])
@pytest.mark.parametrize("service", SERVICES)
def test_the_failure_policy_of_the_api_server_decides(
    cluster: Cluster, service: str, fault: Callable[[Cluster, str], contextlib.AbstractContextManager[None]]
) -> None:
    before = failed_calls(cluster, "fail_open_count", CALLED[service])
    with fault(cluster, service):
        seen = {
            (service, namespace): create(cluster, namespace) for namespace in ("documented", "closed", "open")
        }
    assert {key: outcome[:2] for key, outcome in seen.items()} == {
        key: outcome for key, outcome in OUTCOMES.items() if key[0] == service
    }
    refusals = [message for code, _, message in seen.values() if code == 500]
    assert all("failed calling webhook" in message for message in refusals)
    assert failed_calls(cluster, "fail_open_count", CALLED[service]) > before
    assert create(cluster, "documented")[:2] == ADMITTED


def test_the_api_server_counts_refusals_as_failed_calls(cluster: Cluster) -> None:
    before = failed_calls(cluster, "rejection_count", "validate")
    with down(cluster, "validator"):
        assert create(cluster, "documented")[0] == 500
    assert failed_calls(cluster, "rejection_count", "validate") == before + 1


def test_what_the_mutator_did_not_set_is_denied_by_validation(cluster: Cluster) -> None:
    with down(cluster, "mutator"):
        code, _, message = create(cluster, "documented", "IfNotPresent")
    assert code == 500  # as AlwaysPullImages itself refuses, with more than one error at once
    assert message.startswith('admission webhook "validate.pratique.pratique.svc" denied the request: ')
    assert "spec.containers[0].imagePullPolicy" in message
