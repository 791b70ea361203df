"""Webhooks: matched, called, and their answers weighed by failure policy."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import time
from typing import TYPE_CHECKING, TypeAlias

from frontdoor.chain.decisions import Step
from pratique.admission.calls import Call
from pratique.admission.controllers import Phase
from pratique.admission.label_subjects import selecting
from pratique.admission.matched_resources import Asked, find_target
from pratique.admission.outcomes import Denied, Failed, FailureKind, Outcome
from pratique.admission.outcomes import Ending as StepOutcome
from pratique.admission.rules import compile_rules
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import CallError, CallTimeoutError, ConversionError
from pratique.apimachinery.selectors import Selector
from pratique.apimachinery.statuses import Status
from pratique.cel.costs import Patience
from pratique.cel.environments import MATCH_CONDITIONS
from pratique.cel.errors import OutOfBudgetError, SlowEvaluationError
from pratique.cel.expressions import (
    Condition,
    compile_expression,
    errors_of,
    evaluate_conditions,
    first_false,
)
from pratique.cel.policy_environments import AdmissionVariables
from pratique.cluster.api_resources import VIRTUAL_RESOURCES
from pratique.telemetry.policy_metrics import ConditionCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from frontdoor.transports import Transport
    from frontdoor.transports.circuit_breakers import CircuitBreakers
    from pratique.admission.calls import Deadline
    from pratique.admission.label_subjects import Selecting, Subject
    from pratique.admission.matched_resources import Target
    from pratique.admission.reviews import Review
    from pratique.admission.rules import RuleSet
    from pratique.cel.expressions import ConditionFinding
    from pratique.cel.values import Value
    from pratique.cluster.api_resources import Resources
    from pratique.configuration.webhooks import MatchCondition, Webhook, WebhookConfiguration
    from pratique.telemetry.policy_metrics import ConditionMetrics


@dataclasses.dataclass(frozen=True, slots=True)
class Matched:
    """The webhook is to be called."""

    review: Review
    """As the webhook wants to see it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """The webhook does not want to see the review."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """It cannot be told whether the webhook wants to see the review, so the request is refused."""

    status: Status
    inconvertible: bool = False
    """The objects cannot be had as the webhook wants them: what mutating ones say of that, they say twice."""


Match: TypeAlias = Matched | Skipped | Refused

_OTHER_NAMESPACE = Skipped("namespaceSelector does not match the labels of the namespace")
_OTHER_OBJECT = Skipped("objectSelector matches the labels of neither object nor oldObject")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """What one webhook wants to see."""

    rules: RuleSet
    equivalent: bool = False
    """Whether rules that name another version of a collection mean it, too."""
    namespace_selector: Selecting
    """Defaulting turns an absent selector into the empty one."""
    object_selector: Selecting
    """Likewise."""
    conditions: MatchConditions | None = None
    """What must be true besides; None for nothing."""
    _any_namespace: bool = dataclasses.field(init=False)
    _any_object: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Note which selectors need not be asked: of most webhooks both, of each review all."""
        object.__setattr__(self, "_any_namespace", _is_everything(self.namespace_selector))
        object.__setattr__(self, "_any_object", _is_everything(self.object_selector))

    def target(self, asked: Asked, resources: Resources) -> Target | None:
        """What the rules say, whatever the objects are: None where the webhook wants none of that."""
        return find_target(self.rules, asked, resources if self.equivalent else None)

    def match(self, subject: Subject, target: Target | None) -> Match:
        """Decide whether the webhook is to be called, as far as its conditions have no say in it.

        ``target`` is what the rules have found.
        """
        if target is None:
            return Skipped(self.rules.mismatch(subject.review))
        in_namespace = self._any_namespace or subject.is_in_namespace(self.namespace_selector)
        if in_namespace is False:
            return _OTHER_NAMESPACE
        selected = self._any_object or subject.is_object(self.object_selector)
        if selected is False:
            return _OTHER_OBJECT
        for refusal in (target.fault, in_namespace, selected):
            if isinstance(refusal, Status):
                return Refused(refusal)
        return _aimed(target, subject)

    async def weigh(self, match: Match, deadline: Deadline) -> Match:
        """Decide as the conditions say, where everything else matches."""
        if self.conditions is None or not isinstance(match, Matched):
            return match
        return await self.conditions.decide(match.review, deadline.at)


