"""Steps in shadow: what a policy, webhook or controller would have done, which has no effect.

See ``docs/adr/0034-shadows-decide-and-have-no-effect.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.statuses import go_quoted
from pratique_frontdoor.chain.decisions import Record, Shadow, Step

_MOST_PATHS = 5
_LONGEST_ANNOTATION = 1024
"""Characters of an audit annotation: a policy's message alone may have five times as many."""
_FAILURES = frozenset({OutcomeStatus.FAILED, OutcomeStatus.FAILED_OPEN})


def record_shadow(step: Step, rollout: str, record: Record, *names: str) -> None:
    """Record a step in shadow, and annotate what it would have done.

    Args:
        step: The step as it would have been.
        rollout: The name of the PolicyRollout.
        record: The record of the review.
        names: Tell the audit annotation from those of other steps of the controller.
    """
    if step.outcome is OutcomeStatus.SKIPPED:
        record.steps.append(step)
        return
    shadow = Shadow(rollout=rollout, outcome=step.outcome, patch=step.patch)
    shadowed = shadowed_step(step, shadow)
    record.steps.append(shadowed)
    if shadow.differs:
        key = ".".join((f"{step.controller.lower()}/shadow", *filter(None, names)))
        record.annotate({key: shadowed.reason[:_LONGEST_ANNOTATION]})


def shadowed_step(step: Step, shadow: Shadow) -> Step:
    """Return the step of something that decided and had no effect, from the step as it would have been."""
    return msgspec.structs.replace(
        step,
        outcome=_effective(step),
        reason=f"in shadow by PolicyRollout {go_quoted(shadow.rollout)}: {_intention(step)}",
        code=0,
        patch=(),
        shadow=shadow,
    )


def _effective(step: Step) -> OutcomeStatus:
    if step.outcome in _FAILURES:
        return OutcomeStatus.FAILED_OPEN
    return OutcomeStatus.UNCHANGED if step.phase is Phase.MUTATE else OutcomeStatus.ALLOWED


_INTENTIONS = {
    OutcomeStatus.ALLOWED: "would have allowed the request",
    OutcomeStatus.UNCHANGED: "would have left the object unchanged",
    OutcomeStatus.DENIED: "would have denied the request",
    OutcomeStatus.FAILED: "would have denied the request, because it failed",
    OutcomeStatus.FAILED_OPEN: "failed, which would have been ignored",
    OutcomeStatus.WARNED: "would have warned",
}


def _intention(step: Step) -> str:
    """Say what a step would have done, and why."""
    if step.outcome is OutcomeStatus.MUTATED:
        return f"would have changed {_paths(step.patch)}"
    intention = _INTENTIONS[step.outcome]
    return f"{intention}: {step.reason}" if step.reason else intention


def _paths(patch: Sequence[JSONObject]) -> str:
    paths = list(dict.fromkeys(str(operation.get("path")) or "the whole object" for operation in patch))
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return (", ".join(paths[:_MOST_PATHS]) or "the object") + more


def shadow_deadline(deadline: Deadline) -> Deadline:
    """Return when something in shadow must have answered: it takes at most half of the time that is left.

    So no shadow, however slow, takes the time that what is enforced needs.
    """
    return deadline.sooner(deadline.remaining_seconds / 2)
