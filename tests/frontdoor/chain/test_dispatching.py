"""The corners of dispatching that Kubernetes' own tables leave out."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from pratique.admission.controllers import MUTATE, Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.json_values import NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.selectors import LabelSelector, LabelSelectorRequirement
from pratique.cluster.store import ObjectStore
from pratique_frontdoor.chain.decisions import Decision
from support.chains import POD, pod_review
from support.scripted_webhooks import Act, Script, decide

UNUSABLE = LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Gt", ("1",)),))
BROKEN = 'Internal error occurred: "Gt" is not a valid label selector operator'
NAME = "a.example.com"


def unusable(field: str) -> dict[str, Any]:
    return {field: UNUSABLE}


def message(decision: Decision) -> str:
    assert decision.status is not None
    return decision.status.message


def of_group(group: str, resource: str, kind: str) -> Review:
    return pod_review(
        {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "one"}},
        kind=GroupVersionKind(group, "v1", kind),
        resource=GroupVersionResource(group, "v1", resource),
        namespace="",
        name="one",
    )


def namespace_review(operation: Operation, labels: dict[str, str], **changes: Any) -> Review:
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}
    return pod_review(
        document,
        operation=operation,
        kind=GroupVersionKind("", "v1", "Namespace"),
        resource=GroupVersionResource("", "v1", "namespaces"),
        name="shop",
        **changes,
    )


@pytest.mark.parametrize(
    ("group", "resource", "kind"),
    [
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    ],
)
def test_only_static_webhooks_get_admission_configurations(group: str, resource: str, kind: str) -> None:
    for configuration, outcome in (("of-the-api", True), ("of-a-file.static.k8s.io", False)):
        for mutating in (True, False):
            denying = [Script(NAME, Act.DENY)]
            hooks = (denying, ()) if mutating else ((), denying)
            decision = decide(of_group(group, resource, kind), *hooks, configuration=configuration)
            assert decision.allowed is outcome


def test_no_webhook_gets_virtual_resources() -> None:
    review = of_group("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview")
    assert decide(review, (), [Script(NAME, Act.DENY)], configuration="of-a-file.static.k8s.io").allowed


@pytest.mark.parametrize("field", ["object_selector", "namespace_selector"])
def test_an_invalid_selector_denies_what_the_rules_match(field: str) -> None:
    script = Script(NAME, failure_policy="Ignore", **unusable(field))
    for mutating, validating in (([script], []), ([], [script])):
        decision = decide(pod_review(), mutating, validating)
        assert message(decision) == BROKEN
        assert decision.steps[0].outcome is OutcomeStatus.FAILED
    assert script.calls == 0


@pytest.mark.parametrize("field", ["object_selector", "namespace_selector"])
def test_an_invalid_selector_denies_nothing_else(field: str) -> None:
    script = Script(NAME, rule=rule("secrets"), **unusable(field))
    assert decide(pod_review(), (), [script]).allowed


def test_a_selector_that_does_not_match_takes_precedence_over_an_invalid_one() -> None:
    script = Script(NAME, namespace_selector=UNUSABLE, object_selector=LabelSelector({"no": "body"}))
    assert decide(pod_review(), (), [script]).allowed


def test_cluster_scoped_objects_match_every_namespace_selector_even_an_invalid_one() -> None:
    script = Script(NAME, Act.DENY, namespace_selector=UNUSABLE)
    assert "denied" not in message(
        decide(of_group("storage.k8s.io", "storageclasses", "StorageClass"), (), [script])
    )
    assert script.calls == 1


@pytest.mark.parametrize(
    ("operation", "subresource", "judged"),
    [
        (Operation.CREATE, "", "new"),
        (Operation.UPDATE, "", "new"),
        (Operation.DELETE, "", "stored"),
        (Operation.UPDATE, "finalize", "stored"),
    ],
)
def test_a_namespace_is_matched_by_its_new_labels_if_it_gets_any(
    operation: Operation, subresource: str, judged: str
) -> None:
    stored = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"is": "stored"}},
    }
    review = namespace_review(
        operation, {"is": "new"}, subresource=subresource, cluster=ObjectStore([stored])
    )
    scripts = [
        Script(f"{label}.example.com", namespace_selector=LabelSelector({"is": label}))
        for label in ("new", "stored")
    ]
    decide(review, (), scripts)
    assert [script.name for script in scripts if script.calls] == [f"{judged}.example.com"]


def test_a_missing_namespace_is_not_found_whatever_the_failure_policy() -> None:
    script = Script(NAME, failure_policy="Ignore", namespace_selector=LabelSelector({"a": "b"}))
    decision = decide(pod_review(cluster=ObjectStore()), [script])
    assert decision.status is not None
    assert (decision.status.code, decision.status.reason) == (404, "NotFound")


def test_no_validating_webhook_is_called_when_one_cannot_be_matched() -> None:
    before, broken = Script("a.example.com"), Script("b.example.com", object_selector=UNUSABLE)
    assert not decide(pod_review(), (), [before, broken]).allowed
    assert before.calls == 0


SPREAD: Any = {"status": {"phase": "Pending"}}


@pytest.mark.parametrize(("before", "after"), [(1, True), (True, 1), (1, 1.0)])
def test_values_that_only_python_considers_equal_are_changes(before: Any, after: Any) -> None:
    widget = POD | {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"x": before}}
    decision = decide(pod_review(widget), [Script(NAME, Act.CHANGE, widget | {"spec": {"x": after}})])
    assert decision.steps[0].outcome is OutcomeStatus.MUTATED
    assert repr(decision.object_document.data["spec"]["x"]) == repr(after)
    assert repr(apply_patch(widget, decision.patch)["spec"]) == repr({"x": after})


@pytest.mark.parametrize("becomes", [POD | {"kind": "Service"}, POD | {"apiVersion": "v2"}, [], "pod"])
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_patch_cannot_change_the_type_of_an_object(becomes: Any, policy: str) -> None:
    decision = decide(pod_review(), [Script(NAME, Act.CHANGE, becomes, failure_policy=policy)])
    assert decision.status is not None
    assert decision.status.code == 500
    assert decision.object_document.data == POD


LABELS_TYPE = "into Go struct field ObjectMeta.metadata.labels of type"


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("labels", "told"),
    [({"x": 1}, f"number {LABELS_TYPE} string"), ("x", f"string {LABELS_TYPE} map[string]string")],
)
def test_a_patch_that_changes_the_type_denies_and_ends_the_phase(labels: Any, told: str, policy: str) -> None:
    mistyped = POD | {"metadata": {"name": "one", "namespace": "default", "labels": labels}}
    changing, after = Script(NAME, Act.CHANGE, mistyped, failure_policy=policy), Script("b.example.com")
    decision = decide(pod_review(), [changing, after])
    assert decision.status is not None
    assert decision.status.code == 500
    assert message(decision) == f"Internal error occurred: json: cannot unmarshal {told}"
    assert (after.calls, decision.object_document.data) == (0, POD)


def test_unknown_fields_are_dropped_from_a_patched_object() -> None:
    decision = decide(pod_review(), [Script(NAME, Act.CHANGE, POD | SPREAD | {"nonsense": 1})])
    assert decision.object_document.data == POD | SPREAD
    decision = decide(pod_review(), [Script(NAME, Act.CHANGE, POD | {"nonsense": 1})])
    assert (decision.allowed, decision.patch) == (True, ())


def test_a_patch_can_omit_the_type() -> None:
    becomes = {key: value for key, value in POD.items() if key != "kind"} | SPREAD
    decision = decide(pod_review(), [Script(NAME, Act.CHANGE, becomes)])
    assert decision.object_document.data == POD | SPREAD


def test_an_internal_error_in_one_webhook_does_not_affect_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = Script("b.example.com", Act.DENY)
    with caplog.at_level(logging.ERROR):
        decision = decide(pod_review(), (), [Script(NAME, Act.CRASH), other])
    assert message(decision) == (
        "Internal error occurred: ValidatingAdmissionWebhook/a.example.com has panicked: RuntimeError"
    )
    assert other.calls == 1
    assert "secret" not in caplog.text
    assert "secret" not in repr(caplog.records[0].__dict__)


def test_an_internal_error_in_a_webhook_allows_under_ignore() -> None:
    decision = decide(pod_review(), (), [Script(NAME, Act.CRASH, failure_policy="Ignore")])
    assert decision.allowed
    assert decision.audit_annotations == {
        "failed-open.validating.webhook.admission.k8s.io/round_0_index_0": NAME
    }


def test_failing_open_is_annotated_with_the_index_among_matching_webhooks() -> None:
    others = Script("a.example.com", rule=rule("secrets"))
    open_one = Script("b.example.com", Act.BREAK_OFF, failure_policy="Ignore")
    validating = decide(pod_review(), (), [others, open_one]).audit_annotations
    assert "failed-open.validating.webhook.admission.k8s.io/round_0_index_0" in validating
    mutating = decide(pod_review(), [others, open_one]).audit_annotations
    assert mutating == {
        "mutation.webhook.admission.k8s.io/round_0_index_1": (
            '{"configuration":"scripted","webhook":"b.example.com","mutated":false}'
        ),
        "failed-open.mutation.webhook.admission.k8s.io/round_0_index_1": "b.example.com",
    }


def test_a_webhook_that_failed_open_is_reinvoked_like_any_other() -> None:
    failing = Script(NAME, Act.BREAK_OFF, failure_policy="Ignore", reinvocation_policy="IfNeeded")
    changing = Script("b.example.com", Act.CHANGE, POD | SPREAD)
    decision = decide(pod_review(), [failing, changing])
    assert decision.allowed
    assert failing.calls == 2


def test_a_skipped_webhook_is_not_called_first_in_the_second_round() -> None:
    waiting = Script(NAME, object_selector=LabelSelector({"x": "1"}), reinvocation_policy="IfNeeded")
    labelled = POD | {"metadata": POD["metadata"] | {"labels": {"x": "1"}}}  # type: ignore[operator]  # a dict
    changing = Script("b.example.com", Act.CHANGE, labelled, reinvocation_policy="IfNeeded")
    decide(pod_review(), [waiting, changing])
    assert waiting.calls == 0


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_dry_run_without_declared_side_effects_follows_the_failure_policy(policy: str) -> None:
    script = Script(NAME, failure_policy=policy, side_effects=None)
    for mutating, validating in (([script], []), ([], [script])):
        decision = decide(pod_review(dry_run=True), mutating, validating)
        assert decision.allowed is (policy == "Ignore")
        assert decision.steps[0].code == 400
        assert decision.steps[0].reason.endswith(
            'failed calling webhook "a.example.com": Webhook SideEffects is nil'
        )
    assert script.calls == 0


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_refused_dry_run_counts_as_the_chains_own_denial(policy: str) -> None:
    script = Script(NAME, failure_policy=policy, side_effects="Some")
    decision = decide(pod_review(dry_run=True), [script])
    assert decision.status is not None
    assert (decision.status.code, decision.steps[0].code) == (400, 0)
    annotations = {"mutation.webhook.admission.k8s.io/round_0_index_0"}
    assert decision.audit_annotations.keys() == annotations


@pytest.mark.parametrize("operation", [Operation.CONNECT, Operation.DELETE])
def test_mutating_webhooks_get_every_operation(operation: Operation) -> None:
    options = {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"]}
    document = Document.from_data(options) if operation is Operation.CONNECT else NULL
    review = msgspec.structs.replace(pod_review(), operation=operation, object_document=document)
    changing = Script(NAME, Act.CHANGE, options | {"stdin": True} if operation is Operation.CONNECT else None)
    decision = decide(review, [changing], phases=MUTATE)
    assert changing.calls == 1
    assert decision.object_document.data == changing.becomes


def test_denials_have_the_codes_of_their_webhooks() -> None:
    decision = decide(pod_review(), (), [Script(NAME, Act.DENY), Script("b.example.com", Act.TALK_NONSENSE)])
    assert [step.code for step in decision.steps] == [403, 503]


def test_each_phase_that_ran_has_its_duration() -> None:
    assert decide(pod_review()).phase_seconds.keys() == {Phase.MUTATE, Phase.VALIDATE}
    refused = decide(pod_review(), [Script(NAME, Act.DENY)])
    assert refused.phase_seconds.keys() == {Phase.MUTATE}
    assert refused.phase_seconds[Phase.MUTATE] > 0
