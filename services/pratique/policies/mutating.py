"""MutatingAdmissionPolicy: evaluate all bound policies and apply their mutations to the object of a review.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go``.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Awaitable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

from pratique.admission.results import Allow, Answer, Deny, OutcomeStatus, Patch, PolicyOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.diff import diff
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.requests import Operation
from pratique.cel.errors import EvaluationError, OutOfBudgetError, SlowEvaluationError
from pratique.cluster.conversion import without_conversion_webhooks
from pratique.configuration.admissionregistration import (
    MutatingAdmissionPolicySpec,
    PolicyBindingSpec,
    PolicyConfiguration,
)
from pratique.policies.activation import (
    UNLIMITED,
    EvaluationLimits,
    ReviewActivations,
    answer_within_limits,
)
from pratique.policies.allow_lists import NO_ALLOW_LISTS, AllowLists
from pratique.policies.compilation import (
    PolicyHook,
    PolicyHooks,
    compile_bindings,
    compile_policy,
    evaluate_match_conditions,
)
from pratique.policies.dispatcher import Dispatch, Invocation, Misconfigured, PolicyDispatcher, Unmatched
from pratique.policies.exceptions import NO_EXEMPTIONS, Exemptions, exemption_annotation
from pratique.policies.mutating_decisions import (
    MutatingPoliciesDecision,
    MutatingPolicyDecision,
    MutatingPolicyDecisionBuilder,
    PolicyFailure,
    refusal_status,
)
from pratique.policies.mutations import MutatedObjects, Patcher, PolicyPatchError, compile_mutations
from pratique.policies.policy_spans import bindings_of
from pratique.policies.rollouts import NO_ROLLOUTS, Rollouts
from pratique.telemetry.policy_metrics import (
    INVALID_ERROR,
    NO_ERROR,
    OUT_OF_BUDGET,
    PolicyCheck,
    PolicyCheckMetrics,
)

_NOT_REINVOKED = "nothing changed after it that asks for it again"


_Hook: TypeAlias = PolicyHook[MutatingAdmissionPolicySpec, PolicyBindingSpec, "tuple[Patcher, ...]"]


class MutatingPolicies:
    """All bound MutatingAdmissionPolicies, in the order of their evaluation."""

    def __init__(
        self,
        policies: Iterable[PolicyConfiguration[MutatingAdmissionPolicySpec]],
        bindings: Iterable[PolicyConfiguration[PolicyBindingSpec]],
        exemptions: Exemptions = NO_EXEMPTIONS,
        rollouts: Rollouts = NO_ROLLOUTS,
        allow_lists: AllowLists = NO_ALLOW_LISTS,
    ) -> None:
        """Compile policies. Unbound policies and bindings without a policy have no effect.

        Raises:
            CompilationError: an expression does not compile; loading reports that before.
        """
        binding_list = list(bindings)
        self._hooks = PolicyHooks(
            _compile(policy, binding_list, exemptions, rollouts, allow_lists) for policy in policies
        )

    def __bool__(self) -> bool:
        """False if there are no bound policies."""
        return bool(self._hooks)

    def admit(
        self,
        review: Review,
        limits: EvaluationLimits = UNLIMITED,
        *,
        again: Collection[str] | None = None,
        explain: bool = False,
    ) -> MutatingPoliciesDecision:
        """Evaluate all policies, one after another, each on the result of those before it; ask no conversion webhook.

        Nothing is changed in place.

        Args:
            review: The review; its cluster holds Namespaces and parameters, and expressions use its authorizer.
            limits: The limits of the evaluation.
            again: The keys of the invocations to run in the second round; None in the first, which runs all.
            explain: Include policies and bindings that do nothing for the request.

        Raises:
            SlowEvaluationError: it exceeds the inline budget.
        """
        run = self.begin(review, again=again, explain=explain)
        return without_conversion_webhooks(lambda: run.admit(limits))

    def begin(
        self, review: Review, *, again: Collection[str] | None = None, explain: bool = False
    ) -> MutatingPoliciesRun:
        """Begin an evaluation that you can continue where it exceeds its limits; the arguments are :meth:`admit`'s."""
        is_object_written = review.operation is not Operation.DELETE
        found = self._hooks.candidates(review, explain=explain) if self._hooks and is_object_written else ()
        return MutatingPoliciesRun(review, found, again, explain=explain)


