"""Webhooks that block the start of webhook servers, found by running the starts through the whole chain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ANY_NAMESPACE, Cluster, ObjectStore
from support.lint_findings import (
    GROUP,
    findings_of,
    mutating,
    outside,
    rule,
    service,
    validating,
    webhook,
    write,
)

PODS = rule("pods")
OWN = {"clientConfig": service("hooks"), "namespaceSelector": {}}


def found(path: Path, cluster: Cluster = ANY_NAMESPACE, name: str = "deadlock") -> list[str]:
    return [finding.violation.text for finding in findings_of(path, cluster, {name})]


def behind(*selected: JSONObject, kind: str = "Deployment", **spec: Any) -> ObjectStore:
    """A cluster with the Service hooks/hook, and workloads with the labels given to their Pods."""
    return ObjectStore(
        [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "hook", "namespace": "hooks"},
                "spec": {"selector": {"app": "hook"}, **spec},
            },
            *(_workload(kind, f"server-{number}", labels) for number, labels in enumerate(selected)),
        ]
    )


def _workload(kind: str, name: str, labels: JSONObject, **pod: Any) -> JSONObject:
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}], **pod}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "hooks"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


@pytest.mark.parametrize(
    ("wanted", "reported"),
    [
        (PODS, "CREATE of pods in namespace hooks"),
        (rule("replicasets", "apps"), "CREATE of replicasets.apps in namespace hooks"),
        (rule("deployments", "apps"), "CREATE of deployments.apps in namespace hooks"),
        (rule("pods/binding"), "CREATE of pods/binding in namespace hooks"),
        (rule("pods/status", operation="UPDATE"), "UPDATE of pods/status in namespace hooks"),
        (rule("serviceaccounts"), "CREATE of serviceaccounts in namespace hooks"),
        (rule("serviceaccounts/token"), "CREATE of serviceaccounts/token in namespace hooks"),
        (rule("secrets"), "CREATE of secrets in namespace hooks"),
        (rule("endpoints"), "CREATE of endpoints in namespace hooks"),
        (rule("endpointslices", "discovery.k8s.io"), "CREATE of endpointslices.discovery.k8s.io in namespace hooks"),
        (rule("nodes/status", operation="UPDATE"), "UPDATE of nodes/status"),
        (
            rule("leases", "coordination.k8s.io", "UPDATE"),
            "UPDATE of leases.coordination.k8s.io in namespace kube-node-lease",
        ),
    ],
)  # fmt: skip
def test_refusing_any_request_that_a_server_needs_is_a_deadlock(
    wanted: JSONObject, reported: str, tmp_path: Path
) -> None:
    (text,) = found(write(tmp_path, [validating(webhook(wanted, **OWN))]))
    assert text.startswith("denies, while Service hooks/hook is down, requests that it needs to start: ")
    assert reported in text


@pytest.mark.parametrize("document", [mutating, validating])
def test_each_refusing_webhook_is_reported(document: Any, tmp_path: Path) -> None:
    first, second = webhook(PODS, **OWN), webhook(PODS, name="b.example.com", **OWN)
    findings = findings_of(write(tmp_path, [document(first, second)]), rules={"deadlock"})
    assert [finding.violation.path[:2] for finding in findings] == [("webhooks", 0), ("webhooks", 1)]


@pytest.mark.parametrize(
    "fields",
    [
        {"failurePolicy": "Ignore"},
        {"namespaceSelector": outside("hooks")},
        {"namespaceSelector": {"matchLabels": {"hooked": "yes"}}},
        {"objectSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}},
        {"matchConditions": [{"name": "others", "expression": "request.namespace != 'hooks'"}]},
        {
            "matchConditions": [
                {"name": "people", "expression": "!request.userInfo.username.startsWith('system:')"}
            ]
        },
        {"clientConfig": service("elsewhere"), "namespaceSelector": outside("elsewhere")},
        {"clientConfig": {"url": "https://hooks.example.com"}},
    ],
)
def test_a_webhook_that_does_not_block_itself_is_no_deadlock(fields: JSONObject, tmp_path: Path) -> None:
    path = write(tmp_path, [validating(webhook(PODS, **{**OWN, **fields}))])
    assert found(path, behind()) == []


def test_a_service_can_be_called_by_url(tmp_path: Path) -> None:
    for url in (
        "https://hook.hooks.svc/x",
        "https://hook.hooks.svc.cluster.local:8443",
        "grpc://hook.hooks.svc:9",
    ):
        hook = webhook(PODS, clientConfig={"url": url}, namespaceSelector={})
        assert len(found(write(tmp_path, [validating(hook)]))) == 1


def test_the_workload_behind_the_service_has_to_start(tmp_path: Path) -> None:
    dodging = {"matchExpressions": [{"key": "part", "operator": "NotIn", "values": ["webhook"]}]}
    path = write(tmp_path, [validating(webhook(PODS, **OWN, objectSelector=dodging))])
    assert found(path, behind({"app": "hook", "part": "webhook"}, {"app": "other"})) == []
    (text,) = found(path, behind({"app": "hook", "part": "webhook"}, {"app": "hook"}))
    assert text.endswith('CREATE of pods in namespace hooks for Deployment "server-1"')


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_other_workloads_are_started_by_their_own_controllers(kind: str, tmp_path: Path) -> None:
    by_deployments = {
        "name": "c",
        "expression": "request.userInfo.username.endsWith(':replicaset-controller')",
    }
    text = found(write(tmp_path, [validating(webhook(PODS, **OWN))]), behind({"app": "hook"}, kind=kind))
    assert text[0].endswith(f'CREATE of pods in namespace hooks for {kind} "server-0"')
    path = write(tmp_path, [validating(webhook(PODS, **OWN, matchConditions=[by_deployments]))])
    assert found(path, behind({"app": "hook"}, kind=kind)) == []


def test_an_external_service_needs_nothing_from_the_cluster(tmp_path: Path) -> None:
    path = write(tmp_path, [validating(webhook(PODS, **OWN))])
    assert found(path, behind(type="ExternalName", externalName="hooks.example.com")) == []


def test_a_server_needs_the_secrets_that_it_mounts(tmp_path: Path) -> None:
    volume = {"name": "tls", "secret": {"secretName": "pair"}}
    labelled = {"matchLabels": {"watched": "yes"}}
    path = write(tmp_path, [validating(webhook(rule("secrets"), **OWN, objectSelector=labelled))])
    for labels, count in (({"watched": "yes"}, 1), ({}, 0)):
        cluster = behind()
        cluster.put(_workload("Deployment", "server", {"app": "hook"}, volumes=[volume]))
        metadata = {"name": "pair", "namespace": "hooks", "labels": labels}
        cluster.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        assert len(found(path, cluster)) == count


def test_a_policy_that_labels_pods_can_cause_a_deadlock(tmp_path: Path) -> None:
    patch = 'Object{metadata: Object.metadata{labels: {"watched": "yes"}}}'
    policy = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "label"},
        "spec": {
            "matchConstraints": {"resourceRules": [PODS]},
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": patch}}],
        },
    }
    bound = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "label"},
        "spec": {"policyName": "label"},
    }
    hook = validating(webhook(PODS, **OWN, objectSelector={"matchLabels": {"watched": "yes"}}))
    assert len(found(write(tmp_path, [hook, policy, bound]), behind({"app": "hook"}))) == 1
    assert found(write(tmp_path, [hook, policy]), behind({"app": "hook"})) == []


def test_a_webhook_that_fails_open_delays_its_own_start(tmp_path: Path) -> None:
    path = write(tmp_path, [validating(webhook(PODS, **OWN, failurePolicy="Ignore"))])
    (text,) = found(path, name="intercepts-own-namespace")
    assert "once Service hooks/hook is down, requests that it needs to start wait for its timeout" in text


def guard(name: str, guarded: Sequence[str]) -> JSONObject:
    """A webhook that runs in the namespace of its name, and checks the Pods of some others."""
    named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(guarded)}
    return webhook(
        PODS,
        name=f"{name}.example.com",
        clientConfig=service(name),
        namespaceSelector={"matchExpressions": [named]},
    )


def test_a_cycle_of_any_length_is_one_finding_with_its_path(tmp_path: Path) -> None:
    ring = [guard("a", ["d"]), guard("b", ["a"]), guard("c", ["b"]), guard("d", ["c"])]
    documents = [validating(ring[0], ring[1], name="one"), mutating(ring[2], ring[3], name="two")]
    (text,) = found(write(tmp_path, documents), name="circular-dependency")
    assert text.startswith("once all are down, none of 4 servers can start: ")
    waits = [part.partition(" (")[0] for part in text.partition("start: ")[2].split("; ")]
    assert waits == [
        "Service c/hook waits for Service d/hook",
        "Service d/hook waits for Service a/hook",
        "Service a/hook waits for Service b/hook",
        "Service b/hook waits for Service c/hook",
    ]
    assert '(webhook "d.example.com" of "two": CREATE of pods in namespace c for Deployment "hook")' in text


def test_a_server_that_only_waits_is_in_no_cycle(tmp_path: Path) -> None:
    documents = [validating(guard("a", ["b", "c"]), guard("b", ["a", "d"]))]
    documents.append(mutating(guard("c", ["d"]), guard("d", ["e"])))
    (text,) = found(write(tmp_path, documents), name="circular-dependency")
    assert "none of 2 servers" in text
    assert (
        found(write(tmp_path, [validating(guard("a", ["b"]), guard("b", ["c"]))]), name="circular-dependency")
        == []
    )


def test_a_server_of_several_configurations_counts_once(tmp_path: Path) -> None:
    """The cycle goes through another webhook of the same server."""
    other = {**guard("b", ["a"]), "name": "b2.example.com"}
    documents = [validating(guard("a", ["c"]), guard("b", ["x"])), mutating(guard("c", ["b"]), other)]
    (text,) = found(write(tmp_path, documents), name="circular-dependency")
    assert "none of 3 servers" in text
    assert 'webhook "b2.example.com" of "changes"' in text


def test_denials_by_other_controllers_hide_no_deadlock(tmp_path: Path) -> None:
    """Priority denies the Pod before any webhook is called."""
    cluster = behind()
    cluster.put(_workload("Deployment", "server", {"app": "hook"}, priorityClassName="not-there"))
    assert len(found(write(tmp_path, [validating(webhook(PODS, **OWN))]), cluster)) == 1
