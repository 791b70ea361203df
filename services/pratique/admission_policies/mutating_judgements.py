"""Mutating judgements: what all mutating policies together do to an object, or why they refuse it.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go`` ``Dispatch`` and ``PolicyError``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pratique import statuses
from pratique.statuses import StatusCause, StatusDetails

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.json_values import JSON, Document, JSONObject
    from pratique.measures.policy_checks import PolicyCheck
    from pratique.parts import Ending
    from pratique.reviews import Review
    from pratique.statuses import Status


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
