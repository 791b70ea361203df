"""ValidatingAdmissionPolicy: all policies of an API server, compiled, and what they say of a review.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`` ``Dispatch``. Between policies the API
server has no order; here it is that of their names, static ones first.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.admission_policies.compilation import compile_bindings, compile_expressions, compile_policy
from pratique.admission_policies.evaluators import Evaluator
from pratique.admission_policies.hooks import Hooks
from pratique.admission_policies.invocations import Invocation, Misset, Passed, Viewing
from pratique.admission_policies.judging import Judging
from pratique.admission_policies.sights import UNLIMITED
from pratique.admission_policies.verdicts import FAILURES, Annotations, Verdict, failures_annotation
from pratique.errors import RefusalError
from pratique.parts import Ending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.admission_policies.compilation import Binding, Policy
    from pratique.admission_policies.sights import Limits
    from pratique.admission_policies.verdicts import Judgement
    from pratique.configurations.policies import Configured, ValidatingBindingSpec, ValidatingSpec
    from pratique.json_values import JSONObject
    from pratique.measures.policy_checks import PolicyCheck
    from pratique.reviews import Review
    from pratique.statuses import Status


@dataclasses.dataclass(frozen=True, slots=True)
class _Hook:
    """A policy, and what binds it."""

    evaluator: Evaluator
    bindings: tuple[Binding[ValidatingBindingSpec], ...]

    @property
    def policy(self) -> Policy[ValidatingSpec]:
        """The policy."""
        return self.evaluator.policy


class ValidatingPolicies:
    """All ValidatingAdmissionPolicies that are bound, in the order in which they are asked."""

    def __init__(
        self,
        policies: Iterable[Configured[ValidatingSpec]],
        bindings: Iterable[Configured[ValidatingBindingSpec]],
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

    def decide(self, review: Review, limits: Limits = UNLIMITED, *, explain: bool = False) -> Verdict:
        """Ask all policies, and give what they say in their order.

        Nothing is changed by it, so that what takes too long can be asked again elsewhere, with more patience.

        Args:
            review: The review; its cluster holds Namespaces and parameters, its authorizer is asked by expressions.
            limits: How long, and with how much patience, expressions are evaluated.
            explain: Tell of policies and bindings that say nothing of the request, too.

        Raises:
            SlowEvaluationError: it takes more than there is patience for.
        """
        if not self._hooks:
            return Verdict()
        return _Run(review, limits, explain=explain).decide(self._hooks.of(review, explain=explain))


def _hook(configured: Configured[ValidatingSpec], bindings: list[Configured[ValidatingBindingSpec]]) -> _Hook:
    policy, compiler = compile_policy(configured)
    evaluator = Evaluator(policy, compile_expressions(policy.spec, compiler))
    return _Hook(evaluator, compile_bindings(policy, bindings))


class _Run:
    """The policies asked about one review."""

    def __init__(self, review: Review, limits: Limits, *, explain: bool) -> None:
        self._viewing = Viewing(review)
        self._limits = limits
        self._explain = explain
        self._judgements: list[Judgement] = []
        self._failures: list[JSONObject] = []
        self._annotations: dict[str, str] = {}
        self._checks: list[PolicyCheck] = []

    def decide(self, hooks: Iterable[_Hook]) -> Verdict:
        try:
            for hook in hooks:
                self._ask(hook)
        except RefusalError as error:
            return self._verdict(error.status)
        if self._failures:
            self._annotations[FAILURES] = failures_annotation(self._failures)
        return self._verdict()

    def _verdict(self, refusal: Status | None = None) -> Verdict:
        return Verdict(tuple(self._judgements), self._annotations, refusal, tuple(self._checks))

    def _ask(self, hook: _Hook) -> None:
        policy, annotations = hook.evaluator.policy, Annotations()
        for step in self._viewing.invocations(policy, hook.bindings):
            judging = Judging(self._viewing.review, policy, step.binding)
            match step:
                case Passed(reason=reason):
                    self._note(judging.skip(reason))
                case Misset():
                    self._note(judging.misset(step.text))
                case Invocation():
                    for params in step.params:
                        judging.add(hook.evaluator.evaluate(step.sight, params, self._limits), annotations)
                    self._note(judging.conclude())
                    self._failures += judging.failures
                    self._checks += judging.checks
        self._annotations |= annotations.published(policy.name)

    def _note(self, judgement: Judgement) -> None:
        if self._explain or judgement.outcome is not Ending.SKIPPED:
            self._judgements.append(judgement)
