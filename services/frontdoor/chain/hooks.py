"""Hooks: webhooks made ready, asked, and their answers weighed by failure policy."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from frontdoor.decisions import Step, StepOutcome
from pratique import statuses
from pratique.definitions import Phase
from pratique.errors import CallError, CallTimeoutError
from pratique.outcomes import Denied, Failed, FailureKind, Outcome

if TYPE_CHECKING:
    from frontdoor.chain.matching import Matcher
    from frontdoor.transports import Transport
    from pratique.calls import Call, Deadline
    from pratique.configurations.webhooks import Webhook
    from pratique.reviews import Review
    from pratique.statuses import Status

CONTROLLERS = {Phase.MUTATE: "MutatingAdmissionWebhook", Phase.VALIDATE: "ValidatingAdmissionWebhook"}
"""The admission controllers that call webhooks."""

_WITHOUT_SIDE_EFFECTS = ("None", "NoneOnDryRun")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One webhook of one configuration, ready to be matched and called."""

    webhook: Webhook
    """As configured, defaults filled in."""
    configuration: str
    """The configuration's name."""
    is_static: bool = False
    """Whether the configuration stands in a file alone, and never in the API."""
    uid: str
    """``<configuration>/<webhook>/<n>``, n counting webhooks of that name in the configuration."""
    index: int
    """Its place among all configured hooks of its kind, for audit annotations."""
    matcher: Matcher
    """What it wants to see."""
    transport: Transport
    """How it is reached."""
    call: Call
    """Its name and timeout."""

    @property
    def name(self) -> str:
        """The webhook's name."""
        return self.webhook.name

    @property
    def fails_open(self) -> bool:
        """Whether a failed call lets the request through."""
        return self.webhook.failure_policy == "Ignore"

    def step(self, phase: Phase, outcome: StepOutcome, *, reason: str = "", round_number: int = 0) -> Step:
        """Describe something that happened to this hook without calling it."""
        return Step(
            controller=CONTROLLERS[phase],
            phase=phase,
            name=self.name,
            configuration=self.configuration,
            round=round_number,
            outcome=outcome,
            reason=reason,
        )


def failed_calling(webhook: str, reason: str) -> str:
    """``ErrCallingWebhook``: the only class of errors that a failure policy can ignore."""
    return f"failed calling webhook {statuses.go_quoted(webhook)}: {reason}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of asking one hook, after its failure policy has been weighed."""

    outcome: Outcome
    """What it answered; a failed call stands as ``Failed``."""
    denial: Status | None = None
    """Why the request is refused; None where it is not."""
    duration_seconds: float = 0.0
    """From the decision to call until the answer was understood."""
    is_asked: bool = True
    """False where the request was refused in place of asking."""

    @property
    def failed(self) -> bool:
        """True where there was no usable answer."""
        return isinstance(self.outcome.decision, Failed)

    @property
    def code(self) -> int:
        """The HTTP code of a refusal or failure as the API server's metrics count it: 0 for its own refusals."""
        decision = self.outcome.decision
        if isinstance(decision, Failed):
            return decision.code
        return decision.status.code if isinstance(decision, Denied) and self.is_asked else 0

    @property
    def reason(self) -> str:
        """Why there was no usable answer, as the API server words it; empty where there was one."""
        decision = self.outcome.decision
        if not isinstance(decision, Failed):
            return ""
        return failed_calling(self.outcome.controller, decision.message)

    @property
    def failed_open(self) -> bool:
        """True where there was no usable answer, and the request goes on all the same."""
        return self.failed and self.denial is None


async def ask(hook: Hook, review: Review, phase: Phase, deadline: Deadline) -> Result:
    """Call a hook and weigh what comes of it.

    Source: ``…/webhook/mutating/dispatcher.go`` and ``…/validating/dispatcher.go`` ``callHook``: an explicit
    denial always refuses; only a failed call can be ignored.
    """
    started = time.monotonic()
    refusal = None
    try:
        refusal = _dry_run_refusal(hook, review)
        outcome = refusal or await _call(hook, review, phase, deadline)
    except CallError as error:
        kind = FailureKind.TIMEOUT if isinstance(error, CallTimeoutError) else FailureKind.ERROR
        outcome = Outcome(controller=hook.name, decision=Failed(kind, str(error), error.code))
    return Result(
        outcome=outcome,
        denial=_denial(hook, outcome),
        duration_seconds=time.monotonic() - started,
        is_asked=refusal is None,
    )


async def _call(hook: Hook, review: Review, phase: Phase, deadline: Deadline) -> Outcome:
    calls, until = (hook.call,), deadline.sooner(hook.call.timeout_seconds)
    if phase is Phase.MUTATE:
        return (await hook.transport.mutate(review, calls, until))[0]
    return (await hook.transport.validate(review, calls, until))[0]


def _dry_run_refusal(hook: Hook, review: Review) -> Outcome | None:
    if not review.dry_run:
        return None
    side_effects = hook.webhook.side_effects
    if side_effects is None:
        raise CallError("Webhook SideEffects is nil", code=400)
    if side_effects in _WITHOUT_SIDE_EFFECTS:
        return None
    text = f"admission webhook {statuses.go_quoted(hook.name)} does not support dry run"
    return Outcome(controller=hook.name, decision=Denied(statuses.bad_request(text)))


def _denial(hook: Hook, outcome: Outcome) -> Status | None:
    match outcome.decision:
        case Denied(status):
            return status
        case Failed(message=message) if not hook.fails_open:
            return statuses.internal_error(failed_calling(hook.name, message))
        case _:
            return None
