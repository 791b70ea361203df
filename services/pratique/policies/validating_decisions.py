"""Decide what the validations of a policy mean under the actions of a binding.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating``: ``validator.go`` and ``dispatcher.go``.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails
from pratique.cel.errors import EvaluationError, OutOfBudgetError
from pratique.cel.values import type_name
from pratique.configuration.admissionregistration import (
    AuditAnnotation,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Validation,
)
from pratique.policies.audit_annotations import AuditAnnotationCollector
from pratique.telemetry.policy_metrics import COMPILE_ERROR, INVALID_ERROR, OUT_OF_BUDGET, PolicyCheck

if TYPE_CHECKING:
    from pratique.policies.compilation import Binding, EvaluationResult, Policy

_MAXIMUM_MESSAGE = 5 * 1024  # bytes: ``MaxEvaluatedMessageExpressionSizeBytes`` in pkg/apis/cel/config.go
_INVALID = "Invalid"


class PolicyDecisionAction(enum.Enum):
    """Whether a validation admits or denies."""

    ADMIT = "admit"
    DENY = "deny"


class ValidationDecision(msgspec.Struct, frozen=True):
    """The decision of one validation."""

    action: PolicyDecisionAction
    message: str = ""
    """Why the validation does not hold, or the error of its evaluation; empty if it holds."""
    reason: str = ""
    """The reason of the Status; empty if the evaluation failed."""
    failed: bool = False
    """Whether the evaluation failed."""


class AuditAnnotationAction(enum.Enum):
    """What to do with an audit annotation."""

    PUBLISH = "publish"
    EXCLUDE = "exclude"
    ERROR = "error"


class PolicyAuditAnnotation(msgspec.Struct, frozen=True):
    """The result of one audit annotation: ``text`` is its value, or the error of its evaluation."""

    key: str
    action: AuditAnnotationAction
    text: str = ""


class ValidateResult(msgspec.Struct, frozen=True):
    """The decisions of a policy with one parameter."""

    validations: tuple[ValidationDecision, ...] = ()
    annotations: tuple[PolicyAuditAnnotation, ...] = ()
    exclusion: str = ""
    """Which match condition excludes the request; empty if all are true."""
    seconds: tuple[float, ...] = ()
    """How long each validation took, in seconds; empty if none was evaluated."""


HELD = ValidateResult()
"""The result of a policy that simply allows the request, about which there is nothing to say."""


def decide_failure(error: str, *, fails_open: bool) -> ValidationDecision:
    """Decide about an evaluation error by the failure policy."""
    return ValidationDecision(
        PolicyDecisionAction.ADMIT if fails_open else PolicyDecisionAction.DENY, error, failed=True
    )


def decide_validations(
    validations: Sequence[Validation],
    results: Sequence[EvaluationResult],
    messages: Sequence[EvaluationResult] | OutOfBudgetError,
    *,
    fails_open: bool,
) -> tuple[ValidationDecision, ...]:
    """Decide validations from the results of their expressions.

    Args:
        validations: The validations as written.
        results: The results of their expressions.
        messages: The results of their message expressions, null for a validation without one; or the error that these
            exceeded the budget, which fails every validation, even a true one.
        fails_open: Whether the failure policy is Ignore.
    """
    decisions = []
    for place, (validation, result) in enumerate(zip(validations, results, strict=True)):
        if isinstance(result, EvaluationError):
            decisions.append(decide_failure(str(result), fails_open=fails_open))
        elif isinstance(messages, OutOfBudgetError):
            decisions.append(decide_failure(f"failed messageExpression: {messages}", fails_open=fails_open))
        elif result is True:
            decisions.append(ValidationDecision(PolicyDecisionAction.ADMIT))
        else:
            reason = _INVALID if validation.reason is None else validation.reason
            decisions.append(
                ValidationDecision(PolicyDecisionAction.DENY, _message(validation, messages[place]), reason)
            )
    return tuple(decisions)


def _message(validation: Validation, evaluated: EvaluationResult) -> str:
    """The message for a false validation: of ``messageExpression``, else ``message``, else naming the expression."""
    message = evaluated.strip() if isinstance(evaluated, str) else ""
    if len(message.encode()) > _MAXIMUM_MESSAGE or "\n" in message:
        message = ""
    return message or validation.message.strip() or f"failed expression: {validation.expression.strip()}"


def decide_annotations(
    annotations: Sequence[AuditAnnotation], results: Sequence[EvaluationResult], *, fails_open: bool
) -> tuple[PolicyAuditAnnotation, ...]:
    """Decide audit annotations from their results: strings are published, null and blank strings are not."""
    return tuple(
        _decide_annotation(annotation, result, fails_open=fails_open)
        for annotation, result in zip(annotations, results, strict=True)
    )


def _decide_annotation(
    annotation: AuditAnnotation, result: EvaluationResult, *, fails_open: bool
) -> PolicyAuditAnnotation:
    key = annotation.key
    if isinstance(result, EvaluationError):
        return PolicyAuditAnnotation(
            key, AuditAnnotationAction.EXCLUDE if fails_open else AuditAnnotationAction.ERROR, str(result)
        )
    if isinstance(result, str):
        value = result.strip()
        return PolicyAuditAnnotation(
            key, AuditAnnotationAction.PUBLISH if value else AuditAnnotationAction.EXCLUDE, value
        )
    if result is None:
        return PolicyAuditAnnotation(key, AuditAnnotationAction.EXCLUDE)
    text = (
        f"valueExpression '{annotation.value_expression}' resulted in unsupported return type: "
        f"{type_name(result)}. Return type must be either string or null."
    )
    return PolicyAuditAnnotation(key, AuditAnnotationAction.ERROR, text)


_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, _INVALID: 422}


class PolicyDecision(msgspec.Struct, frozen=True):
    """The decision of one policy through one binding, with all its parameters."""

    policy: str
    binding: str
    """Empty if the decision does not depend on a binding."""
    outcome: OutcomeStatus
    reason: str = ""
    """Why it is not simply allowed."""
    denials: tuple[Status, ...] = ()
    """The denials; any of them denies the request."""
    warnings: tuple[str, ...] = ()
    """The warnings for the user."""
    seconds: float = 0.0
    """How long it took, in seconds."""
    unmet: tuple[int, ...] = ()
    """The indexes of the false validations, from 0, whatever the binding's actions."""
    in_shadow: bool = False
    """Whether it has no effect: there are then no denials and warnings, and ``outcome`` is what it would have been."""

    def shadowed(self) -> PolicyDecision:
        """Return the same decision without any effect."""
        return msgspec.structs.replace(self, denials=(), warnings=(), in_shadow=True)


