"""Properties of every chain, whatever its webhooks do."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.rules import EVERYTHING as EVERY_REQUEST
from pratique.admission.rules import rule
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.selectors import EVERYTHING, LabelSelector
from pratique.configuration.loading import load_configurations
from support.chains import pod_review
from support.scripted_webhooks import FAILING, Act, Script, decide
from support.strategies.json_values import KEYS, SCALARS

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
SPECS = st.dictionaries(KEYS, SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
CHANGING = st.sampled_from([Act.CHANGE, Act.CHANGE, Act.CHANGE, Act.ALLOW, Act.BREAK_OFF])
ANSWERING = st.sampled_from([act for act in Act if act is not Act.CRASH])


def pods() -> st.SearchStrategy[JSONObject]:
    """Pods with labels that selectors look for, and any fields."""
    metadata = st.fixed_dictionaries({"name": st.just("web"), "labels": LABELS})
    fixed = {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": metadata}
    return st.fixed_dictionaries(fixed, optional={"spec": SPECS})


def selectors() -> st.SearchStrategy[LabelSelector]:
    return st.just(EVERYTHING) | LABELS.map(LabelSelector)


@st.composite
def scripts(draw: st.DrawFn, acts: st.SearchStrategy[Act] = ANSWERING) -> list[Script]:
    """Webhooks of different names that want this or that, and do anything."""
    chosen = draw(st.lists(acts, max_size=5))
    return [
        Script(
            name=f"w{number}.example.com",
            act=act,
            becomes=draw(pods()) if act is Act.CHANGE else None,
            failure_policy=draw(st.sampled_from(["Fail", "Ignore"])),
            rule=draw(st.sampled_from([EVERY_REQUEST, rule("pods"), rule("secrets")])),
            object_selector=draw(selectors()),
            namespace_selector=draw(selectors()),
            reinvocation_policy=draw(st.sampled_from(["IfNeeded", "Never"])),
        )
        for number, act in enumerate(chosen)
    ]


def canonical(value: JSON) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


@given(pods(), scripts(CHANGING))
def test_the_composed_patch_turns_the_received_object_into_the_final_one(
    pod: JSONObject, mutating: list[Script]
) -> None:
    decision = decide(pod_review(pod), mutating)
    event(f"{len(decision.patch)} operations, allowed {decision.allowed}")
    assert canonical(apply_patch(pod, decision.patch)) == canonical(decision.object_document.data)


@given(pods(), scripts(), scripts())
def test_no_failure_under_fail_is_ever_allowed(
    pod: JSONObject, mutating: list[Script], validating: list[Script]
) -> None:
    decision = decide(pod_review(pod), mutating, validating)
    called = [item for item in (*mutating, *validating) if item.calls]
    fatal = [item for item in called if item.act in FAILING and item.failure_policy == "Fail"]
    denying = [item for item in called if item.act is Act.DENY]
    event(f"fatal {bool(fatal)}, allowed {decision.allowed}")
    assert not (fatal and decision.allowed)
    assert decision.allowed is not bool(fatal or denying)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("act", [*FAILING, Act.CRASH])
def test_no_kind_of_failure_allows_a_request_under_fail(act: Act, phase: Phase) -> None:
    script = [Script("a.example.com", act)]
    mutating, validating = (script, []) if phase is Phase.MUTATE else ([], script)
    if act is Act.CRASH and phase is Phase.MUTATE:
        # As a panic in the API server's mutating phase, it ends the request as a whole.
        with pytest.raises(RuntimeError):
            decide(pod_review(), mutating, validating)
        return
    decision = decide(pod_review(), mutating, validating)
    assert not decision.allowed
    assert decision.status is not None
    assert decision.status.code == 500


@given(pods(), scripts(), st.randoms(use_true_random=False))
def test_skipped_webhooks_do_not_depend_on_the_order(
    pod: JSONObject, validating: list[Script], random: JSON
) -> None:
    def skipped(order: list[Script]) -> dict[str, str]:
        steps = decide(pod_review(pod), (), order, explain=True).steps
        return {step.name: step.reason for step in steps if step.outcome is OutcomeStatus.SKIPPED}

    shuffled = random.sample(validating, len(validating))
    assert skipped(validating) == skipped(shuffled)


@given(pods(), scripts(st.just(Act.ALLOW)), st.randoms(use_true_random=False))
def test_skipped_mutating_webhooks_do_not_depend_on_the_order(
    pod: JSONObject, mutating: list[Script], random: JSON
) -> None:
    def called(order: list[Script]) -> dict[str, int]:
        for item in order:
            item.calls = 0
        decide(pod_review(pod), order)
        return {item.name: item.calls for item in order}

    assert called(mutating) == called(random.sample(mutating, len(mutating)))


def document(name: str) -> JSONObject:
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": "https://localhost/"},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


@given(st.permutations(["alpha", "beta", "gamma", "delta"]))
def test_the_calling_order_does_not_depend_on_the_order_of_files(order: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for place, name in enumerate(order):
            (Path(folder) / f"{place}.json").write_text(json.dumps(document(name)))
        loaded = load_configurations([folder]).mutating
    assert [item.name for item in loaded] == ["alpha", "beta", "delta", "gamma"]
