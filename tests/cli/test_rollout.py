"""``pratique rollout``: what policies in shadow would have denied and changed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from support.recordings import deployment, pod_creation, record, written

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

GROUP = "admissionregistration.k8s.io"
RULES = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
POLICY = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "replicas"},
    "spec": {
        "matchConstraints": {"resourceRules": [RULES]},
        "validations": [{"expression": "object.spec.replicas <= 5", "message": "at most 5 replicas"}],
    },
}
BINDING = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "everywhere"},
    "spec": {"policyName": "replicas", "validationActions": ["Deny"]},
}
ROLLOUT = {
    "apiVersion": "policy.pratique/v1alpha1",
    "kind": "PolicyRollout",
    "metadata": {"name": "fewer"},
    "spec": {"mode": "Shadow", "policies": [{"kind": "ValidatingAdmissionPolicy", "name": "replicas"}]},
}
REVIEWS = [
    deployment(50),
    deployment(9, userInfo={"username": "ann"}),
    deployment(9, namespace="blog"),
    deployment(1),
    pod_creation(),
]
EVIDENCE = {
    "rollout": "fewer",
    "controller": "ValidatingAdmissionPolicy",
    "configuration": "everywhere",
    "name": "replicas",
    "reviews": 4,
    "outcomes": {"denied": 3, "allowed": 1},
    "namespaces": [
        {"name": "shop", "reviews": 2, "canaryFromPercent": 26},
        {"name": "blog", "reviews": 1, "canaryFromPercent": 31},
    ],
    "users": [{"name": "jane", "reviews": 2}, {"name": "ann", "reviews": 1}],
}


@pytest.fixture(name="shadow", scope="module")
def _shadow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("shadow"), "policies.yaml", POLICY, BINDING, ROLLOUT)


@pytest.fixture(name="recorded", scope="module")
def _recorded(tmp_path_factory: pytest.TempPathFactory, shadow: Path) -> Path:
    return record(REVIEWS, tmp_path_factory.mktemp("recorded") / "shadow.jsonl", shadow)


def evidence(done: subprocess.CompletedProcess[str]) -> Any:
    (found,) = json.loads(done.stdout)
    examples = found.pop("examples")
    return found, examples


def test_recorded_shadows_are_counted_by_namespace_and_user(pratique: Program, recorded: Path) -> None:
    done = pratique("rollout", recorded, "-o", "json", "--examples", "1")
    assert done.returncode == 1
    found, (example,) = evidence(done)
    assert found == EVIDENCE
    assert example["subject"] == "Deployment shop/web"
    assert example["reason"] == "would have denied the request: at most 5 replicas"


def test_reviews_that_were_recorded_before_are_decided_again(
    pratique: Program, tmp_path: Path, shadow: Path
) -> None:
    before = record(REVIEWS, tmp_path / "before.jsonl")
    done = pratique("rollout", before, "--config", shadow, "-o", "json")
    assert evidence(done)[0] == EVIDENCE
    none = pratique("rollout", before)
    assert none.returncode == 2
    assert (
        "no decision in shadow in 5 reviews: name policies and their PolicyRollout by --config" in none.stderr
    )


def test_text_says_who_and_where(pratique: Program, recorded: Path) -> None:
    lines = pratique("rollout", recorded).stdout.splitlines()
    assert lines[0] == "PolicyRollout fewer: ValidatingAdmissionPolicy/everywhere/replicas"
    assert lines[1] == "    of 4 reviews it would have: 3 denied, 1 allowed"
    assert lines[2] == "    namespaces: shop (a canary from 26 %) 2, blog (a canary from 31 %) 1"
    assert lines[3] == "    users: jane 2, ann 1"
    assert lines[4].endswith("Deployment shop/web by jane: would have denied the request: at most 5 replicas")


def test_what_would_have_denied_nothing_may_be_enforced(
    pratique: Program, tmp_path: Path, shadow: Path
) -> None:
    recorded = record([deployment(1)], tmp_path / "good.jsonl", shadow)
    assert pratique("rollout", recorded).returncode == 0


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"kind": "Pod"}', "neither a line of a recording nor an AdmissionReview"),
        (json.dumps(deployment()), "no decision is recorded; decide it by --config"),
        ("{", "document 1"),
    ],
)
def test_what_is_no_recording_is_told(pratique: Program, tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(f"{line}\n")
    done = pratique("rollout", file)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_recording_holds_no_secret_of_what_a_shadow_would_have_changed(tmp_path: Path) -> None:
    rules = {**RULES, "apiGroups": [""], "resources": ["pods"]}
    value = "{'token': object.spec.containers[0].env[0].value}"
    mutation = f"JSONPatch{{op: 'add', path: '/metadata/annotations', value: {value}}}"
    policy = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "copies"},
        "spec": {
            "matchConstraints": {"resourceRules": [rules]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{mutation}]"}}],
            "reinvocationPolicy": "Never",
        },
    }
    bound = {**BINDING, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "copies"}}
    target = {"kind": "MutatingAdmissionPolicy", "name": "copies"}
    rollout = {**ROLLOUT, "spec": {"mode": "Shadow", "policies": [target]}}
    config = written(tmp_path, "policies.yaml", policy, bound, rollout)
    review = pod_creation()
    env = [{"name": "A", "value": "s3cret-value"}]
    review["request"]["object"]["spec"]["containers"][0]["env"] = env
    text = record([review], tmp_path / "secret.jsonl", config).read_text()
    assert '"outcome":"mutated"' in text
    assert "s3cret-value" not in text
