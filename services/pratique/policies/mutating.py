"""MutatingAdmissionPolicy: all policies of an API server, and what they do to the object of a review."""

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
    """What one policy did by one binding and with one parameter."""

    policy: str
    binding: str
    """Empty where no binding has a part in it."""
    key: str
    """Tells it from all other invocations that there can be for one request."""
    outcome: OutcomeStatus
    reason: str = ""
    """Why it was skipped or failed."""
    operations: tuple[JSONObject, ...] = ()
    """A JSON Patch of what it did to the object as it was before."""
    ran: bool = False
    """Whether it counts as invoked, be it that everything in it failed."""
    reinvocable: bool = False
    """Whether it is to be invoked again where something changes after it: ``reinvocationPolicy: IfNeeded``."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def changed(self) -> bool:
        """Whether the object is another one now, in depth; what changed before it is then invoked again."""
        return bool(self.operations)


@dataclasses.dataclass(frozen=True, slots=True)
class MutatingPoliciesDecision:
    """What all policies did."""

    document: Document
    """The object as they leave it; the one that came in where nothing changed, or where the request is refused by
    what no failure policy decides about."""
    decisions: tuple[MutatingPolicyDecision, ...] = ()
    """In the order of invocation; those that were skipped only where that was asked for."""
    operations: tuple[JSONObject, ...] | None = None
    """A JSON Patch of all that they did to it, where that is known without looking."""
    dirty: bool = False
    """Whether any mutation was applied, be it to no effect: all that were invoked and can be are then invoked again."""
    refusal: Status | None = None
    """Why the request is refused; None where it goes on."""
    checks: tuple[PolicyCheck, ...] = ()
    """What is to be counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyFailure:
    """Why a policy under failure policy ``Fail`` refuses a request."""

    policy: str
    binding: str
    """Empty where no binding has a part in it."""
    text: str
    reason: str = ""
    """The reason of the Status; empty for what is wrong with how policy or binding is set up."""

    @property
    def message(self) -> str:
        """What the user is told."""
        if self.binding:
            return f"policy '{self.policy}' with binding '{self.binding}' denied request: {self.text}"
        return f"policy {statuses.go_quoted(self.policy)} denied request: {self.text}"


def refusal_status(review: Review, failures: Sequence[PolicyFailure]) -> Status | None:
    """Make one Status of all failures: it says the first, and names all as causes. None where there is none."""
    if not failures:
        return None
    first = failures[0]
    status = statuses.admission_forbidden(review, "admission request denied by policy")
    details = status.details or StatusDetails()
    causes = (*details.causes, *(StatusCause(message=one.message) for one in failures))
    return replace(
        status,
        message=first.message,
        reason=first.reason or status.reason,
        details=replace(details, causes=causes),
    )


def invocation_key(policy: str, binding: str, params: JSON) -> str:
    """The key of an invocation: ``keyFor`` in ``…/policy/mutating/dispatcher.go``. No name holds a slash."""
    metadata = params.get("metadata") or {} if isinstance(params, dict) else {}
    return f"{policy}/{binding}/{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


_INVALID = "Invalid"


class MutatingPolicyDecisionBuilder:
    """The judgement of one invocation, in the making; its time runs from here."""

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
        """What refuses the request."""

    @property
    def key(self) -> str:
        """Tells the invocation from all others that there can be for one request."""
        return self._judgement.key

    def skip(self, reason: str) -> MutatingPolicyDecision:
        """Say that the policy does nothing for the request."""
        return self._concluded(OutcomeStatus.SKIPPED, reason=reason)

    def misconfigured(self, text: str) -> MutatingPolicyDecision:
        """Weigh that the policy cannot be used for the request."""
        self._fail(text, "")
        return self._failed()

    def conditions_failed(self, text: str) -> MutatingPolicyDecision:
        """Weigh that match conditions have no value."""
        self._fail(text, _INVALID)
        return self._failed()

    def fail(self, text: str) -> None:
        """Weigh that one mutation could not be made. Others are made all the same."""
        self._fail(text, _INVALID)

    def refuse(self, status: Status) -> MutatingPolicyDecision:
        """Say that the request is refused, whatever the failure policy is."""
        return self._concluded(OutcomeStatus.FAILED, reason=status.message, ran=True)

    def conclude(self, before: Document, after: Document) -> MutatingPolicyDecision:
        """Say what the mutations came to, of which all have been tried."""
        operations = () if after is before else tuple(diff(before.data, after.data))
        judged = dataclasses.replace(self._judgement, operations=operations, ran=True)
        self._judgement = judged
        if self._texts:
            return self._failed()
        return self._concluded(OutcomeStatus.MUTATED if operations else OutcomeStatus.UNCHANGED)

    def check(self, error_type: str, seconds: float) -> PolicyCheck:
        """What is to be counted of one mutation: ``dispatchInvocations`` counts all of them."""
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
    """A policy, what it does, and what binds it."""

    policy: Policy[MutatingAdmissionPolicySpec]
    patchers: tuple[Patcher, ...]
    bindings: tuple[Binding[PolicyBindingSpec], ...]


