"""Verdicts: what all policies together say of a review.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pratique import statuses
from pratique.go_json import go_json
from pratique.statuses import Status, StatusCause, StatusDetails

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.json_values import JSONObject
    from pratique.measures.policy_checks import PolicyCheck
    from pratique.parts import Ending
    from pratique.reviews import Review

FAILURES = "validation.policy.admission.k8s.io/validation_failure"
"""The audit annotation that lists validations that failed under the action ``Audit``."""

_MAXIMUM_FAILURES = 50
_MAXIMUM_ANNOTATION = 10 * 1024  # bytes of one value
_INVALID = "Invalid"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, _INVALID: 422}


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What one policy says by one binding, with all its parameters."""

    policy: str
    binding: str
    """Empty where no binding has a part in it."""
    outcome: Ending
    reason: str = ""
    """Why it is not simply allowed."""
    denials: tuple[Status, ...] = ()
    """Each of which refuses the request."""
    warnings: tuple[str, ...] = ()
    """What the user is told."""
    seconds: float = 0.0
    """How long it took."""
    unmet: tuple[int, ...] = ()
    """Which validations were false, whatever the binding makes of it, from 0."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What all policies say, in the order in which they were asked."""

    judgements: tuple[Judgement, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refusal: Status | None = None
    """Why the request is refused whatever policies say; those not asked before are not asked."""
    checks: tuple[PolicyCheck, ...] = ()
    """What is to be counted."""

    @property
    def denials(self) -> tuple[Status, ...]:
        """All that refuse the request."""
        found = tuple(status for one in self.judgements for status in one.denials)
        return found if self.refusal is None else (self.refusal,)

    @property
    def status(self) -> Status | None:
        """What the API server answers: the first denial; None where the request goes on."""
        return next(iter(self.denials), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that the user is told."""
        return tuple(text for one in self.judgements for text in one.warnings)


def denial(review: Review, policy: str, binding: str, message: str, reason: str) -> Status:
    """Make the Status by which a policy refuses a request."""
    by = f" with binding '{binding}'" if binding else ""
    text = f"ValidatingAdmissionPolicy '{policy}'{by} denied request: {message}"
    status = statuses.admission_forbidden(review, text)
    details = status.details or StatusDetails()
    causes = (*details.causes, StatusCause(message=text))
    reason = reason or _INVALID
    return replace(
        status, reason=reason, code=_CODES.get(reason, 422), details=replace(details, causes=causes)
    )


def warning(policy: str, binding: str, message: str) -> str:
    """What the user is told of a validation that failed under the action ``Warn``."""
    return f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"


def failures_annotation(failures: Iterable[JSONObject]) -> str:
    """Write the value of :data:`FAILURES`; of very many failures, the first."""
    return go_json(list(failures)[:_MAXIMUM_FAILURES])


class Annotations:
    """The audit annotations of one policy, of all its bindings together."""

    def __init__(self) -> None:
        """Begin without any."""
        self._values: dict[str, dict[str, None]] = {}

    def add(self, key: str, value: str) -> None:
        """Add a value, cut where it is too long; of equal ones one counts."""
        cut = value.encode()[:_MAXIMUM_ANNOTATION].decode(errors="replace")
        self._values.setdefault(key, {})[cut] = None

    def published(self, policy: str) -> dict[str, str]:
        """The annotations as they are published: several values of one key stand in a list."""
        return {f"{policy}/{key}": ", ".join(values) for key, values in self._values.items()}
