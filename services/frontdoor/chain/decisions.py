"""Decisions: what the chain makes of a review, step by step."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.outcomes import OutcomeStatus as StepOutcome  # noqa: TC001  # msgspec reads the types of fields
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, NULL, Document, JSONObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.admission.controllers import Phase
    from pratique.apimachinery.statuses import Status


class Step(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One thing that happened to a review; equal only to itself. A review has a dozen: making a struct costs little."""

    controller: str
    """The admission controller, for example ``LimitRanger`` or ``MutatingAdmissionWebhook``."""
    phase: Phase
    """The phase in which it ran."""
    name: str
    """The webhook, policy or plugin."""
    configuration: str = ""
    """The configuration or binding that it came from; empty for plugins."""
    round: int = 0
    """0, or 1 when reinvoked."""
    outcome: StepOutcome
    """How it ended."""
    reason: str = ""
    """Why it was skipped, denied or failed."""
    code: int = 0
    """HTTP code of the refusal or the failure, as metrics count it; 0 where there is none."""
    patch: tuple[JSONObject, ...] = ()
    """The JSON Patch operations that it applied."""
    duration_seconds: float = 0.0
    """How long it took."""
    endpoint: str = ""
    """Where it ran."""
    ended_at: int = msgspec.field(default_factory=time.perf_counter_ns)
    """When it had happened, by ``time.perf_counter_ns``."""
    unmet: tuple[int, ...] = ()
    """Which of a policy's validations were false, from 0: known where the policy ran in this process."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the chain makes of a review."""

    uid: str
    """The review's."""
    allowed: bool
    """Whether the request is let through."""
    status: Status | None = None
    """Why it is refused; None where it is not."""
    object_document: Document = NULL
    """The object as the chain leaves it; null on DELETE."""
    patch: tuple[JSONObject, ...] = ()
    """JSON Patch operations from the object received to that one."""
    warnings: tuple[str, ...] = ()
    """Texts for the user."""
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Entries for the audit log."""
    steps: tuple[Step, ...] = ()
    """What happened, in order."""
    phase_seconds: Mapping[Phase, float] = dataclasses.field(default_factory=dict)
    """How long each phase that ran took, as metrics count it."""
    expanded: tuple[Decision, ...] = ()
    """Decisions on the Pods that a reviewed workload would make."""


def to_document(decision: Decision) -> JSONObject:
    """The decision document, as ``-o json`` and ``POST /explain`` show it."""
    return {
        "uid": decision.uid,
        "allowed": decision.allowed,
        "status": statuses.to_document(decision.status) if decision.status else None,
        "object": decision.object_document.data,
        "patch": list(decision.patch),
        "warnings": list(decision.warnings),
        "auditAnnotations": dict(decision.audit_annotations),
        "steps": [_step_document(step) for step in decision.steps],
        "expanded": [to_document(pod) for pod in decision.expanded],
    }


def _step_document(step: Step) -> JSON:
    return {
        "controller": step.controller,
        "phase": str(step.phase),
        "name": step.name,
        "configuration": step.configuration,
        "round": step.round,
        "outcome": str(step.outcome),
        "reason": step.reason,
        "patch": list(step.patch),
        "durationMs": round(step.duration_seconds * 1000, 3),
        "endpoint": step.endpoint,
    }


MAX_WARNINGS_LENGTH = 4096
"""Above this all warnings are cut short; once it is reached by cut ones, no more are added."""

MAX_WARNING_LENGTH = 256
"""The length to which each is then cut."""

# Control characters, and halves of surrogate pairs, which stand for text that was no valid UTF-8.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def limited_warnings(
    texts: Iterable[str], *, total: int = MAX_WARNINGS_LENGTH, each: int = MAX_WARNING_LENGTH
) -> list[str]:
    """The warnings that the API server would show for ``texts``, given in the order in which they arose.

    Empty ones, repeated ones, and those that no header can hold are left out.
    """
    recorded: dict[str, None] = {}
    shown: list[str] = []
    written, truncating = 0, False
    for text in texts:
        if not text or text in recorded or (truncating and written >= total):
            continue
        recorded[text] = None
        # Cutting comes before the look at the characters: a cut may take the unfit ones away.
        short = text[:each] if truncating else text
        if _UNPRINTABLE.search(short):
            continue
        if truncating or written + len(short) <= total:
            shown.append(short)
            written += len(short)
        else:
            truncating = True
            shown = [cut for cut in (one[:each] for one in recorded) if not _UNPRINTABLE.search(cut)]
            written = sum(map(len, shown))
    return shown