def _is_everything(selector: Selecting) -> bool:
    return isinstance(selector, Selector) and selector.is_empty


def _aimed(target: Target, subject: Subject) -> Match:
    try:
        return Matched(subject.aimed(target))
    except ConversionError as error:
        return Refused(statuses.internal_error(str(error)), inconvertible=True)


_PATIENCE = 10_000
"""What the conditions of a webhook may cost on the event loop: about 2 ms; what costs more goes on in a thread."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatchConditions:
    """The conditions of one webhook, compiled."""

    fails_open: bool
    """Whether the webhook is skipped where a condition cannot be evaluated; else the request is refused."""
    _conditions: tuple[Condition, ...]
    _observe: Callable[[str, ConditionCheck], None] | None = None

    @classmethod
    def compile(
        cls,
        conditions: Iterable[MatchCondition],
        *,
        fails_open: bool,
        observe: Callable[[str, ConditionCheck], None] | None = None,
    ) -> MatchConditions:
        """Compile conditions; ``observe`` is told of each operation and what they came to.

        Raises:
            CompilationError: one does not compile, in the API server's words.
        """
        compiled = (
            Condition(one.name, compile_expression(one.expression.strip(), MATCH_CONDITIONS, "bool"))
            for one in conditions
        )
        return cls(fails_open, tuple(compiled), observe)

    async def decide(self, review: Review, until: float | None = None) -> Match:
        """Decide whether the webhook is to be called.

        Args:
            review: As the webhook wants to see it.
            until: When the request's time is up, by ``time.monotonic``.
        """
        variables = AdmissionVariables(review, review.authorizer)
        try:
            return self._decide(review, variables, until, Patience(_PATIENCE, _PATIENCE))
        except SlowEvaluationError:
            return await asyncio.to_thread(self._decide, review, variables, until, None)

    def _decide(
        self, review: Review, variables: Mapping[str, Value], until: float | None, patience: Patience | None
    ) -> Match:
        begun = time.perf_counter()
        try:
            findings = evaluate_conditions(self._conditions, variables, until, patience)
        except OutOfBudgetError as error:
            return self._told(review, self.failed(review, [str(error)]), (), begun)
        return self._told(review, self.conclude(review, findings), findings, begun)

    def _told(
        self, review: Review, match: Match, findings: Sequence[ConditionFinding], begun: float
    ) -> Match:
        """Tell whoever counts."""
        if self._observe is not None:
            errors = len(errors_of(tuple(itertools.takewhile(lambda one: one[1] is not False, findings))))
            held, excluded = isinstance(match, Matched), isinstance(match, Skipped)
            check = ConditionCheck(time.perf_counter() - begun, held, errors, excluded)
            self._observe(review.operation, check)
        return match

    def conclude(self, review: Review, findings: Sequence[ConditionFinding]) -> Match:
        """Weigh what the conditions came to: a false one decides, then an error by failure policy."""
        if (name := first_false(findings)) is not None:
            return Skipped(f"matchCondition {statuses.go_quoted(name)} is false")
        errors = errors_of(findings)
        return self.failed(review, errors) if errors else Matched(review)

    def failed(self, review: Review, errors: Sequence[str]) -> Match:
        """Weigh that conditions could not be evaluated: the failure policy decides."""
        text = statuses.aggregate(errors)
        if self.fails_open:
            return Skipped(f"matchConditions cannot be evaluated and failurePolicy is Ignore: {text}")
        resource = review.request_resource or review.resource
        return Refused(statuses.forbidden(resource.group, resource.resource, review.name, text))


Candidate: TypeAlias = "tuple[Hook, Target | None]"
"""A webhook, and what its rules make of a review: None where they do not want it."""

_EXCLUDED_GROUP = "admissionregistration.k8s.io"
_EXCLUDED_KINDS = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)
"""Sent to none but static webhooks, so that a broken one can be repaired.

Source: ``IsExemptAdmissionConfigurationResource`` in ``…/plugin/webhook/predicates/rules/rules.go``.
"""

_REMEMBERED = 256
"""Kinds of requests whose candidates are remembered: the four operations on 64 collections and subresources.

