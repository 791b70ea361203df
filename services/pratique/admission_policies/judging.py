"""Judging: what a policy's decisions mean under the actions of one binding.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`` ``Dispatch``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pratique.admission_policies.decisions import Action, AuditAction, AuditDecision, Decision
from pratique.admission_policies.verdicts import Judgement, denial, warning
from pratique.measures.policy_checks import COMPILE_ERROR, INVALID_ERROR, OUT_OF_BUDGET, PolicyCheck
from pratique.parts import Ending

if TYPE_CHECKING:
    from pratique.admission_policies.compilation import Binding, Policy
    from pratique.admission_policies.decisions import Decisions
    from pratique.admission_policies.verdicts import Annotations
    from pratique.configurations.policies import ValidatingBindingSpec, ValidatingSpec
    from pratique.json_values import JSONObject
    from pratique.reviews import Review
    from pratique.statuses import Status

_OUT_OF_BUDGET = "validation failed due to running out of cost budget"


class Judging:
    """The judgement of a policy by one binding, in the making."""

    def __init__(
        self, review: Review, policy: Policy[ValidatingSpec], binding: Binding[ValidatingBindingSpec] | None
    ) -> None:
        """Begin without decisions."""
        self._begun = time.perf_counter()
        self._review = review
        self._policy = policy
        self._actions = binding.spec.validation_actions if binding else ()
        self._binding = binding.name if binding else ""
        self._denials: list[tuple[Status, Decision | AuditDecision]] = []
        self._warnings: list[str] = []
        self._unmet: list[str] = []
        self._told: list[Decision] = []
        self._count = 0
        self._false: set[int] = set()
        self.failures: list[JSONObject] = []
        """What is to be written to the audit log."""
        self.checks: list[PolicyCheck] = []
        """What is to be counted."""

    def skip(self, reason: str) -> Judgement:
        """Say that the policy does not mean the request."""
        return self._judgement(Ending.SKIPPED, reason)

    def misset(self, text: str) -> Judgement:
        """Weigh that the policy cannot be used: under failure policy Fail it refuses, whatever the actions are."""
        if self._policy.spec.fails_open:
            return self._judgement(Ending.FAILED_OPEN, text)
        status = denial(self._review, self._policy.name, self._binding, text, "")
        return self._judgement(Ending.FAILED, text, (status,))

    def add(self, decisions: Decisions, annotations: Annotations) -> None:
        """Add what the policy came to with one more parameter."""
        self._count += 1
        if decisions.unmet:
            self._unmet.append(decisions.unmet)
        for place, decision in enumerate(decisions.validations):
            self._add_decision(place, decision)
            if decision.message:
                self._count_decision(decision, decisions.seconds[place] if decisions.seconds else 0.0)
        for annotation in decisions.annotations:
            self._add_annotation(annotation, annotations)

    def _add_decision(self, place: int, decision: Decision) -> None:
        if decision.message:
            self._told.append(decision)
        if decision.action is Action.ADMIT:
            return
        if not decision.failed:
            self._false.add(place)
        for action in self._actions:
            match action:
                case "Deny":
                    self._deny(decision, decision.message, decision.reason)
                case "Warn":
                    self._warnings.append(warning(self._policy.name, self._binding, decision.message))
                case _:
                    self.failures.append(self._failure(place, decision.message))

    def _count_decision(self, decision: Decision, seconds: float) -> None:
        """Count as ``Dispatch`` does: what holds is not counted."""
        actions = ("allow",) if decision.action is Action.ADMIT else map(str.lower, self._actions)
        for action in actions:
            self._check(decision.message, seconds, action)

    def _check(self, message: str, seconds: float, action: str) -> None:
        check = PolicyCheck(self._policy.name, self._binding, _error_type(message), seconds, action)
        self.checks.append(check)

    def _failure(self, place: int, message: str) -> JSONObject:
        return {
            "message": message,
            "policy": self._policy.name,
            "binding": self._binding,
            "expressionIndex": place,
            "validationActions": list(self._actions),
        }

    def _add_annotation(self, annotation: AuditDecision, annotations: Annotations) -> None:
        if annotation.action is AuditAction.PUBLISH:
            annotations.add(annotation.key, annotation.text)
        elif annotation.action is AuditAction.ERROR:
            self._deny(annotation, annotation.text, "")
            self._check(annotation.text, 0.0, "deny")

    def _deny(self, decision: Decision | AuditDecision, message: str, reason: str) -> None:
        status = denial(self._review, self._policy.name, self._binding, message, reason)
        self._denials.append((status, decision))

    def conclude(self) -> Judgement:
        """Say what the policy says by this binding."""
        if self._denials:
            _, first = self._denials[0]
            failed = isinstance(first, AuditDecision) or first.failed
            text = first.text if isinstance(first, AuditDecision) else first.message
            return self._judgement(
                Ending.FAILED if failed else Ending.DENIED, text, tuple(one for one, _ in self._denials)
            )
        reason = self._told[0].message if self._told else ""
        if self._warnings:
            return self._judgement(Ending.WARNED, reason)
        if any(decision.failed and decision.action is Action.ADMIT for decision in self._told):
            return self._judgement(Ending.FAILED_OPEN, reason)
        if len(self._unmet) == self._count:
            return self._judgement(Ending.SKIPPED, self._unmet[0])
        return self._judgement(Ending.ALLOWED, reason)

    def _judgement(self, outcome: Ending, reason: str, denials: tuple[Status, ...] = ()) -> Judgement:
        seconds = time.perf_counter() - self._begun
        return Judgement(
            self._policy.name,
            self._binding,
            outcome,
            reason,
            denials,
            tuple(self._warnings),
            seconds,
            tuple(sorted(self._false)),
        )


def _error_type(message: str) -> str:
    """Tell why a validation failed by what is said of it: ``ErrorType`` in ``…/policy/validating/errors.go``."""
    if message.startswith("compilation"):
        return COMPILE_ERROR
    return OUT_OF_BUDGET if message.startswith(_OUT_OF_BUDGET) else INVALID_ERROR
