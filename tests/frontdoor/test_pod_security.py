"""PodSecurity in a chain: Kubernetes' conformance fixtures through the engine that HTTP and offline runs share."""

from __future__ import annotations

import asyncio

from pratique.admission.controllers import BOTH, VALIDATE, Phase
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local
from support.admissions import review_of
from support.pod_security_cases import cases, cluster, deployment_request, labelled, namespace_of, pod_request

EVERY = [(case, minor) for case in cases("fixtures.jsonl") for minor in sorted({case["from"], case["to"]})]
"""Each fixture in the first and last version that it applies to."""


def decided(
    requests: list[JSONObject],
    objects: ObjectStore,
    settings: ChainSettings | None = None,
    phases: frozenset[Phase] = VALIDATE,
) -> list[Decision]:
    """Decide in the validating phase: the fixtures are as the checks see them, with annotations and without fields."""

    async def decide() -> list[Decision]:
        engine = open_local(settings or ChainSettings(admission_control=("PodSecurity",)), objects)
        try:
            return [
                await engine.decide(review_of(request, objects), phases, Deadline.after(60))
                for request in requests
            ]
        finally:
            await engine.close()

    return asyncio.run(decide())


def dry(request: JSONObject) -> JSONObject:
    return request | {"dryRun": True}


def test_pods_are_admitted_or_refused_as_in_kubernetes() -> None:
    requests = [dry(pod_request(case["pod"], namespace_of(case["level"], minor))) for case, minor in EVERY]
    for (case, minor), decision in zip(EVERY, decided(requests, cluster()), strict=True):
        policy = f"{case['level']}:v1.{minor}"
        assert decision.audit_annotations == {"pod-security.kubernetes.io/enforce-policy": policy}
        refusal = decision.status
        assert (refusal is None) is ("detail" not in case)
        if refusal is not None:
            text = f'pods "test" is forbidden: violates PodSecurity "{policy}": {case["detail"]}'
            assert (refusal.code, refusal.message) == (403, text)


def test_deployments_get_the_warnings_of_kubernetes() -> None:
    requests = [
        dry(deployment_request(case["pod"], namespace_of(case["level"], minor))) for case, minor in EVERY
    ]
    for (case, minor), decision in zip(EVERY, decided(requests, cluster()), strict=True):
        policy = f"{case['level']}:v1.{minor}"
        warnings = (f'would violate PodSecurity "{policy}": {case["detail"]}',) if "detail" in case else ()
        assert decision.status is None
        assert decision.warnings == warnings


def test_pod_security_is_in_the_default_chain() -> None:
    objects = ObjectStore([labelled("shop", enforce="baseline")], assume_namespaces=True)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "test", "namespace": "shop"},
        "spec": {"hostPID": True, "containers": [{"name": "web", "image": "web"}]},
    }
    refused, free = decided(
        [pod_request(pod, "shop"), pod_request(pod | {"metadata": {"name": "test"}}, "other")],
        objects,
        ChainSettings(),
        BOTH,
    )
    assert refused.status is not None
    assert refused.status.message == (
        'pods "test" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    )
    assert free.status is None


def test_a_changed_namespace_warns_about_its_existing_pods() -> None:
    existing = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "old", "namespace": "shop"},
        "spec": {"hostPID": True},
    }
    request = {
        "operation": "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "Namespace"},
        "resource": {"group": "", "version": "v1", "resource": "namespaces"},
        "namespace": "shop",
        "name": "shop",
        "object": labelled("shop", enforce="baseline"),
        "oldObject": labelled("shop"),
    }
    (decision,) = decided([request], ObjectStore([labelled("shop"), existing]))
    assert decision.status is None
    assert decision.warnings == (
        'existing pods in namespace "shop" violate the new PodSecurity enforce level "baseline:latest"',
        "old: host namespaces",
    )


def test_an_app_armor_annotation_is_a_field_too_by_the_time_pods_are_validated() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/web"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "test", "namespace": "shop", "annotations": {key: "unconfined"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }
    objects = ObjectStore([labelled("shop", enforce="baseline")], assume_namespaces=True)
    [decision] = decided([pod_request(pod, "shop")], objects, phases=BOTH)
    assert decision.status is not None
    assert decision.status.message == (
        'pods "test" is forbidden: violates PodSecurity "baseline:latest": forbidden AppArmor profiles (container '
        f'"web" and annotation must not set AppArmor profile type to "Unconfined", "{key}="unconfined"")'
    )
    assert decision.object_document.data == pod