More would take memory that a list of a thousand webhooks for everything fills: 64 bytes for each of them.
"""


class HookList:
    """Webhooks in calling order, indexed by what their rules say of a request.

    Rules look at little: operation, collection, and whether there is a namespace. So they are held against each
    such combination once, and a review costs nothing for the webhooks that do not want what it asks.
    """

    def __init__(self, hooks: Iterable[Hook]) -> None:
        """Hold ``hooks``, which are in calling order."""
        self._hooks: tuple[Hook, ...] = tuple(hooks)
        self._static = tuple(hook for hook in self._hooks if hook.is_static)
        self._wanting = functools.lru_cache(_REMEMBERED)(self._find_wanting)

    def __iter__(self) -> Iterator[Hook]:
        """Every webhook, in calling order."""
        return iter(self._hooks)

    def __len__(self) -> int:
        """How many webhooks there are."""
        return len(self._hooks)

    def candidates(self, review: Review, *, every: bool = False) -> Sequence[Candidate]:
        """The webhooks whose rules match, in calling order; with ``every``, the others, too."""
        if not self._hooks:
            return ()
        asked, resources = Asked.of(review), review.cluster.resources
        return self._look_at(asked, resources) if every else self._wanting(asked, resources)

    def _find_wanting(self, asked: Asked, resources: Resources) -> tuple[Candidate, ...]:
        return tuple(candidate for candidate in self._look_at(asked, resources) if candidate[1] is not None)

    def _look_at(self, asked: Asked, resources: Resources) -> list[Candidate]:
        return [(hook, hook.matcher.target(asked, resources)) for hook in self._callable(asked)]

    def _callable(self, asked: Asked) -> Sequence[Hook]:
        """All webhooks that may be called for such a request at all.

        Source: ``Dispatch`` in ``k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go``.
        """
        if (asked.resource.group, asked.resource.resource) in VIRTUAL_RESOURCES:
            # Since Kubernetes 1.37: feature gate ``ExcludeAdmissionWebhookVirtualResources``.
            return ()
        if asked.kind.group == _EXCLUDED_GROUP and asked.kind.kind in _EXCLUDED_KINDS:
            # Static webhooks are in files, where they can be repaired without asking anybody.
            return self._static
        return self._hooks


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


def configured_hooks(
    configurations: Iterable[WebhookConfiguration],
    phase: Phase,
    reach: Callable[[Webhook, Phase], Transport],
    metrics: ConditionMetrics | None = None,
    breakers: CircuitBreakers | None = None,
) -> HookList:
    """Make the webhooks of one phase ready to be matched and called.

    Args:
        configurations: Those of the phase, in the order in which they are called.
        phase: The phase.
        reach: Gives the way to reach a webhook.
        metrics: Counts what becomes of match conditions.
        breakers: Stops calls to webhooks that keep failing.
    """
    hooks: list[Hook] = []
    for configuration in configurations:
        counts: dict[str, int] = {}
        for webhook in configuration.webhooks:
            number = counts.get(webhook.name, 0)
            counts[webhook.name] = number + 1
            transport = reach(webhook, phase)
            if breakers is not None:
                transport = breakers.guard(transport, webhook.name, configuration.name, phase)
            hooks.append(
                Hook(
                    webhook=webhook,
                    configuration=configuration.name,
                    is_static=configuration.is_static,
                    uid=f"{configuration.name}/{webhook.name}/{number}",
                    index=len(hooks),
                    matcher=_matcher(webhook, phase, metrics),
                    transport=transport,
                    call=Call(webhook.name, webhook.timeout_seconds),
                )
            )
    return HookList(hooks)


def _matcher(webhook: Webhook, phase: Phase, metrics: ConditionMetrics | None) -> Matcher:
    return Matcher(
        rules=compile_rules(webhook.rules),
        equivalent=webhook.match_policy == "Equivalent",
        namespace_selector=selecting(webhook.namespace_selector),
        object_selector=selecting(webhook.object_selector),
        conditions=_conditions(webhook, phase, metrics) if webhook.match_conditions else None,
    )


def _conditions(webhook: Webhook, phase: Phase, metrics: ConditionMetrics | None) -> MatchConditions:
    from frontdoor.chain.webhooks import MatchConditions  # noqa: PLC0415 - CEL, for those who use it

    kind = "admit" if phase is Phase.MUTATE else "validate"
    observe = None if metrics is None else functools.partial(metrics.observe_webhook, webhook.name, kind)
    fails_open = webhook.failure_policy == "Ignore"
    return MatchConditions.compile(webhook.match_conditions, fails_open=fails_open, observe=observe)
