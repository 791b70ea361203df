from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document, JSONObject, encode
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.source_documents import JsonOrigin, SourceDocument, SourceText
from pratique.apimachinery.statuses import failure
from pratique_cli.outputs import ReviewedDocument
from pratique_cli.outputs.documents import decision_document
from pratique_cli.outputs.findings import findings
from pratique_cli.outputs.texts import TextOutput
from pratique_cli.terminal import Palette
from pratique_frontdoor.chain.decisions import Decision
from support.blame_cases import mutation

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

SET: JSONObject = {"op": "add", "path": "/spec/hostPID", "value": True}
SENTENCE = "spec.hostPID was last changed by Mutator."

NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
"""
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: host}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{spec: Object.spec{hostPID: true}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: all}
spec: {policyName: host}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""
RUN = ("review", "--cluster", "cluster.yaml", "--config", "policy.yaml", "web.yaml")
LAST = {
    "step": 0,
    "controller": "MutatingAdmissionPolicy",
    "name": "host",
    "configuration": "all",
    "round": 0,
}


@pytest.fixture
def manifests(tmp_path: Path) -> None:
    """A Deployment whose Pods a policy changes so that they are denied."""
    for name, text in (("cluster", NAMESPACE), ("policy", POLICY), ("web", DEPLOYMENT)):
        (tmp_path / f"{name}.yaml").write_text(text)


def reviewed(received: JSONObject, *operations: JSONObject) -> ReviewedDocument:
    """A review whose object one step changes and another step denies for that change."""
    steps = (
        mutation(*operations),
        mutation(
            controller="Validator",
            phase=Phase.VALIDATE,
            outcome=StepOutcome.DENIED,
            reason="spec.hostPID: no",
        ),
    )
    decision = Decision(
        uid="1",
        allowed=False,
        status=failure(403, "Forbidden", "spec.hostPID: no"),
        object_document=Document.from_data(received | {"spec": {"hostPID": True}}),
        steps=steps,
    )
    review = Review(
        uid="1",
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name="web",
        object_document=Document.from_data(received),
    )
    written = SourceDocument(
        received, "pod.yaml", 0, 1, JsonOrigin(SourceText(encode(received), "pod.yaml"), 0)
    )
    return ReviewedDocument(written, review, decision)


def text_of(output: ReviewedDocument, *, blame: bool) -> list[str]:
    stream = io.StringIO()
    TextOutput(stream, Palette(), blame=blame).write(output)
    return stream.getvalue().splitlines()


POD: JSONObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {}}


def test_text_lists_changes_and_denials_after_the_steps() -> None:
    output = reviewed(POD, SET)
    without, lines = text_of(output, blame=False), text_of(output, blame=True)
    added = lines[len(without) - 1 : -1]
    assert lines[: len(without) - 1] == without[:-1]
    assert [line.strip() for line in added] == [
        "who changed it:",
        "+ spec.hostPID: true",
        "by Mutator",
        "what is denied:",
        f"✗ {SENTENCE[:-1]}",
    ]


def test_text_hides_the_values_of_a_secret() -> None:
    secret = {**POD, "kind": "Secret", "data": {}}
    lines = text_of(reviewed(secret, SET), blame=True)
    assert "          + spec.hostPID" in lines
    assert not [line for line in lines if "true" in line]


def test_a_denied_field_that_no_step_changed_is_as_it_was_received() -> None:
    output = reviewed(POD | {"spec": {"hostPID": True}})
    assert "✗ spec.hostPID is as it was received" in text_of(output, blame=True)[-2]


def test_a_change_without_a_known_step_says_so() -> None:
    assert "            by nobody who is known" in text_of(reviewed(POD), blame=True)


def test_blame_only_adds_a_remark_to_a_finding() -> None:
    output = reviewed(POD, SET)
    (without,), (found,) = findings(output), findings(output, blame=True)
    assert (without.text, without.remark, without.message) == ("spec.hostPID: no", "", "spec.hostPID: no")
    assert (found.text, found.message) == (without.text, f"spec.hostPID: no. {SENTENCE}")


def test_a_document_has_blame_only_on_request() -> None:
    output = reviewed(POD, SET)
    without, document = decision_document(output, blame=False), decision_document(output, blame=True)
    assert "blame" not in without
    blame = document.pop("blame")
    assert document == without
    assert [item["path"] for item in (*blame["changes"], *blame["denials"])] == ["/spec/hostPID"] * 2


@pytest.mark.usefixtures("manifests")
def test_the_pods_of_a_workload_have_blame_of_their_own(pratique: Program) -> None:
    (document,) = json.loads(pratique(*RUN, "-o", "json", "--blame").stdout)
    (pod,) = document["expanded"]
    assert document["blame"]["denials"] == []
    last = pod["blame"]["denials"][0]["lastChangedBy"]
    assert last == {**LAST, "step": last["step"]}
    assert pod["steps"][last["step"]]["name"] == "host"
    assert pod["blame"]["denials"][0]["path"] == "/spec/hostPID"
    assert "/spec/hostPID" in [change["path"] for change in pod["blame"]["changes"]]


@pytest.mark.usefixtures("manifests")
@pytest.mark.parametrize("name", ["json", "jsonl", "yaml", "text", "junit", "sarif", "github"])
def test_no_format_writes_blame_without_the_flag(pratique: Program, name: str) -> None:
    ran = pratique(*RUN, "-o", name)
    assert ran.returncode == 1
    assert "blame" not in ran.stdout
    assert "last changed" not in ran.stdout


@pytest.mark.usefixtures("manifests")
def test_reports_name_the_last_step_that_changed_a_denied_field(pratique: Program) -> None:
    sentence = "spec.hostPID was last changed by MutatingAdmissionPolicy host (all)."
    sarif = json.loads(pratique(*RUN, "-o", "sarif", "--blame").stdout)
    results = [result for result in sarif["runs"][0]["results"] if result["level"] == "error"]
    assert [item["message"]["text"].endswith(f". {sentence}") for item in results] == [True]
    junit = ET.fromstring(pratique(*RUN, "-o", "junit", "--blame").stdout)
    assert [str(entry.text).endswith(f". {sentence}") for entry in junit.iter("failure")] == [True]
    assert pratique(*RUN, "-o", "github", "--blame").stdout.rstrip().endswith(f". {sentence}")


@pytest.mark.usefixtures("manifests")
def test_blame_does_not_change_the_fingerprint_of_a_finding(pratique: Program) -> None:
    runs = [json.loads(pratique(*RUN, "-o", "sarif", *flags).stdout) for flags in ((), ("--blame",))]
    without, with_it = (
        [result["partialFingerprints"] for result in run["runs"][0]["results"]] for run in runs
    )
    assert without == with_it


@pytest.mark.usefixtures("manifests")
def test_the_environment_can_turn_blame_on(pratique: Program) -> None:
    ran = pratique(*RUN, "-o", "jsonl", PRATIQUE_BLAME="true")
    assert "blame" in json.loads(ran.stdout)