def _compile(
    configured: PolicyConfiguration[MutatingAdmissionPolicySpec],
    bindings: Sequence[PolicyConfiguration[PolicyBindingSpec]],
    exemptions: Exemptions,
    rollouts: Rollouts,
    allow_lists: AllowLists,
) -> _Hook:
    policy, compiler = compile_policy(configured, rollouts)
    bound = compile_bindings(bindings_of(configured, bindings), exemptions, rollouts, allow_lists)
    return PolicyHook(policy, bound, compile_mutations(policy.spec, compiler))


class MutatingPoliciesRun:
    """The evaluation of policies for one review."""

    def __init__(
        self,
        review: Review,
        hooks: Sequence[_Hook],
        again: Collection[str] | None,
        *,
        explain: bool,
    ) -> None:
        """Evaluate nothing yet."""
        self._dispatcher = PolicyDispatcher(review, mutates=True)
        self._hooks = hooks
        self._limits = UNLIMITED
        self._again = again
        self._explain = explain
        self._dispatches: list[tuple[_Hook, Dispatch[PolicyBindingSpec]]] | None = None
        self._handled = 0
        self._objects = MutatedObjects()
        self._decisions: list[MutatingPolicyDecision] = []
        self._misconfigurations: list[PolicyFailure] = []
        self._failures: list[PolicyFailure] = []
        self._checks: list[PolicyCheck] = []
        self._annotations: dict[str, str] = {}

    def admit(self, limits: EvaluationLimits) -> MutatingPoliciesDecision:
        """Evaluate the policies that have not been evaluated yet. Gives the decisions of all.

        Raises:
            SlowEvaluationError: the next policy exceeds the inline budget. Call this again with a larger one to
                continue.
            PendingConversionError: a webhook has to convert an object first. Call this again afterwards.
        """
        review = self._dispatcher.review
        if not self._hooks:
            return MutatingPoliciesDecision(review.object_document)
        self._limits = limits
        try:
            self._handle_all(limits)
        except RefusalError as error:
            return MutatingPoliciesDecision(
                review.object_document,
                tuple(self._decisions),
                refusal=error.status,
                checks=tuple(self._checks),
                audit_annotations=self._annotations,
            )
        document, dirty = self._objects.result(review)
        failures = (*self._misconfigurations, *self._failures)
        return MutatingPoliciesDecision(
            document,
            tuple(self._decisions),
            self._operations(),
            dirty,
            refusal_status(review.with_object(document), failures) if failures else None,
            tuple(self._checks),
            self._annotations,
        )

    def _handle_all(self, limits: EvaluationLimits) -> None:
        if self._dispatches is None:
            # All policies are matched before the first runs, so that no mutation changes which policies match.
            self._dispatches = [
                (hook, dispatch)
                for hook in self._hooks
                for dispatch in self._dispatcher.dispatch(hook.policy, hook.bindings)
            ]
        for hook, dispatch in self._dispatches[self._handled :]:
            limits.begin_invocation()
            self._handle_completely(hook, dispatch)
            self._handled += 1

    def _handle_completely(self, hook: _Hook, dispatch: Dispatch[PolicyBindingSpec]) -> None:
        """Handle a policy; if it is too slow, nothing is recorded or mutated."""
        handle = self._handle_in_shadow if self._is_in_shadow(hook, dispatch) else self._handle
        records: tuple[list[Any], ...] = (
            self._decisions,
            self._misconfigurations,
            self._failures,
            self._checks,
        )
        lengths, objects = tuple(map(len, records)), self._objects.copy()
        try:
            handle(hook, dispatch)
        except SlowEvaluationError:
            for record, length in zip(records, lengths, strict=True):
                del record[length:]
            self._objects = objects
            raise

    def _is_in_shadow(self, hook: _Hook, dispatch: Dispatch[PolicyBindingSpec]) -> bool:
        rollout = hook.policy.rollout if dispatch.binding is None else dispatch.binding.rollout
        return rollout is not None and rollout.in_shadow(self._dispatcher.review)

    def _handle_in_shadow(self, hook: _Hook, dispatch: Dispatch[PolicyBindingSpec]) -> None:
        """Handle a policy in the first round, and keep nothing of it but its decisions."""
        if self._again is not None and not isinstance(dispatch, Unmatched):
            return
        records: tuple[list[Any], ...] = (self._misconfigurations, self._failures, self._checks)
        lengths, objects, first = tuple(map(len, records)), self._objects, len(self._decisions)
        self._objects = objects.copy()
        with contextlib.suppress(RefusalError):  # it is in the decision
            self._handle(hook, dispatch)
        self._objects = objects
        for record, length in zip(records, lengths, strict=True):
            del record[length:]
        self._decisions[first:] = [decision.shadowed() for decision in self._decisions[first:]]

    def _operations(self) -> tuple[JSONObject, ...] | None:
        """The patch of the only policy that changed the object, if it matched in the request's version."""
        changes = [decision.operations for decision in self._decisions if decision.changed]
        if len(changes) != 1 or not self._objects.are_only_of(self._dispatcher.review.resource):
            return None
        return changes[0]

    def _handle(self, hook: _Hook, dispatch: Dispatch[PolicyBindingSpec]) -> None:
        builder = MutatingPolicyDecisionBuilder(hook.policy, dispatch.binding)
        match dispatch:
            case Unmatched(binding, reason, is_exempted):
                if is_exempted and binding is not None:
                    self._annotations |= exemption_annotation(reason, hook.policy.name, binding.name)
                self._record(builder.skip(reason))
            case Misconfigured():
                self._record(builder.misconfigured(dispatch.text))
                self._misconfigurations += builder.failures
            case Invocation():
                for params in dispatch.params:
                    self._invoke(hook, dispatch, params)

    def _invoke(self, hook: _Hook, dispatch: Invocation[PolicyBindingSpec], params: JSON) -> None:
        builder = MutatingPolicyDecisionBuilder(hook.policy, dispatch.binding, params)
        match = evaluate_match_conditions(
            hook.policy, self._objects.current(dispatch.activations), params, self._limits
        )
        if match.error:
            self._record(builder.conditions_failed(match.error))
        elif match.exclusion:
            self._record(builder.skip(match.exclusion))
        elif self._again is not None and builder.key not in self._again:
            self._record(builder.skip(_NOT_REINVOKED))
        else:
            self._mutate(hook, dispatch, params, builder)
        self._failures += builder.failures

    def _mutate(
        self,
        hook: _Hook,
        dispatch: Invocation[PolicyBindingSpec],
        params: JSON,
        builder: MutatingPolicyDecisionBuilder,
    ) -> None:
        original, objects = dispatch.activations, self._objects.copy()
        before = self._objects.current(original).review.object_document
        changes: list[Sequence[JSONObject] | None] = []
        try:
            for patcher in hook.evaluator:
                self._objects.mark_attempted(original)
                if not before.is_null:
                    changes.append(self._patch(patcher, hook, original, params, builder))
        except RefusalError as error:
            self._record(builder.refuse(error.status))
            raise
        after = self._objects.current(original).review.object_document
        allow_list = dispatch.binding.allow_list
        restriction = None if allow_list is None else allow_list.restrict(before.data, after.data)
        if allow_list is None or restriction is None or not restriction.paths:
            self._record(builder.conclude(_compose(changes, before, after)))
        elif allow_list.drops:
            self._objects.replace_object(original, restriction.object)
            operations = tuple(diff(before.data, restriction.object))
            self._record(builder.conclude(operations, allow_list.told(restriction.paths)))
        else:
            self._objects = objects
            builder.fail(allow_list.told(restriction.paths))
            self._record(builder.conclude(()))

    def _patch(
        self,
        patcher: Patcher,
        hook: _Hook,
        original: ReviewActivations,
        params: JSON,
        builder: MutatingPolicyDecisionBuilder,
    ) -> Sequence[JSONObject] | None:
        """Apply a mutation. Gives its operations, as :meth:`Patcher.patch` does; none if it failed."""
        activations, requested_kind = self._objects.current(original), self._dispatcher.review.kind
        started, error_type = time.perf_counter(), NO_ERROR
        try:
            patched, operations = patcher.patch(
                activations, params, hook.policy.variables, self._limits, requested_kind
            )
        except (PolicyPatchError, EvaluationError, OutOfBudgetError) as error:
            error_type = OUT_OF_BUDGET if isinstance(error, OutOfBudgetError) else INVALID_ERROR
            builder.fail(str(error))
            return ()
        except RefusalError:
            error_type = INVALID_ERROR
            raise
        else:
            self._objects.replace_object(original, patched)
            return operations
        finally:
            self._checks.append(builder.check(error_type, time.perf_counter() - started))

    def _record(self, decision: MutatingPolicyDecision) -> None:
        if self._explain or decision.outcome is not OutcomeStatus.SKIPPED:
            self._decisions.append(decision)


