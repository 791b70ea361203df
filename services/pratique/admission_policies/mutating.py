"""MutatingAdmissionPolicy: all policies of an API server, compiled, and what they do to the object of a review.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin/policy``: ``mutating/{plugin,dispatcher}.go`` and
``generic/policy_dispatcher.go``. Between policies the API server has no order; here it is that of their names, static
ones first.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from pratique.admission_policies.compilation import compile_bindings, compile_policy
from pratique.admission_policies.evaluators import weigh_conditions
from pratique.admission_policies.hooks import Hooks
from pratique.admission_policies.invocations import Invocation, Misset, Passed, Viewing
from pratique.admission_policies.mutated_objects import MutatedObjects
from pratique.admission_policies.mutating_judgements import Admittance, refusal_of
from pratique.admission_policies.mutating_judging import MutationJudging
from pratique.admission_policies.mutations import compile_mutations
from pratique.admission_policies.sights import UNLIMITED
from pratique.cel.errors import EvaluationError, OutOfBudgetError
from pratique.errors import RefusalError
from pratique.measures.policy_checks import INVALID_ERROR, NO_ERROR, OUT_OF_BUDGET, PolicyCheck
from pratique.parts import Ending
from pratique.policy_patches import PolicyPatchError
from pratique.reviews import Operation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pratique.admission_policies.compilation import Binding, Policy
    from pratique.admission_policies.invocations import Step
    from pratique.admission_policies.mutating_judgements import Failure, MutationJudgement
    from pratique.admission_policies.mutations import Patcher
    from pratique.admission_policies.sights import Limits, Sight
    from pratique.configurations.policies import BindingSpec, Configured, MutatingSpec
    from pratique.json_values import JSON, JSONObject
    from pratique.reviews import Review

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