class PoliciesDecision(msgspec.Struct, frozen=True):
    """The decisions of all policies, in the order of their evaluation."""

    decisions: tuple[PolicyDecision, ...] = ()
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    refusal: Status | None = None
    """Why the request is denied whatever policies decide; the remaining policies are then not evaluated."""
    checks: tuple[PolicyCheck, ...] = ()
    """The checks to count in metrics."""

    @property
    def denials(self) -> tuple[Status, ...]:
        """All denials of the request."""
        found = tuple(status for decision in self.decisions for status in decision.denials)
        return found if self.refusal is None else (self.refusal,)

    @property
    def status(self) -> Status | None:
        """The API server's answer, which is the first denial; None if the request goes on."""
        return next(iter(self.denials), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all policies."""
        return tuple(text for decision in self.decisions for text in decision.warnings)


def denial_status(review: Review, policy: str, binding: str, message: str, reason: str) -> Status:
    """Make the Status with which a policy denies a request."""
    by = f" with binding '{binding}'" if binding else ""
    text = f"ValidatingAdmissionPolicy '{policy}'{by} denied request: {message}"
    status = statuses.admission_forbidden(review, text)
    details = status.details or StatusDetails()
    causes = (*details.causes, StatusCause(message=text))
    reason = reason or _INVALID
    return replace(
        status, reason=reason, code=_CODES.get(reason, 422), details=replace(details, causes=causes)
    )


def warning_text(policy: str, binding: str, message: str) -> str:
    """The warning about a validation that failed under the action ``Warn``."""
    return f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"


_OUT_OF_BUDGET = "validation failed due to running out of cost budget"


class PolicyDecisionBuilder:
    """Builds the decision of a policy through one binding."""

    def __init__(
        self,
        review: Review,
        policy: Policy[ValidatingAdmissionPolicySpec],
        binding: Binding[ValidatingAdmissionPolicyBindingSpec] | None,
        started: float,
    ) -> None:
        """Begin without decisions; ``started`` is when the evaluation began, by ``time.perf_counter``."""
        self._started = started
        self._review = review
        self._policy = policy
        self._actions = binding.spec.validation_actions if binding else ()
        self._binding = binding.name if binding else ""
        self._denials: list[tuple[Status, ValidationDecision | PolicyAuditAnnotation]] = []
        self._warnings: list[str] = []
        self._exclusions: list[str] = []
        self._reported: list[ValidationDecision] = []
        self._count = 0
        self._false_validations: set[int] = set()
        self.failures: list[JSONObject] = []
        """The failures for the audit log."""
        self.checks: list[PolicyCheck] = []
        """The checks to count in metrics."""

    def skip(self, reason: str) -> PolicyDecision:
        """Decide that the policy does not match the request."""
        return self._decision(OutcomeStatus.SKIPPED, reason)

    def misconfigured(self, text: str) -> PolicyDecision:
        """Decide about a misconfigured policy: under failure policy Fail it denies, whatever the actions."""
        if self._policy.spec.fails_open:
            return self._decision(OutcomeStatus.FAILED_OPEN, text)
        status = denial_status(self._review, self._policy.name, self._binding, text, "")
        return self._decision(OutcomeStatus.FAILED, text, (status,))

    def add(self, decisions: ValidateResult, annotations: AuditAnnotationCollector) -> None:
        """Add the decisions with one more parameter."""
        self._count += 1
        if decisions.exclusion:
            self._exclusions.append(decisions.exclusion)
        for place, decision in enumerate(decisions.validations):
            self._add_decision(place, decision)
            if decision.message:
                self._count_decision(decision, decisions.seconds[place] if decisions.seconds else 0.0)
        for annotation in decisions.annotations:
            self._add_annotation(annotation, annotations)

    def _add_decision(self, place: int, decision: ValidationDecision) -> None:
        if decision.message:
            self._reported.append(decision)
        if decision.action is PolicyDecisionAction.ADMIT:
            return
        if not decision.failed:
            self._false_validations.add(place)
        for action in self._actions:
            match action:
                case "Deny":
                    self._deny(decision, decision.message, decision.reason)
                case "Warn":
                    self._warnings.append(warning_text(self._policy.name, self._binding, decision.message))
                case _:
                    self.failures.append(self._failure(place, decision.message))

    def _count_decision(self, decision: ValidationDecision, seconds: float) -> None:
        """Count as ``Dispatch`` does, which does not count validations that hold."""
        actions = (
            ("allow",) if decision.action is PolicyDecisionAction.ADMIT else map(str.lower, self._actions)
        )
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

    def _add_annotation(
        self, annotation: PolicyAuditAnnotation, annotations: AuditAnnotationCollector
    ) -> None:
        if annotation.action is AuditAnnotationAction.PUBLISH:
            annotations.add(annotation.key, annotation.text)
        elif annotation.action is AuditAnnotationAction.ERROR:
            self._deny(annotation, annotation.text, "")
            self._check(annotation.text, 0.0, "deny")

    def _deny(self, decision: ValidationDecision | PolicyAuditAnnotation, message: str, reason: str) -> None:
        status = denial_status(self._review, self._policy.name, self._binding, message, reason)
        self._denials.append((status, decision))

    def conclude(self) -> PolicyDecision:
        """Decide from everything added."""
        if self._denials:
            _, first = self._denials[0]
            failed = isinstance(first, PolicyAuditAnnotation) or first.failed
            text = first.text if isinstance(first, PolicyAuditAnnotation) else first.message
            return self._decision(
                OutcomeStatus.FAILED if failed else OutcomeStatus.DENIED,
                text,
                tuple(status for status, _ in self._denials),
            )
        reason = self._reported[0].message if self._reported else ""
        if self._warnings:
            return self._decision(OutcomeStatus.WARNED, reason)
        if any(
            decision.failed and decision.action is PolicyDecisionAction.ADMIT for decision in self._reported
        ):
            return self._decision(OutcomeStatus.FAILED_OPEN, reason)
        if len(self._exclusions) == self._count:
            return self._decision(OutcomeStatus.SKIPPED, self._exclusions[0])
        return self._decision(OutcomeStatus.ALLOWED, reason)

    def _decision(
        self, outcome: OutcomeStatus, reason: str, denials: tuple[Status, ...] = ()
    ) -> PolicyDecision:
        seconds = time.perf_counter() - self._started
        return PolicyDecision(
            self._policy.name,
            self._binding,
            outcome,
            reason,
            denials,
            tuple(self._warnings),
            seconds,
            tuple(sorted(self._false_validations)),
        )


def _error_type(message: str) -> str:
    """Classify a failed validation by its message: ``ErrorType`` in ``…/policy/validating/errors.go``."""
    if message.startswith("compilation"):
        return COMPILE_ERROR
    return OUT_OF_BUDGET if message.startswith(_OUT_OF_BUDGET) else INVALID_ERROR