def _compose(
    changes: Iterable[Sequence[JSONObject] | None], before: Document, after: Document
) -> tuple[JSONObject, ...]:
    """The JSON Patch of mutations together: that of the only one that changed the object, or what a diff finds."""
    changing = [operations for operations in changes if operations is None or operations]
    if not changing:
        return ()
    only = changing[0] if len(changing) == 1 else None
    return tuple(diff(before.data, after.data) if only is None else only)


def mutate(
    policies: MutatingPolicies, review: Review, checks: PolicyCheckMetrics | None = None
) -> Answer | Awaitable[Answer]:
    """Let mutating policies change the object of a review, and count their checks in ``checks``."""
    run = policies.begin(review, again=review.only, explain=review.explain)
    return answer_within_limits(functools.partial(_mutate, run, review, checks), review)


def _mutate(
    run: MutatingPoliciesRun, review: Review, checks: PolicyCheckMetrics | None, limits: EvaluationLimits
) -> Answer:
    decided = run.admit(limits)
    if checks is not None and decided.checks:
        checks.observe(decided.checks)
    outcomes = tuple(_policy_outcome(decision, decided) for decision in decided.decisions)
    if decided.refusal is not None:
        return Deny(decided.refusal, audit_annotations=decided.audit_annotations, policy_outcomes=outcomes)
    if decided.document is review.object_document:
        return Allow(audit_annotations=decided.audit_annotations, policy_outcomes=outcomes)
    changed = decided.document.data
    operations = decided.operations
    if operations is None:
        operations = tuple(diff(review.object, changed))
    return Patch(operations, changed, audit_annotations=decided.audit_annotations, policy_outcomes=outcomes)


def _policy_outcome(decision: MutatingPolicyDecision, decided: MutatingPoliciesDecision) -> PolicyOutcome:
    return PolicyOutcome(
        name=decision.policy,
        configuration=decision.binding,
        status=decision.outcome,
        reason=decision.reason,
        operations=decision.operations,
        key=decision.key if decision.ran else "",
        reinvocable=decision.reinvocable,
        applied=decision.ran and decided.dirty,
        duration_seconds=decision.seconds,
    )
