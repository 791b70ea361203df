"""``matchPolicy: Equivalent``: webhooks that name another version see it, over real HTTPS.

The cases of Kubernetes' own ``TestShouldCallHook`` are run beside the other vectors, in ``test_dispatch_vectors.py``.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique.admission.controllers import MUTATE, VALIDATE
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.kinds import (
    GroupVersionKind,
    GroupVersionResource,
    ResourceType,
    parse_api_version,
)
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ObjectStore, ReloadableCluster
from pratique.configuration.loading import Configurations, load_configurations
from pratique.manifests.requests import review_of_manifest
from pratique_frontdoor.chain.decisions import Decision
from support.chains import decide, decided, webhook_controllers
from support.conversions import converted
from support.webhook_servers import WebhookServer, allowed, patched, serve

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}
OLD_DEPLOYMENT = {
    "apiVersion": "extensions/v1beta1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"replicas": 1, "rollbackTo": {"revision": 3}, "template": TEMPLATE},
}
AUTOSCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "maxReplicas": 3,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    },
}
ORDERS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "orders.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "orders", "kind": "Order"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True}, {"name": "v2", "served": True}],
    },
}
CONVERTED_ORDERS = ORDERS | {
    "spec": ORDERS["spec"]
    | {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://localhost"}}}}
}
ORDER = {
    "apiVersion": "example.com/v1",
    "kind": "Order",
    "metadata": {"name": "a", "namespace": "shop"},
    "spec": {},
}


def rule(api_version: str, *resources: str) -> dict[str, Any]:
    group, version = parse_api_version(api_version)
    return {"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": list(resources)}


def webhook(server: WebhookServer, path: str, *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    url = {"url": f"{server.url}/{path}", "caBundle": base64.b64encode(server.ca_bundle).decode()}
    return {
        "name": f"{path}.tests.example.com",
        "clientConfig": url,
        "rules": list(rules),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    } | fields


def configured(folder: Path, kind: str, *webhooks: dict[str, Any]) -> Configurations:
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": list(webhooks),
    }
    (folder / f"{kind}.yaml").write_text(yaml.safe_dump(document))
    return load_configurations([folder])


def review_of(manifest: dict[str, Any], store: ObjectStore | None = None, **options: Any) -> Review:
    cluster = store or ObjectStore(assume_namespaces=True)
    return review_of_manifest(json.loads(json.dumps(manifest)), cluster.resources, cluster=cluster, **options)


def run(review: Review, configurations: Configurations, **options: Any) -> Decision:
    """Run one phase, as behind an API server: between both, the object would get a uid."""
    phases = MUTATE if configurations.mutating else VALIDATE
    return decide(review, webhook_controllers(), configurations, **{"phases": phases} | options)


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    with serve(allowed()) as running:
        yield running


def names(request: dict[str, Any]) -> tuple[str, str, str, str]:
    at, asked = request["resource"], request["requestResource"]
    return (
        f"{at['group']}/{at['version']}",
        request["kind"]["kind"],
        f"{asked['group']}/{asked['version']}",
        request["requestKind"]["version"],
    )


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_a_webhook_gets_the_object_in_the_version_of_its_rule(
    tmp_path: Path, server: WebhookServer, kind: str
) -> None:
    hook = webhook(server, "a", rule("apps/v1", "deployments"))
    decision = run(review_of(OLD_DEPLOYMENT), configured(tmp_path, kind, hook))
    assert decision.allowed
    request = server.received[0].review["request"]
    assert names(request) == ("apps/v1", "Deployment", "extensions/v1beta1", "v1beta1")
    assert request["object"] == converted(OLD_DEPLOYMENT, "apps/v1")
    assert request["object"]["metadata"]["annotations"] == {"deprecated.deployment.rollback.to": "3"}
    assert request["oldObject"] is None
    assert "requestSubResource" not in request


def test_the_old_object_is_converted_too(tmp_path: Path, server: WebhookServer) -> None:
    old = AUTOSCALER | {"spec": AUTOSCALER["spec"] | {"maxReplicas": 2}}  # type: ignore[operator] # a dict
    hook = webhook(server, "a", rule("autoscaling/v1", "horizontalpodautoscalers"))
    review = review_of(AUTOSCALER, operation=Operation.UPDATE, old=old)
    run(review, configured(tmp_path, "Validating", hook))
    request = server.received[0].review["request"]
    assert request["object"]["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    assert request["oldObject"]["spec"] == {"maxReplicas": 2, "targetCPUUtilizationPercentage": 50}


def test_only_the_old_object_is_converted_on_delete(tmp_path: Path, server: WebhookServer) -> None:
    hook = webhook(server, "a", rule("autoscaling/v1", "horizontalpodautoscalers"))
    run(review_of(AUTOSCALER, operation=Operation.DELETE), configured(tmp_path, "Validating", hook))
    request = server.received[0].review["request"]
    assert request["object"] is None
    assert request["oldObject"]["apiVersion"] == "autoscaling/v1"


@pytest.mark.parametrize(
    ("api_version", "policy", "called"),
    [
        ("apps/v1", "Exact", False),
        ("extensions/v1beta1", "Exact", True),
        ("apps/v1", "Equivalent", True),
        ("extensions/v1beta1", "Equivalent", True),
        ("apps/v2", "Equivalent", False),
    ],
)
def test_only_match_policy_equivalent_matches_other_versions(
    tmp_path: Path, server: WebhookServer, api_version: str, policy: str, *, called: bool
) -> None:
    hook = webhook(server, "a", rule(api_version, "deployments"), matchPolicy=policy)
    run(review_of(OLD_DEPLOYMENT), configured(tmp_path, "Validating", hook))
    assert bool(server.received) is called


def test_a_rule_with_the_requested_version_takes_precedence(tmp_path: Path, server: WebhookServer) -> None:
    rules = rule("apps/v1", "deployments"), rule("extensions/v1beta1", "deployments")
    run(review_of(OLD_DEPLOYMENT), configured(tmp_path, "Validating", webhook(server, "a", *rules)))
    assert server.received[0].review["request"]["object"] == OLD_DEPLOYMENT


@pytest.mark.parametrize(
    ("rules", "seen"),
    [
        ([rule("apps/v1beta1", "deployments"), rule("apps/v1", "deployments")], "apps/v1beta1"),
        ([rule("apps/v1", "deployments"), rule("apps/v1beta1", "deployments")], "apps/v1"),
        ([rule("apps/v1beta1", "deployments") | {"apiVersions": ["v1beta1", "v1"]}], "apps/v1"),
    ],
    ids=["an earlier rule", "another earlier rule", "the version registered earlier"],
)
def test_only_one_of_several_equivalents_applies(
    tmp_path: Path, server: WebhookServer, rules: list[Any], seen: str
) -> None:
    run(review_of(OLD_DEPLOYMENT), configured(tmp_path, "Validating", webhook(server, "a", *rules)))
    assert server.received[0].review["request"]["object"]["apiVersion"] == seen


def test_removed_versions_are_not_equivalent_to_served_ones(tmp_path: Path, server: WebhookServer) -> None:
    hook = webhook(server, "a", rule("extensions/v1beta1", "deployments"))
    current = converted(OLD_DEPLOYMENT, "apps/v1")
    decision = run(review_of(current), configured(tmp_path, "Validating", hook), explain=True)
    assert server.received == []
    assert [step.outcome for step in decision.steps] == [OutcomeStatus.SKIPPED]


def test_a_scale_is_converted_as_a_scale(tmp_path: Path, server: WebhookServer) -> None:
    scale = {
        "apiVersion": "apps/v1beta1",
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "shop"},
        "status": {"replicas": 1, "selector": {"app": "web"}, "targetSelector": "app=web"},
    }
    review = Review(
        uid="u",
        operation=Operation.UPDATE,
        kind=GroupVersionKind("apps", "v1beta1", "Scale"),
        resource=GroupVersionResource("apps", "v1beta1", "deployments"),
        subresource="scale",
        name="web",
        namespace="shop",
        object_document=review_of(OLD_DEPLOYMENT).object_document.from_data(scale),
        cluster=ObjectStore(assume_namespaces=True),
    )
    hook = webhook(server, "a", rule("apps/v1", "deployments/*"))
    run(review, configured(tmp_path, "Validating", hook))
    request = server.received[0].review["request"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["subResource"], request["requestSubResource"]) == ("scale", "scale")
    assert request["object"]["status"] == {"replicas": 1, "selector": "app=web"}


CPU = "/spec/targetCPUUtilizationPercentage"


def test_a_patch_of_a_converted_object_is_converted_back(tmp_path: Path) -> None:
    operations = [{"op": "replace", "path": CPU, "value": 70}]
    behaviours = {"/a": patched(operations), "/b": allowed()}
    with serve(behaviours) as server:
        hooks = [
            webhook(server, "a", rule("autoscaling/v1", "horizontalpodautoscalers")),
            webhook(server, "b", rule("autoscaling/v2", "horizontalpodautoscalers")),
        ]
        decision = run(review_of(AUTOSCALER), configured(tmp_path, "Mutating", *hooks))
    after = decision.object_document.data
    assert after["apiVersion"] == "autoscaling/v2"
    assert after["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    assert server.received[1].review["request"]["object"] == after
    assert apply_patch(AUTOSCALER, decision.patch) == after
    assert apply_patch(AUTOSCALER, decision.steps[0].patch) == after
    assert decision.steps[0].outcome is OutcomeStatus.MUTATED
    patch_annotation = decision.audit_annotations["patch.webhook.admission.k8s.io/round_0_index_0"]
    assert json.loads(patch_annotation)["patch"] == operations


def test_an_empty_change_of_a_converted_object_changes_nothing(tmp_path: Path) -> None:
    with serve(patched([{"op": "replace", "path": CPU, "value": 50}])) as server:
        hook = webhook(server, "a", rule("autoscaling/v1", "horizontalpodautoscalers"))
        decision = run(review_of(AUTOSCALER), configured(tmp_path, "Mutating", hook))
    assert decision.object_document.data == AUTOSCALER
    assert decision.patch == ()
    assert decision.steps[0].patch == ()
    assert decision.steps[0].outcome is OutcomeStatus.UNCHANGED


def test_webhooks_of_different_versions_see_each_others_changes(tmp_path: Path) -> None:
    label = [{"op": "add", "path": "/metadata/labels/seen", "value": "yes"}]
    rollback = [{"op": "remove", "path": "/spec/rollbackTo"}]
    annotation = [{"op": "test", "path": "/metadata/labels/seen", "value": "yes"}]
    behaviours = {"/a": patched(label), "/b": patched(rollback), "/c": patched(annotation)}
    with serve(behaviours) as server:
        hooks = [
            webhook(server, "a", rule("apps/v1", "deployments")),
            webhook(server, "b", rule("apps/v1beta1", "deployments")),
            webhook(server, "c", rule("apps/v1beta2", "deployments")),
        ]
        decision = run(review_of(OLD_DEPLOYMENT), configured(tmp_path, "Mutating", *hooks))
    seen = [item.review["request"]["object"] for item in server.received]
    assert [item["apiVersion"] for item in seen] == ["apps/v1", "apps/v1beta1", "apps/v1beta2"]
    assert "annotations" not in seen[2]["metadata"]
    assert decision.object_document.data == converted(seen[2], "extensions/v1beta1")


def test_versions_of_a_custom_resource_are_equivalent(tmp_path: Path, server: WebhookServer) -> None:
    store = ObjectStore([ORDERS], assume_namespaces=True)
    hook = webhook(server, "a", rule("example.com/v2", "orders"))
    run(review_of(ORDER, store), configured(tmp_path, "Validating", hook))
    assert server.received[0].review["request"]["object"] == ORDER | {"apiVersion": "example.com/v2"}


def test_a_changed_custom_resource_definition_takes_effect(tmp_path: Path, server: WebhookServer) -> None:
    one_version = ORDERS | {"spec": ORDERS["spec"] | {"versions": ORDERS["spec"]["versions"][:1]}}
    cluster = ReloadableCluster(ObjectStore([one_version], assume_namespaces=True))
    hook = webhook(server, "a", rule("example.com/v2", "orders"))
    configurations = configured(tmp_path, "Validating", hook)
    review = review_of_manifest(ORDER, cluster.resources, cluster=cluster)

    async def twice() -> list[int]:
        counts = []
        for definition in (one_version, ORDERS):
            cluster.swap(ObjectStore([definition], assume_namespaces=True))
            await decided(review, webhook_controllers(), configurations)
            counts.append(len(server.received))
        return counts

    assert asyncio.run(twice()) == [0, 1]


@pytest.mark.parametrize(
    ("kind", "beginning"),
    [
        ("Validating", "Internal error occurred: "),
        # The API server's mutating dispatcher wraps the error twice.
        ("Mutating", "Internal error occurred: Internal error occurred: "),
    ],
)
def test_an_object_that_cannot_be_converted_is_denied_even_under_ignore(
    tmp_path: Path, server: WebhookServer, kind: str, beginning: str
) -> None:
    store = ObjectStore([CONVERTED_ORDERS], assume_namespaces=True)
    hook = webhook(server, "a", rule("example.com/v2", "orders"), failurePolicy="Ignore")
    decision = run(review_of(ORDER, store), configured(tmp_path, kind, hook))
    assert decision.status is not None
    assert (decision.status.code, decision.status.reason) == (500, "InternalError")
    assert decision.status.message == (
        f"{beginning}conversion webhook for example.com/v1, Kind=Order failed: "
        "conversion webhooks are not called here"
    )
    assert decision.steps[0].outcome is OutcomeStatus.FAILED
    assert server.received == []


def test_a_patched_object_that_cannot_be_converted_back_is_denied(tmp_path: Path) -> None:
    operations = [
        {"op": "replace", "path": "/metadata/annotations/deprecated.deployment.rollback.to", "value": "x"}
    ]
    with serve(patched(operations)) as server:
        hook = webhook(server, "a", rule("apps/v1", "deployments"), failurePolicy="Ignore")
        decision = run(review_of(OLD_DEPLOYMENT), configured(tmp_path, "Mutating", hook))
    assert decision.status is not None
    assert decision.status.message == (
        "Internal error occurred: failed to parse annotation[deprecated.deployment.rollback.to]=x as int64: "
        'strconv.ParseInt: parsing "x": invalid syntax'
    )


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_a_resource_of_unknown_kind_is_denied(tmp_path: Path, server: WebhookServer, kind: str) -> None:
    types = [
        ResourceType(
            resource=GroupVersionResource("example.com", version, "widgets"),
            kind=GroupVersionKind(),
            namespaced=True,
        )
        for version in ("v1", "v2")
    ]
    review = Review(
        uid="u",
        operation=Operation.CREATE,
        kind=GroupVersionKind("example.com", "v1", "Widget"),
        resource=types[0].resource,
        namespace="ns",
        cluster=ObjectStore(resources=ApiResources(types), assume_namespaces=True),
    )
    hook = webhook(server, "a", rule("example.com/v2", "widgets"))
    decision = run(review, configured(tmp_path, kind, hook))
    assert decision.status is not None
    assert decision.status.message == (
        "Internal error occurred: unable to convert to example.com/v2, Resource=widgets: unknown kind"
    )
    assert decision.status.code == 500


def test_an_already_converted_review_keeps_its_original_resource(
    tmp_path: Path, server: WebhookServer
) -> None:
    review = Review(
        uid="u",
        operation=Operation.CREATE,
        kind=GroupVersionKind("apps", "v1beta1", "Deployment"),
        resource=GroupVersionResource("apps", "v1beta1", "deployments"),
        request_kind=GroupVersionKind("extensions", "v1beta1", "Deployment"),
        request_resource=GroupVersionResource("extensions", "v1beta1", "deployments"),
        namespace="shop",
        object_document=review_of(OLD_DEPLOYMENT).object_document.from_data(
            converted(OLD_DEPLOYMENT, "apps/v1beta1")
        ),
        cluster=ObjectStore(assume_namespaces=True),
    )
    hook = webhook(server, "a", rule("apps/v1", "deployments"))
    run(review, configured(tmp_path, "Validating", hook))
    request = server.received[0].review["request"]
    assert names(request) == ("apps/v1", "Deployment", "extensions/v1beta1", "v1beta1")
