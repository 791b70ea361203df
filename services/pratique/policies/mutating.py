"""MutatingAdmissionPolicy: all policies of an API server, and what they do to the object of a review."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pratique.admission.outcomes import Ending
from pratique.admission.reviews import Operation
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.statuses import StatusCause, StatusDetails, aggregate
from pratique.cel.errors import EvaluationError, OutOfBudgetError
from pratique.policies.activation import UNLIMITED
from pratique.policies.compilation import Hooks, compile_bindings, compile_policy
from pratique.policies.invocations import Invocation, Misset, Passed, Viewing
from pratique.policies.mutations import MutatedObjects, PolicyPatchError, compile_mutations
from pratique.policies.validating import weigh_conditions
from pratique.telemetry.policy_metrics import INVALID_ERROR, NO_ERROR, OUT_OF_BUDGET, PolicyCheck

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pratique.admission.reviews import Review
    from pratique.apimachinery.json_values import JSON, Document, JSONObject
    from pratique.apimachinery.statuses import Status
    from pratique.configuration.policies import BindingSpec, Configured, MutatingSpec
    from pratique.policies.activation import Limits, Sight
    from pratique.policies.compilation import Binding, Policy
    from pratique.policies.invocations import Step
    from pratique.policies.mutations import Patcher


@dataclasses.dataclass(frozen=True, slots=True)
class MutationJudgement:
    """What one policy did by one binding and with one parameter."""

    policy: str
    binding: str
    """Empty where no binding has a part in it."""
    key: str
    """Tells it from all other invocations that there can be for one request."""
    outcome: Ending
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
class Admittance:
    """What all policies did."""

    document: Document
    """The object as they leave it; the one that came in where nothing changed, or where the request is refused by
    what no failure policy decides about."""
    judgements: tuple[MutationJudgement, ...] = ()
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
class Failure:
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


def refusal_of(review: Review, failures: Sequence[Failure]) -> Status | None:
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


def key_of(policy: str, binding: str, params: JSON) -> str:
    """The key of an invocation: ``keyFor`` in ``…/policy/mutating/dispatcher.go``. No name holds a slash."""
    metadata = params.get("metadata") or {} if isinstance(params, dict) else {}
    return f"{policy}/{binding}/{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


_INVALID = "Invalid"


class MutationJudging:
    """The judgement of one invocation, in the making; its time runs from here."""

    def __init__(
        self, policy: Policy[MutatingSpec], binding: Binding[BindingSpec] | None, params: JSON = None
    ) -> None:
        """Begin without failures."""
        self._begun = time.perf_counter()
        self._fails_open = policy.spec.fails_open
        name = binding.name if binding else ""
        self._judgement = MutationJudgement(
            policy.name,
            name,
            key_of(policy.name, name, params),
            Ending.UNCHANGED,
            reinvocable=policy.spec.reinvocation_policy == "IfNeeded",
        )
        self._texts: list[str] = []
        self.failures: list[Failure] = []
        """What refuses the request."""

    @property
    def key(self) -> str:
        """Tells the invocation from all others that there can be for one request."""
        return self._judgement.key

    def skip(self, reason: str) -> MutationJudgement:
        """Say that the policy does nothing for the request."""
        return self._concluded(Ending.SKIPPED, reason=reason)

    def misset(self, text: str) -> MutationJudgement:
        """Weigh that the policy cannot be used for the request."""
        self._fail(text, "")
        return self._failed()

    def unweighable(self, text: str) -> MutationJudgement:
        """Weigh that match conditions have no value."""
        self._fail(text, _INVALID)
        return self._failed()

    def fail(self, text: str) -> None:
        """Weigh that one mutation could not be made. Others are made all the same."""
        self._fail(text, _INVALID)

    def refuse(self, status: Status) -> MutationJudgement:
        """Say that the request is refused, whatever the failure policy is."""
        return self._concluded(Ending.FAILED, reason=status.message, ran=True)

    def conclude(self, before: Document, after: Document) -> MutationJudgement:
        """Say what the mutations came to, of which all have been tried."""
        operations = () if after is before else tuple(diff(before.data, after.data))
        judged = dataclasses.replace(self._judgement, operations=operations, ran=True)
        self._judgement = judged
        if self._texts:
            return self._failed()
        return self._concluded(Ending.MUTATED if operations else Ending.UNCHANGED)

    def check(self, error_type: str, seconds: float) -> PolicyCheck:
        """What is to be counted of one mutation: ``dispatchInvocations`` counts all of them."""
        return PolicyCheck(self._judgement.policy, self._judgement.binding, error_type, seconds)

    def _fail(self, text: str, reason: str) -> None:
        self._texts.append(text)
        if not self._fails_open:
            self.failures.append(Failure(self._judgement.policy, self._judgement.binding, text, reason))

    def _failed(self) -> MutationJudgement:
        outcome = Ending.FAILED_OPEN if self._fails_open else Ending.FAILED
        return self._concluded(outcome, reason=aggregate(self._texts))

    def _concluded(self, outcome: Ending, *, reason: str = "", ran: bool | None = None) -> MutationJudgement:
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

    policy: Policy[MutatingSpec]
    patchers: tuple[Patcher, ...]
    bindings: tuple[Binding[BindingSpec], ...]


class MutatingPolicies:
    """All MutatingAdmissionPolicies that are bound, in the order in which they are asked."""

    def __init__(
        self, policies: Iterable[Configured[MutatingSpec]], bindings: Iterable[Configured[BindingSpec]]
    ) -> None:
        """Compile policies. Those that nothing binds are never asked; bindings without policy do nothing.

        Raises:
            CompilationError: an expression does not compile, which loading it would have told.
        """
        binding_list = list(bindings)
        hooks = (_hook(policy, binding_list) for policy in policies)
        self._hooks = Hooks(hook for hook in hooks if hook.bindings)

    def __bool__(self) -> bool:
        """False where there is nothing to ask."""
        return bool(self._hooks)

    def admit(
        self,
        review: Review,
        limits: Limits = UNLIMITED,
        *,
        again: Collection[str] | None = None,
        explain: bool = False,
    ) -> Admittance:
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
            return Admittance(review.object_document)
        run = _Run(review, limits, again, explain=explain)
        return run.admit(self._hooks.of(review, explain=explain))


def _hook(configured: Configured[MutatingSpec], bindings: Sequence[Configured[BindingSpec]]) -> _Hook:
    policy, compiler = compile_policy(configured)
    return _Hook(policy, compile_mutations(policy.spec, compiler), compile_bindings(policy, bindings))


class _Run:
    """The policies asked about one review."""

    def __init__(
        self, review: Review, limits: Limits, again: Collection[str] | None, *, explain: bool
    ) -> None:
        self._viewing = Viewing(review, mutates=True)
        self._limits = limits
        self._again = again
        self._explain = explain
        self._objects = MutatedObjects()
        self._judgements: list[MutationJudgement] = []
        self._missets: list[Failure] = []
        self._failures: list[Failure] = []
        self._checks: list[PolicyCheck] = []

    def admit(self, hooks: Iterable[_Hook]) -> Admittance:
        asked = self._viewing.review
        try:
            # All are matched before the first is invoked: no mutation makes another policy match.
            steps = [
                (hook, step)
                for hook in hooks
                for step in self._viewing.invocations(hook.policy, hook.bindings)
            ]
            for hook, step in steps:
                self._take(hook, step)
        except RefusalError as error:
            return Admittance(
                asked.object_document,
                tuple(self._judgements),
                refusal=error.status,
                checks=tuple(self._checks),
            )
        document, dirty = self._objects.outcome(asked)
        failures = (*self._missets, *self._failures)
        return Admittance(
            document,
            tuple(self._judgements),
            self._operations(),
            dirty,
            refusal_of(asked.with_object(document), failures) if failures else None,
            tuple(self._checks),
        )

    def _operations(self) -> tuple[JSONObject, ...] | None:
        """What was done to the object, where one policy did it all, and in the request's version."""
        changes = [one.operations for one in self._judgements if one.changed]
        if len(changes) != 1 or not self._objects.are_only_of(self._viewing.review.resource):
            return None
        return changes[0]

    def _take(self, hook: _Hook, step: Step[BindingSpec]) -> None:
        judging = MutationJudging(hook.policy, step.binding)
        match step:
            case Passed(reason=reason):
                self._note(judging.skip(reason))
            case Misset():
                self._note(judging.misset(step.text))
                self._missets += judging.failures
            case Invocation():
                for params in step.params:
                    self._invoke(hook, step, params)

    def _invoke(self, hook: _Hook, step: Invocation[BindingSpec], params: JSON) -> None:
        judging = MutationJudging(hook.policy, step.binding, params)
        conditions = weigh_conditions(hook.policy, self._objects.now(step.sight), params, self._limits)
        if conditions.error:
            self._note(judging.unweighable(conditions.error))
        elif conditions.unmet:
            self._note(judging.skip(conditions.unmet))
        elif self._again is not None and judging.key not in self._again:
            self._note(judging.skip(_NOT_AGAIN))
        else:
            self._mutate(hook, step.sight, params, judging)
        self._failures += judging.failures

    def _mutate(self, hook: _Hook, came_in: Sight, params: JSON, judging: MutationJudging) -> None:
        before = self._objects.now(came_in).review.object_document
        try:
            for patcher in hook.patchers:
                self._objects.touch(came_in)
                if not before.is_null:
                    self._patch(patcher, hook, came_in, params, judging)
        except RefusalError as error:
            self._note(judging.refuse(error.status))
            raise
        self._note(judging.conclude(before, self._objects.now(came_in).review.object_document))

    def _patch(
        self, patcher: Patcher, hook: _Hook, came_in: Sight, params: JSON, judging: MutationJudging
    ) -> None:
        sight, asked = self._objects.now(came_in), self._viewing.review.kind
        begun, error_type = time.perf_counter(), NO_ERROR
        try:
            patched = patcher.patch(sight, params, hook.policy.variables, self._limits, asked)
        except (PolicyPatchError, EvaluationError, OutOfBudgetError) as error:
            error_type = OUT_OF_BUDGET if isinstance(error, OutOfBudgetError) else INVALID_ERROR
            judging.fail(str(error))
        except RefusalError:
            error_type = INVALID_ERROR
            raise
        else:
            self._objects.change(came_in, patched)
        finally:
            self._checks.append(judging.check(error_type, time.perf_counter() - begun))

    def _note(self, judgement: MutationJudgement) -> None:
        if self._explain or judgement.outcome is not Ending.SKIPPED:
            self._judgements.append(judgement)