class MutatingPolicies:
    """All MutatingAdmissionPolicies that are bound, in the order in which they are asked."""

    def __init__(
        self,
        policies: Iterable[PolicyConfiguration[MutatingAdmissionPolicySpec]],
        bindings: Iterable[PolicyConfiguration[PolicyBindingSpec]],
    ) -> None:
        """Compile policies. Those that nothing binds are never asked; bindings without policy do nothing.

        Raises:
            CompilationError: an expression does not compile, which loading it would have told.
        """
        binding_list = list(bindings)
        hooks = (_hook(policy, binding_list) for policy in policies)
        self._hooks = PolicyHooks(hook for hook in hooks if hook.bindings)

    def __bool__(self) -> bool:
        """False where there is nothing to ask."""
        return bool(self._hooks)

    def admit(
        self,
        review: Review,
        limits: EvaluationLimits = UNLIMITED,
        *,
        again: Collection[str] | None = None,
        explain: bool = False,
    ) -> MutatingPoliciesDecision:
        """Ask all policies, one after another, each about the object as those before it have left it.

        Nothing is changed in place, so that what takes too long can be asked again elsewhere, with more patience.

        Args:
            review: The review; its cluster holds Namespaces and parameters, its authorizer is asked by expressions.
            limits: How long, and with how much patience, expressions are evaluated.
            again: The keys of the invocations that are to be made in the second round; None in the first, in which
                all are.
            explain: Tell of policies and bindings that do nothing for the request, too.

        Raises:
            SlowEvaluationError: it takes more than there is patience for.
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
    """The policies asked about one review."""

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
        asked = self._dispatcher.review
        try:
            # All are matched before the first is invoked: no mutation makes another policy match.
            steps = [
                (hook, step)
                for hook in hooks
                for step in self._dispatcher.invocations(hook.policy, hook.bindings)
            ]
            for hook, step in steps:
                self._take(hook, step)
        except RefusalError as error:
            return MutatingPoliciesDecision(
                asked.object_document,
                tuple(self._judgements),
                refusal=error.status,
                checks=tuple(self._checks),
            )
        document, dirty = self._objects.outcome(asked)
        failures = (*self._missets, *self._failures)
        return MutatingPoliciesDecision(
            document,
            tuple(self._judgements),
            self._operations(),
            dirty,
            refusal_status(asked.with_object(document), failures) if failures else None,
            tuple(self._checks),
        )

    def _operations(self) -> tuple[JSONObject, ...] | None:
        """What was done to the object, where one policy did it all, and in the request's version."""
        changes = [one.operations for one in self._judgements if one.changed]
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
        activations, asked = self._objects.now(original), self._dispatcher.review.kind
        begun, error_type = time.perf_counter(), NO_ERROR
        try:
            patched = patcher.patch(activations, params, hook.policy.variables, self._limits, asked)
        except (PolicyPatchError, EvaluationError, OutOfBudgetError) as error:
            error_type = OUT_OF_BUDGET if isinstance(error, OutOfBudgetError) else INVALID_ERROR
            judging.fail(str(error))
        except RefusalError:
            error_type = INVALID_ERROR
            raise
        else:
            self._objects.change(original, patched)
        finally:
            self._checks.append(judging.check(error_type, time.perf_counter() - begun))

    def _note(self, decision: MutatingPolicyDecision) -> None:
        if self._explain or decision.outcome is not OutcomeStatus.SKIPPED:
            self._judgements.append(decision)
