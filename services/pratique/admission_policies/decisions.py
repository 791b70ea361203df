"""Decisions: what the validations of a policy come to.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go`` and ``policy_decision.go``.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from pratique.cel.errors import EvaluationError, OutOfBudgetError
from pratique.cel.values import type_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.admission_policies.evaluations import Finding
    from pratique.configurations.policies import AuditAnnotation, Validation

_MAXIMUM_MESSAGE = 5 * 1024  # bytes: ``MaxEvaluatedMessageExpressionSizeBytes`` in pkg/apis/cel/config.go
_INVALID = "Invalid"


class Action(enum.Enum):
    """What a validation asks for."""

    ADMIT = "admit"
    DENY = "deny"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What one validation came to."""

    action: Action
    message: str = ""
    """Why it is not simply admitted."""
    reason: str = ""
    """The reason of the Status; empty where the expression could not be evaluated."""
    failed: bool = False
    """Whether the expression could not be evaluated."""


class AuditAction(enum.Enum):
    """What is to be done with an audit annotation."""

    PUBLISH = "publish"
    EXCLUDE = "exclude"
    ERROR = "error"


@dataclasses.dataclass(frozen=True, slots=True)
class AuditDecision:
    """What one audit annotation came to: ``text`` is its value, or why it has none."""

    key: str
    action: AuditAction
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Decisions:
    """What a policy came to, with one parameter."""

    validations: tuple[Decision, ...] = ()
    annotations: tuple[AuditDecision, ...] = ()
    unmet: str = ""
    """The match condition that does not hold, so that the policy says nothing; empty where all hold."""
    seconds: tuple[float, ...] = ()
    """How long each validation took; empty where none was evaluated."""


def failure(error: str, *, fails_open: bool) -> Decision:
    """Weigh that something could not be evaluated: the failure policy decides."""
    return Decision(Action.ADMIT if fails_open else Action.DENY, error, failed=True)


def decide_validations(
    validations: Sequence[Validation],
    findings: Sequence[Finding],
    messages: Sequence[Finding] | OutOfBudgetError,
    *,
    fails_open: bool,
) -> tuple[Decision, ...]:
    """Weigh what validations came to.

    Args:
        validations: As they are written.
        findings: What their expressions came to.
        messages: What their message expressions came to, null where there is none; or that there was no budget for
            them, which then fails every validation, even one that is true.
        fails_open: What the failure policy says.
    """
    decisions = []
    for place, (validation, finding) in enumerate(zip(validations, findings, strict=True)):
        if isinstance(finding, EvaluationError):
            decisions.append(failure(str(finding), fails_open=fails_open))
        elif isinstance(messages, OutOfBudgetError):
            decisions.append(failure(f"failed messageExpression: {messages}", fails_open=fails_open))
        elif finding is True:
            decisions.append(Decision(Action.ADMIT))
        else:
            reason = _INVALID if validation.reason is None else validation.reason
            decisions.append(Decision(Action.DENY, _message(validation, messages[place]), reason))
    return tuple(decisions)


def _message(validation: Validation, evaluated: Finding) -> str:
    """What is said of a validation that is false: what was evaluated for it, else what is written, else itself."""
    said = evaluated.strip() if isinstance(evaluated, str) else ""
    if len(said.encode()) > _MAXIMUM_MESSAGE or "\n" in said:
        said = ""
    return said or validation.message.strip() or f"failed expression: {validation.expression.strip()}"


def decide_annotations(
    annotations: Sequence[AuditAnnotation], findings: Sequence[Finding], *, fails_open: bool
) -> tuple[AuditDecision, ...]:
    """Weigh what audit annotations came to: texts are published, null and blank ones left out."""
    return tuple(
        _decide_annotation(annotation, finding, fails_open=fails_open)
        for annotation, finding in zip(annotations, findings, strict=True)
    )


def _decide_annotation(annotation: AuditAnnotation, finding: Finding, *, fails_open: bool) -> AuditDecision:
    key = annotation.key
    if isinstance(finding, EvaluationError):
        return AuditDecision(key, AuditAction.EXCLUDE if fails_open else AuditAction.ERROR, str(finding))
    if isinstance(finding, str):
        value = finding.strip()
        return AuditDecision(key, AuditAction.PUBLISH if value else AuditAction.EXCLUDE, value)
    if finding is None:
        return AuditDecision(key, AuditAction.EXCLUDE)
    text = (
        f"valueExpression '{annotation.value_expression}' resulted in unsupported return type: "
        f"{type_name(finding)}. Return type must be either string or null."
    )
    return AuditDecision(key, AuditAction.ERROR, text)
