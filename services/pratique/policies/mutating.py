"""MutatingAdmissionPolicy: evaluate all bound policies and apply their mutations to the object of a review.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go``.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails, aggregate
from pratique.cel.errors import EvaluationError, OutOfBudgetError
from pratique.configuration.admissionregistration import (
    MutatingAdmissionPolicySpec,
    PolicyBindingSpec,
    PolicyConfiguration,
)
from pratique.policies.activation import UNLIMITED, EvaluationLimits, ReviewActivations
from pratique.policies.compilation import Binding, Policy, PolicyHooks, compile_bindings, compile_policy
from pratique.policies.dispatcher import Dispatch, Invocation, Misconfigured, PolicyDispatcher, Unmatched
from pratique.policies.mutations import MutatedObjects, Patcher, PolicyPatchError, compile_mutations
from pratique.policies.validating import evaluate_match_conditions
from pratique.telemetry.policy_metrics import INVALID_ERROR, NO_ERROR, OUT_OF_BUDGET, PolicyCheck


@dataclasses.dataclass(frozen=True, slots=True)
class MutatingPolicyDecision:
    """The decision of one policy through one binding with one parameter."""

    policy: str
    binding: str
    """Empty if the decision does not depend on a binding."""
    key: str
    """Identifies the invocation among all invocations for the request."""
    outcome: OutcomeStatus
    reason: str = ""
    """Why it was skipped or failed."""
    operations: tuple[JSONObject, ...] = ()
    """A JSON Patch from the object before to the object after its mutations."""
    ran: bool = False
    """Whether it counts as invoked, even if every mutation failed."""
    reinvocable: bool = False
    """Whether later changes cause another invocation: ``reinvocationPolicy: IfNeeded``."""
    seconds: float = 0.0
    """How long it took, in seconds."""

    @property
    def changed(self) -> bool:
        """Whether it changed the object; earlier reinvocable policies are then invoked again."""
        return bool(self.operations)


@dataclasses.dataclass(frozen=True, slots=True)
class MutatingPoliciesDecision:
    """The decisions of all policies and the mutated object."""

    document: Document
    """The mutated object; the one received if nothing changed, or if the request is denied whatever the failure
    policy."""
    decisions: tuple[MutatingPolicyDecision, ...] = ()
    """In the order of invocation; skipped ones only with ``explain``."""
    operations: tuple[JSONObject, ...] | None = None
    """The JSON Patch of all mutations together, if one policy made them all; None if a diff must find it."""
    dirty: bool = False
    """Whether any mutation was applied, even without effect: reinvocable policies are then invoked again."""
    refusal: Status | None = None
    """Why the request is denied; None if it goes on."""
    checks: tuple[PolicyCheck, ...] = ()
    """The checks to count in metrics."""


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyFailure:
    """The failure of a policy under failure policy ``Fail``, which denies the request."""

    policy: str
    binding: str
    """Empty if the failure does not depend on a binding."""
    text: str
    reason: str = ""
    """The reason of the Status; empty if the policy or binding is misconfigured."""

    @property
    def message(self) -> str:
        """The message for the user."""
        if self.binding:
            return f"policy '{self.policy}' with binding '{self.binding}' denied request: {self.text}"
        return f"policy {statuses.go_quoted(self.policy)} denied request: {self.text}"


def refusal_status(review: Review, failures: Sequence[PolicyFailure]) -> Status | None:
    """Make one Status of all failures: the first is the message, and all are causes. None without failures."""
    if not failures:
        return None
    first = failures[0]
    status = statuses.admission_forbidden(review, "admission request denied by policy")
    details = status.details or StatusDetails()
    causes = (*details.causes, *(StatusCause(message=failure.message) for failure in failures))
    return replace(
        status,
        message=first.message,
        reason=first.reason or status.reason,
        details=replace(details, causes=causes),
    )


def invocation_key(policy: str, binding: str, params: JSON) -> str:
    """The key of an invocation: ``keyFor`` in ``…/policy/mutating/dispatcher.go``. Names contain no slashes."""
    metadata = params.get("metadata") or {} if isinstance(params, dict) else {}
    return f"{policy}/{binding}/{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


_INVALID = "Invalid"


class MutatingPolicyDecisionBuilder:
    """Builds the decision of one invocation. Its time runs from its construction."""

    def __init__(
        self,
        policy: Policy[MutatingAdmissionPolicySpec],
        binding: Binding[PolicyBindingSpec] | None,
        params: JSON = None,
    ) -> None:
        """Begin without failures."""
        self._begun = time.perf_counter()
        self._fails_open = policy.spec.fails_open
        name = binding.name if binding else ""
        self._judgement = MutatingPolicyDecision(
            policy.name,
            name,
            invocation_key(policy.name, name, params),
            OutcomeStatus.UNCHANGED,
            reinvocable=policy.spec.reinvocation_policy == "IfNeeded",
        )
        self._texts: list[str] = []
        self.failures: list[PolicyFailure] = []
        """The failures that deny the request."""

    @property
    def key(self) -> str:
        """Identifies the invocation among all invocations for the request."""
        return self._judgement.key

    def skip(self, reason: str) -> MutatingPolicyDecision:
        """Decide that the policy does nothing for the request."""
        return self._concluded(OutcomeStatus.SKIPPED, reason=reason)

    def misconfigured(self, text: str) -> MutatingPolicyDecision:
        """Decide about a misconfigured policy or binding by the failure policy."""
        self._fail(text, "")
        return self._failed()

    def conditions_failed(self, text: str) -> MutatingPolicyDecision:
        """Decide about failed match conditions by the failure policy."""
        self._fail(text, _INVALID)
        return self._failed()

    def fail(self, text: str) -> None:
        """Record that a mutation failed. Later mutations still run."""
        self._fail(text, _INVALID)

    def refuse(self, status: Status) -> MutatingPolicyDecision:
        """Decide that the request is denied, whatever the failure policy."""
        return self._concluded(OutcomeStatus.FAILED, reason=status.message, ran=True)

    def conclude(self, before: Document, after: Document) -> MutatingPolicyDecision:
        """Decide after all mutations have been attempted."""
        operations = () if after is before else tuple(diff(before.data, after.data))
        judged = dataclasses.replace(self._judgement, operations=operations, ran=True)
        self._judgement = judged
        if self._texts:
            return self._failed()
        return self._concluded(OutcomeStatus.MUTATED if operations else OutcomeStatus.UNCHANGED)

    def check(self, error_type: str, seconds: float) -> PolicyCheck:
        """The check to count for one mutation: ``dispatchInvocations`` counts every mutation."""
        return PolicyCheck(self._judgement.policy, self._judgement.binding, error_type, seconds)

    def _fail(self, text: str, reason: str) -> None:
        self._texts.append(text)
        if not self._fails_open:
            self.failures.append(PolicyFailure(self._judgement.policy, self._judgement.binding, text, reason))

    def _failed(self) -> MutatingPolicyDecision:
        outcome = OutcomeStatus.FAILED_OPEN if self._fails_open else OutcomeStatus.FAILED
        return self._concluded(outcome, reason=aggregate(self._texts))

    def _concluded(
        self, outcome: OutcomeStatus, *, reason: str = "", ran: bool | None = None
    ) -> MutatingPolicyDecision:
        judged = self._judgement
        return dataclasses.replace(
            judged,
            outcome=outcome,
            reason=reason,
            ran=judged.ran if ran is None else ran,
            seconds=time.perf_counter() - self._begun,
        )


_NOT_AGAIN = "nothing changed after it that asks for it again"


@dataclasses.dataclass(frozen=True, slots=True)
class _Hook:
    """A policy with its mutations and bindings."""

    policy: Policy[MutatingAdmissionPolicySpec]
    patchers: tuple[Patcher, ...]
    bindings: tuple[Binding[PolicyBindingSpec], ...]


class MutatingPolicies:
    """All bound MutatingAdmissionPolicies, in the order of their evaluation."""

    def __init__(
        self,
        policies: Iterable[PolicyConfiguration[MutatingAdmissionPolicySpec]],
        bindings: Iterable[PolicyConfiguration[PolicyBindingSpec]],
    ) -> None:
        """Compile policies. Unbound policies and bindings without a policy have no effect.

        Raises:
            CompilationError: an expression does not compile; loading reports that before.
        """
        binding_list = list(bindings)
        hooks = (_hook(policy, binding_list) for policy in policies)
        self._hooks = PolicyHooks(hook for hook in hooks if hook.bindings)

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
        """Evaluate all policies, one after another, each on the result of those before it.

        Nothing is changed in place, so that you can repeat a slow evaluation with a larger inline budget.

        Args:
            review: The review; its cluster holds Namespaces and parameters, and expressions use its authorizer.
            limits: The limits of the evaluation.
            again: The keys of the invocations to run in the second round; None in the first, which runs all.
            explain: Include policies and bindings that do nothing for the request.

        Raises:
            SlowEvaluationError: it exceeds the inline budget.
        """
        if not self._hooks or review.operation is Operation.DELETE:
            return MutatingPoliciesDecision(review.object_document)
        run = _Run(review, limits, again, explain=explain)
        return run.admit(self._hooks.of(review, explain=explain))


def _hook(
    configured: PolicyConfiguration[MutatingAdmissionPolicySpec],
    bindings: Sequence[PolicyConfiguration[PolicyBindingSpec]],
) -> _Hook:
    policy, compiler = compile_policy(configured)
    return _Hook(policy, compile_mutations(policy.spec, compiler), compile_bindings(policy, bindings))


class _Run:
    """The evaluation of all policies for one review."""

    def __init__(
        self, review: Review, limits: EvaluationLimits, again: Collection[str] | None, *, explain: bool
    ) -> None:
        self._dispatcher = PolicyDispatcher(review, mutates=True)
        self._limits = limits
        self._again = again
        self._explain = explain
        self._objects = MutatedObjects()
        self._judgements: list[MutatingPolicyDecision] = []
        self._missets: list[PolicyFailure] = []
        self._failures: list[PolicyFailure] = []
        self._checks: list[PolicyCheck] = []

    def admit(self, hooks: Iterable[_Hook]) -> MutatingPoliciesDecision:
        review = self._dispatcher.review
        try:
            # All policies are matched before the first runs, so that no mutation changes which policies match.
            steps = [
                (hook, step)
                for hook in hooks
                for step in self._dispatcher.invocations(hook.policy, hook.bindings)
            ]
            for hook, step in steps:
                self._take(hook, step)
        except RefusalError as error:
            return MutatingPoliciesDecision(
                review.object_document,
                tuple(self._judgements),
                refusal=error.status,
                checks=tuple(self._checks),
            )
        document, dirty = self._objects.outcome(review)
        failures = (*self._missets, *self._failures)
        return MutatingPoliciesDecision(
            document,
            tuple(self._judgements),
            self._operations(),
            dirty,
            refusal_status(review.with_object(document), failures) if failures else None,
            tuple(self._checks),
        )

    def _operations(self) -> tuple[JSONObject, ...] | None:
        """The patch of the only policy that changed the object, if it matched in the request's version."""
        changes = [decision.operations for decision in self._judgements if decision.changed]
        if len(changes) != 1 or not self._objects.are_only_of(self._dispatcher.review.resource):
            return None
        return changes[0]

    def _take(self, hook: _Hook, step: Dispatch[PolicyBindingSpec]) -> None:
        judging = MutatingPolicyDecisionBuilder(hook.policy, step.binding)
        match step:
            case Unmatched(reason=reason):
                self._note(judging.skip(reason))
            case Misconfigured():
                self._note(judging.misconfigured(step.text))
                self._missets += judging.failures
            case Invocation():
                for params in step.params:
                    self._invoke(hook, step, params)

    def _invoke(self, hook: _Hook, step: Invocation[PolicyBindingSpec], params: JSON) -> None:
        judging = MutatingPolicyDecisionBuilder(hook.policy, step.binding, params)
        conditions = evaluate_match_conditions(
            hook.policy, self._objects.now(step.activations), params, self._limits
        )
        if conditions.error:
            self._note(judging.conditions_failed(conditions.error))
        elif conditions.unmet:
            self._note(judging.skip(conditions.unmet))
        elif self._again is not None and judging.key not in self._again:
            self._note(judging.skip(_NOT_AGAIN))
        else:
            self._mutate(hook, step.activations, params, judging)
        self._failures += judging.failures

    def _mutate(
        self, hook: _Hook, original: ReviewActivations, params: JSON, judging: MutatingPolicyDecisionBuilder
    ) -> None:
        before = self._objects.now(original).review.object_document
        try:
            for patcher in hook.patchers:
                self._objects.touch(original)
                if not before.is_null:
                    self._patch(patcher, hook, original, params, judging)
        except RefusalError as error:
            self._note(judging.refuse(error.status))
            raise
        self._note(judging.conclude(before, self._objects.now(original).review.object_document))

    def _patch(
        self,
        patcher: Patcher,
        hook: _Hook,
        original: ReviewActivations,
        params: JSON,
        judging: MutatingPolicyDecisionBuilder,
    ) -> None:
        activations, requested_kind = self._objects.now(original), self._dispatcher.review.kind
        started, error_type = time.perf_counter(), NO_ERROR
        try:
            patched = patcher.patch(activations, params, hook.policy.variables, self._limits, requested_kind)
        except (PolicyPatchError, EvaluationError, OutOfBudgetError) as error:
            error_type = OUT_OF_BUDGET if isinstance(error, OutOfBudgetError) else INVALID_ERROR
            judging.fail(str(error))
        except RefusalError:
            error_type = INVALID_ERROR
            raise
        else:
            self._objects.change(original, patched)
        finally:
            self._checks.append(judging.check(error_type, time.perf_counter() - started))

    def _note(self, decision: MutatingPolicyDecision) -> None:
        if self._explain or decision.outcome is not OutcomeStatus.SKIPPED:
            self._judgements.append(decision)
