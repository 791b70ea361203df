"""What docs/kubernetes.md promises of decisions, seen from the API server's callers."""

from __future__ import annotations

import contextlib
from typing import Any

import yaml

from support.api_clients import Reply
from support.clusters import Cluster

DENIAL = 'admission webhook "validate.pratique.pratique.svc" denied the request: '
AUDITED = "validate.pratique.pratique.svc/owned.example.com_image"
SPREAD = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {}}
        ]
    }
}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "app", "image": "registry.example/web:1.4", "imagePullPolicy": "IfNotPresent"}]
    metadata = {"name": name, "labels": {"owner": "me"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers} | spec,
    }


def create(cluster: Cluster, namespace: str, made: dict[str, Any], query: str = "") -> Reply:
    return cluster.api.ask("POST", f"/api/v1/namespaces/{namespace}/pods{query}", made)


def pull_policies(made: Any) -> set[str]:
    return {container["imagePullPolicy"] for container in made["spec"]["containers"]}


def test_a_dry_run_shows_what_the_mutator_sets_and_stores_nothing(cluster: Cluster) -> None:
    words = ("run", "web", "--image=registry.example/web:1.4", "--dry-run=server", "-o", "yaml")
    shown = cluster.api.kubectl("-n", "documented", *words)
    assert shown.returncode == 0, shown.stderr
    assert pull_policies(yaml.safe_load(shown.stdout)) == {"Always"}
    assert cluster.api.ask("GET", "/api/v1/namespaces/documented/pods/web").code == 404


def test_what_is_stored_is_what_the_mutator_made(cluster: Cluster) -> None:
    assert create(cluster, "documented", pod("stored")).code == 201
    stored = cluster.api.ask("GET", "/api/v1/namespaces/documented/pods/stored").body
    assert pull_policies(stored) == {"Always"}


def test_kubectl_shows_the_words_of_a_denial(cluster: Cluster) -> None:
    denied = cluster.api.kubectl(
        "-n", "documented", "create", "-f", "-", stdin=yaml.safe_dump(pod("spread", affinity=SPREAD))
    )
    assert denied.returncode == 1
    assert denied.stderr.startswith('Error from server (Forbidden): error when creating "STDIN": ')
    assert DENIAL in denied.stderr
    assert "affinity.PodAntiAffinity" in denied.stderr


def test_kubectl_shows_warnings_of_policies(cluster: Cluster) -> None:
    unowned = pod("unowned") | {"metadata": {"name": "unowned"}}
    made = cluster.api.kubectl(
        "-n", "documented", "create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(unowned)
    )
    assert made.returncode == 0
    assert "Warning: Validation failed for ValidatingAdmissionPolicy 'owned.example.com'" in made.stderr
    assert "nobody owns it" in made.stderr


def audit_annotations(cluster: Cluster, name: str, subresource: str = "") -> Any:
    """What the audit log has of the request for a Pod."""
    [event] = [
        event
        for event in cluster.api.audit_events()
        if (event["objectRef"].get("name"), event["objectRef"].get("subresource", "")) == (name, subresource)
    ]
    return event["annotations"]


def test_audit_annotations_are_in_the_audit_log(cluster: Cluster) -> None:
    create(cluster, "documented", pod("audited"))
    assert audit_annotations(cluster, "audited")[AUDITED] == "registry.example/web:1.4"


def test_containers_that_come_into_a_running_pod_are_reviewed(cluster: Cluster) -> None:
    create(cluster, "documented", pod("running"))
    path = "/api/v1/namespaces/documented/pods/running/ephemeralcontainers"
    debugger = {"name": "debugger", "image": "tools:1"}
    with contextlib.closing(cluster.api.client()) as client:
        added = client.ask("PATCH", path, {"spec": {"ephemeralContainers": [debugger]}}, patch="strategic")
    assert added.code == 200, added
    assert AUDITED in audit_annotations(cluster, "running", "ephemeralcontainers")


def test_a_mirror_pod_stays_as_its_kubelet_wrote_it(cluster: Cluster) -> None:
    mirror = pod("mirror", nodeName="node-1")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    reply = create(cluster, "open", mirror, "?dryRun=All")
    assert reply.code == 201, reply.body["message"]
    assert pull_policies(reply.body) == {"IfNotPresent"}


def test_the_namespaces_that_keep_a_cluster_up_are_left_out(cluster: Cluster) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    cluster.api.ask("POST", "/api/v1/namespaces/kube-system/serviceaccounts", account)
    reply = create(cluster, "kube-system", pod("spread", affinity=SPREAD), "?dryRun=All")
    assert (reply.code, pull_policies(reply.body)) == (201, {"IfNotPresent"})


def test_only_images_with_a_digest_run_in_the_stacks_own_namespace(cluster: Cluster) -> None:
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    stranger = pod("stranger", serviceAccountName="pratique-mutator", securityContext=context)
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    stranger["spec"]["containers"][0]["securityContext"] = own
    reply = create(cluster, "pratique", stranger)
    assert reply.code == 422, reply.body["message"]
    assert "ValidatingAdmissionPolicy" in reply.body["message"]


def test_one_url_for_both_phases_mutates_and_denies(cluster: Cluster) -> None:
    allowed = create(cluster, "by-url", pod("web"), "?dryRun=All")
    assert (allowed.code, pull_policies(allowed.body)) == (201, {"Always"})
    denied = create(cluster, "by-url", pod("spread", affinity=SPREAD))
    assert denied.code == 403
    assert denied.body["message"].startswith('admission webhook "mutate.pratique.pratique.svc" denied')
