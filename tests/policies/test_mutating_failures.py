"""Mutating policies that cannot be evaluated or applied."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cel.costs import InlineBudget
from pratique.cel.errors import OutOfBudgetError, SlowEvaluationError
from pratique.cluster.store import ObjectStore
from pratique.policies.activation import UNLIMITED, EvaluationLimits, ReviewActivations
from pratique.policies.compilation import compile_policy
from pratique.policies.mutations import compile_mutations
from support.mutating_policies import (
    applied,
    bound,
    failure_messages,
    labelled,
    mutate,
    mutating,
    mutating_policies_of,
    patched,
)
from support.validating_policies import deployment, deployment_review, loaded, match_condition

BROKEN = labelled("a", "string(object.none)")
BROKEN_TEXT = (
    f"expression '{BROKEN['applyConfiguration']['expression']}' resulted in error: no such key: none"
)
GOOD = labelled("good", "'yes'")
CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


def test_a_failed_mutation_does_not_stop_those_after_it() -> None:
    found = mutate(mutating(GOOD, BROKEN, labelled("late", "'yes'")), bound())
    (decision,) = found.decisions
    assert (decision.outcome, decision.reason) == (OutcomeStatus.FAILED, BROKEN_TEXT)
    assert (decision.ran, decision.changed, found.dirty) == (True, True, True)
    assert found.document.data == deployment(labels={"good": "yes", "late": "yes"})
    assert failure_messages(found) == [f"policy 'p' with binding 'b' denied request: {BROKEN_TEXT}"]


def test_a_failure_uses_the_api_servers_words() -> None:
    status = mutate(mutating(BROKEN), bound()).refusal
    assert status is not None
    assert status.message == f"policy 'p' with binding 'b' denied request: {BROKEN_TEXT}"
    assert (status.code, status.reason) == (403, "Invalid")
    assert status.details is not None
    assert (status.details.name, status.details.group, status.details.kind) == ("web", "apps", "deployments")


def test_failures_pass_under_failure_policy_ignore() -> None:
    found = mutate(mutating(BROKEN, GOOD, failurePolicy="Ignore"), bound())
    (decision,) = found.decisions
    assert (decision.outcome, decision.reason) == (OutcomeStatus.FAILED_OPEN, BROKEN_TEXT)
    assert (found.refusal, found.document.data) == (None, deployment(labels={"good": "yes"}))


def test_every_failure_is_a_cause_and_the_first_is_the_message() -> None:
    documents = [
        mutating(BROKEN, BROKEN, name="p1"),
        mutating(BROKEN, name="p2", failurePolicy="Ignore"),
        mutating(GOOD, name="p3", matchConditions=match_condition("object.none == 1")),
        mutating(GOOD, name="p4", paramKind={"apiVersion": "v1", "kind": "Nothing"}),
        mutating(GOOD, name="p5", paramKind=CONFIG_MAPS),
        *(bound(f"p{place}", name=f"b{place}") for place in (1, 2, 3, 4)),
        bound("p5", name="b5", paramRef={"name": "none", "parameterNotFoundAction": "Deny"}),
    ]
    found = mutate(*documents)
    configuring = [
        (
            'policy "p4" denied request: failed to configure policy: failed to find resource referenced by '
            "paramKind: '/v1, Kind=Nothing'"
        ),
        (
            "policy 'p5' with binding 'b5' denied request: failed to configure binding: no params found for policy "
            "binding with `Deny` parameterNotFoundAction"
        ),
    ]
    # Misconfigured policies are found before the first one is invoked.
    assert failure_messages(found) == [
        *configuring,
        f"policy 'p1' with binding 'b1' denied request: {BROKEN_TEXT}",
        f"policy 'p1' with binding 'b1' denied request: {BROKEN_TEXT}",
        (
            "policy 'p3' with binding 'b3' denied request: expression 'object.none == 1' resulted in error: "
            "no such key: none"
        ),
    ]
    assert found.refusal is not None
    assert (found.refusal.message, found.refusal.reason) == (configuring[0], "Forbidden")
    assert [(decision.policy, decision.outcome.value, decision.ran) for decision in found.decisions] == [
        ("p1", "failed", True),
        ("p2", "failedOpen", True),
        ("p3", "failed", False),
        ("p4", "failed", False),
        ("p5", "failed", False),
    ]
    assert found.decisions[0].reason == BROKEN_TEXT


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_the_failure_policy_decides_failing_match_conditions(failure_policy: str) -> None:
    policy = mutating(GOOD, matchConditions=match_condition("object.none == 1"), failurePolicy=failure_policy)
    found = mutate(policy, bound(), explain=True)
    (decision,) = found.decisions
    assert found.document.data == deployment()
    if failure_policy == "Ignore":
        assert (decision.outcome, found.refusal) == (OutcomeStatus.SKIPPED, None)
        return
    assert decision.outcome is OutcomeStatus.FAILED
    assert found.refusal is not None
    assert (found.refusal.code, found.refusal.reason) == (403, "Invalid")


@pytest.mark.parametrize(
    ("mutation", "text"),
    [
        (
            applied("Object{spec: Object.spec{selector: Object.spec.wrong{}}}"),
            (
                'type mismatch: unexpected type name "Object.spec.wrong", expected "Object.spec.selector", which '
                "matches field name path from root Object type"
            ),
        ),
        (
            applied("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}"),
            (
                "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
                ".spec.selector"
            ),
        ),
        (
            patched('[JSONPatch{op: "remove", path: "/spec/nothing"}]'),
            (
                "JSON Patch: error in remove for path: '/spec/nothing': Unable to remove nonexistent key: nothing: "
                "missing value"
            ),
        ),
    ],
)
def test_the_failure_policy_decides_patches_that_cannot_be_applied(mutation: JSONObject, text: str) -> None:
    found = mutate(mutating(mutation), bound())
    assert failure_messages(found) == [f"policy 'p' with binding 'b' denied request: {text}"]
    assert mutate(mutating(mutation, failurePolicy="Ignore"), bound()).refusal is None


def internal(text: str) -> statuses.Status:
    return statuses.internal_error(text)


UNKNOWN = GroupVersionKind("stable.example.com", "v1", "Crontab")


@pytest.mark.parametrize(
    ("mutation", "request_of", "status"),
    [
        (
            patched('[JSONPatch{op: "add", path: "/spec/unknown", value: 1}]'),
            {},
            internal('strict decoding error: unknown field "spec.unknown"'),
        ),
        (
            patched('[JSONPatch{op: "add", path: "/metadata/labels", value: {"x": 1}}]'),
            {},
            internal(
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
            ),
        ),
        (
            patched('[JSONPatch{op: "replace", path: "/kind", value: "Other"}]'),
            {},
            internal("the patch changes the kind of the object"),
        ),
        (
            GOOD,
            {
                "kind": {"group": UNKNOWN.group, "version": "v1", "kind": "Crontab"},
                "resource": {"group": UNKNOWN.group, "version": "v1", "resource": "crontabs"},
            },
            statuses.service_unavailable(
                "Resource kind stable.example.com/v1, Kind=Crontab not found. There can be a delay between when "
                "CustomResourceDefinitions are created and when they are available."
            ),
        ),
    ],
)
def test_some_failures_deny_the_request_whatever_the_failure_policy(
    mutation: JSONObject, request_of: dict[str, Any], status: statuses.Status
) -> None:
    document = None
    if request_of:
        document = {"apiVersion": UNKNOWN.api_version, "kind": UNKNOWN.kind, "metadata": {"name": "web"}}
    documents = [
        mutating(
            BROKEN, name="p1", failurePolicy="Ignore", matchConditions=match_condition("has(object.spec)")
        ),
        mutating(mutation, name="p2", failurePolicy="Ignore"),
        mutating(GOOD, name="p3"),
        *(bound(name, name=name) for name in ("p1", "p2", "p3")),
    ]
    review = deployment_review(document, **request_of)
    found = mutate(*documents, review=review)
    assert found.refusal == status
    assert (found.dirty, found.document) == (False, review.object_document)
    last = found.decisions[-1]
    assert (last.policy, last.outcome, last.reason) == ("p2", OutcomeStatus.FAILED, status.message)


def test_a_missing_namespace_denies_the_request_whatever_policies_say() -> None:
    review = deployment_review(cluster=ObjectStore())
    found = mutate(mutating(GOOD, failurePolicy="Ignore"), bound(), review=review)
    assert found.refusal == statuses.not_found("", "namespaces", "shop")


EXEC = {"group": "", "version": "v1", "kind": "PodExecOptions"}
PODS = {"group": "", "version": "v1", "resource": "pods"}


def test_an_object_without_schema_can_be_patched_but_not_merged() -> None:
    document = {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"]}
    request: dict[str, Any] = {"operation": "CONNECT", "kind": EXEC, "resource": PODS, "subResource": "exec"}
    review = deployment_review(document, **request)
    patch = patched('[JSONPatch{op: "add", path: "/command/-", value: "-e"}]')
    assert mutate(mutating(patch), bound(), review=review).document.data["command"] == ["sh", "-e"]
    assert failure_messages(mutate(mutating(applied("Object{stdin: true}")), bound(), review=review)) == [
        (
            "policy 'p' with binding 'b' denied request: error applying patch: failed to convert patch object to typed "
            "object: no corresponding type for /v1, Kind=PodExecOptions"
        )
    ]


LISTS = "variables.list.all(x1, variables.list.all(x2, variables.list.all(x3, variables.list.all(x4, %s))))"
COSTLY = LISTS % LISTS.replace("%s", "'0123456789' == '0123456789'")
TENFOLD = [{"name": "list", "expression": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"}]


@pytest.mark.parametrize(
    "mutation",
    [
        applied(f"Object{{spec: Object.spec{{replicas: {COSTLY} ? 1 : 0}}}}"),
        patched(f'[JSONPatch{{op: "replace", path: "/spec/replicas", value: {COSTLY} ? 1 : 0}}]'),
    ],
)
def test_one_expression_may_cost_the_per_call_limit(mutation: JSONObject) -> None:
    (refusal,) = failure_messages(mutate(mutating(mutation, variables=TENFOLD), bound()))
    assert refusal.endswith("resulted in error: operation cancelled: actual cost limit exceeded")


def least_budget(expression: str, variable: str) -> int:
    """The least budget that suffices for a label with that value."""
    variables = [{"name": "name", "expression": variable}]
    (configured,) = loaded(mutating(labelled("name", expression), variables=variables)).mutating_policies
    policy, compiler = compile_policy(configured)
    (patcher,) = compile_mutations(policy.spec, compiler)
    assert patcher.budget == 10_000_000
    review = deployment_review()

    def fits(budget: int) -> bool:
        small = msgspec.structs.replace(patcher, budget=budget)
        try:
            small.patch(ReviewActivations(review, None), None, policy.variables, UNLIMITED, review.kind)
        except OutOfBudgetError:
            return False
        return True

    return next(budget for budget in range(1000) if fits(budget))


def test_the_cost_of_a_variable_is_charged_to_the_mutation_that_uses_it() -> None:
    name = "object.metadata.name"  # costs 3
    assert least_budget("variables.name", name) == least_budget("variables.name", "'web'") + 3
    assert least_budget("'web'", name) == least_budget("'web'", "'web'")


SLOW = "lists.range(300).all(i, lists.range(300).all(j, i + j >= 0))"


@pytest.mark.parametrize(
    "policy",
    [
        mutating(GOOD, labelled("slow", f"string({SLOW})")),
        mutating(GOOD, matchConditions=match_condition(SLOW)),
        mutating(
            labelled("slow", "string(variables.slow)"), variables=[{"name": "slow", "expression": SLOW}]
        ),
    ],
)
def test_a_slow_evaluation_can_be_repeated_with_a_larger_inline_budget(policy: JSONObject) -> None:
    policies, review = mutating_policies_of(policy, bound()), deployment_review()
    with pytest.raises(SlowEvaluationError):
        policies.admit(review, EvaluationLimits(inline_budget=InlineBudget(10_000, 10_000)))
    found = policies.admit(review, EvaluationLimits(inline_budget=InlineBudget(10_000_000, 10_000_000)))
    assert found.document == policies.admit(review).document
    assert found.dirty


def test_an_evaluation_ends_at_the_reviews_deadline() -> None:
    mutation = labelled("slow", f"string({SLOW})")
    (refusal,) = failure_messages(
        mutate(mutating(mutation), bound(), limits=EvaluationLimits(until=time.monotonic() - 1))
    )
    assert refusal.endswith("resulted in error: operation interrupted")
