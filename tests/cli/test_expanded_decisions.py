"""The Pods of workloads share what was decoded and filled in already, and are decided as if they did not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document
from pratique.cluster.store import ObjectStore
from pratique.manifests.pod_templates import pod_of_workload
from pratique.manifests.requests import review_of_manifest
from pratique.registry.object_validation import ObjectRefusedError, receive
from pratique_frontdoor.chain.decisions import OBJECT_VALIDATION, Decision, Step
from support.manifest_decisions import decide_manifest

LABELS = {"app": "web"}
CONTAINER: dict[str, Any] = {
    "name": "web",
    "image": "web",
    "ports": [{"containerPort": 80}],
    "resources": {"limits": {"cpu": "1"}},
    "readinessProbe": {"httpGet": {"port": 80}},
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [CONTAINER], "hostNetwork": True},
}
JOB_TEMPLATE = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTING = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
WORKLOADS = {
    "CronJob": ("batch/v1", {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}),
    "DaemonSet": ("apps/v1", SELECTING),
    "Deployment": ("apps/v1", SELECTING),
    "Job": ("batch/v1", {"template": JOB_TEMPLATE}),
    "ReplicationController": ("v1", {"template": TEMPLATE}),
    "StatefulSet": ("apps/v1", {**SELECTING, "serviceName": "web"}),
}


def made_pod(kind: str) -> tuple[Review, Any]:
    """The review of a workload's Pod, and the stored template."""
    api_version, spec = WORKLOADS[kind]
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}
    store = ObjectStore(assume_namespaces=True)
    parent = review_of_manifest(manifest, store.resources, cluster=store, object_validation=True)
    decision = decide_manifest(manifest)
    assert decision.is_as_validated, decision.message
    made = pod_of_workload(parent, decision.object)
    assert made is not None
    template = decision.object
    for name in made.template:
        template = template[name]
    review = review_of_manifest(made.document, store.resources, cluster=store, object_validation=True)
    return review, template


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_pod_that_shares_its_templates_parts_is_received_as_any_other(kind: str) -> None:
    review, template = made_pod(kind)
    shared = receive(review.with_parts_of({"spec": template["spec"]})).object
    assert shared == receive(review).object
    assert shared["spec"]["enableServiceLinks"] is True
    assert shared["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


def test_what_a_pod_does_not_share_with_its_template_is_looked_at() -> None:
    review, template = made_pod("Deployment")
    written = review.object
    pod = {**written, "spec": {**written["spec"], "volumes": [{"name": "cache"}], "hostUsers": "yes"}}
    changed = review.with_object(Document.from_data(pod)).with_parts_of({"spec": template["spec"]})
    with pytest.raises(ObjectRefusedError) as refused:
        receive(changed)
    assert refused.value.status.message.endswith("PodSpec.spec.hostUsers of type bool")
    del pod["spec"]["hostUsers"]
    assert receive(changed).object["spec"]["volumes"] == [{"name": "cache", "emptyDir": {}}]


def step(controller: str, phase: Phase, outcome: OutcomeStatus, *, patches: bool = False) -> Step:
    patch = ({"op": "add", "path": "/spec/x", "value": 1},) if patches else ()
    return Step(controller=controller, phase=phase, name="n", outcome=outcome, patch=patch)


DEFAULTS = step(OBJECT_VALIDATION, Phase.MUTATE, OutcomeStatus.MUTATED, patches=True)
VALIDATION = step(OBJECT_VALIDATION, Phase.VALIDATE, OutcomeStatus.ALLOWED)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], False),
        ([DEFAULTS], False),
        ([DEFAULTS, VALIDATION], True),
        ([DEFAULTS, VALIDATION, step("A", Phase.VALIDATE, OutcomeStatus.DENIED)], True),
        ([DEFAULTS, VALIDATION, step("A", Phase.VALIDATE, OutcomeStatus.MUTATED, patches=True)], False),
        ([DEFAULTS, step(OBJECT_VALIDATION, Phase.VALIDATE, OutcomeStatus.DENIED)], False),
        ([step(OBJECT_VALIDATION, Phase.VALIDATE, OutcomeStatus.SKIPPED)], False),
    ],
)
def test_only_what_was_validated_and_not_changed_since_is_as_validated(
    steps: list[Step],
    *,
    expected: bool,
) -> None:
    assert Decision(uid="u", allowed=True, steps=tuple(steps)).is_as_validated is expected


def test_validating_objects_of_built_in_kinds_loads_no_cel() -> None:
    program = (
        "import sys, pratique.registry.object_validation\n"
        "print(sorted(name for name in sys.modules if name.startswith('pratique.cel')))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"
