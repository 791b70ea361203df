"""Webhooks of the chain: matching, calls, and failure policies."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.late_reviews import LEAST_SECONDS, LateReviews
from pratique.admission.matching import (
    MatchContext,
    MatchedResource,
    RequestKey,
    SelectorOrStatus,
    compile_selector_or_status,
    find_matched_resource,
)
from pratique.admission.results import Denied, Failed, FailureKind, Outcome, OutcomeStatus
from pratique.admission.reviews import Call, Deadline, Review
from pratique.admission.rules import RuleSet, compile_rules
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import CallError, CallTimeoutError, ConversionError
from pratique.apimachinery.selectors import Selector
from pratique.apimachinery.statuses import Status
from pratique.cluster.api_resources import VIRTUAL_RESOURCES, ApiResources
from pratique.cluster.conversion import PendingConversionError, fulfil_conversion
from pratique.configuration.admissionregistration import Webhook, WebhookConfiguration
from pratique.configuration.policy_references import PolicyReferenceKind
from pratique.policies.allow_lists import NO_ALLOW_LISTS, AllowList, AllowLists
from pratique.policies.exceptions import (
    NO_EXEMPTIONS,
    Exemption,
    Exemptions,
    exemption_annotation,
    find_exemption,
)
from pratique.policies.rollouts import NO_ROLLOUTS, Rollout, Rollouts
from pratique.processes.review_threads import work_on_review
from pratique.telemetry.policy_metrics import MatchConditionMetrics
from pratique_frontdoor.chain.decisions import Step
from pratique_frontdoor.chain.shadows import shadow_deadline
from pratique_frontdoor.transports import Transport
from pratique_frontdoor.transports.circuit_breakers import CircuitBreakers

if TYPE_CHECKING:
    from pratique_frontdoor.chain.match_conditions import MatchConditions


class Matched(msgspec.Struct, frozen=True):
    """The webhook is to be called."""

    review: Review
    """The review, converted for the webhook."""


class Skipped(msgspec.Struct, frozen=True):
    """The webhook is not called for the review."""

    reason: str
    is_exempted: bool = False
    """Whether it would be called, but for an exception."""


class Refused(msgspec.Struct, frozen=True):
    """Whether to call the webhook cannot be determined, so the request is denied."""

    status: Status
    inconvertible: bool = False
    """The objects cannot be converted for the webhook. Mutating webhooks wrap this error once more."""


Match: TypeAlias = Matched | Skipped | Refused

_OTHER_NAMESPACE = Skipped("namespaceSelector does not match the labels of the namespace")
_OTHER_OBJECT = Skipped("objectSelector matches the labels of neither object nor oldObject")


class Matcher(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests one webhook is called for."""

    rules: RuleSet
    equivalent: bool = False
    """Whether rules also match other versions of a resource (``matchPolicy: Equivalent``)."""
    namespace_selector: SelectorOrStatus
    """The namespace selector; defaulting turns an absent one into the empty one."""
    object_selector: SelectorOrStatus
    """The object selector; defaulting turns an absent one into the empty one."""
    conditions: MatchConditions | None = None
    """The match conditions; None without any."""
    _any_namespace: bool = False
    _any_object: bool = False

    def __post_init__(self) -> None:
        """Remember which selectors match everything: for most webhooks both do, for every review."""
        msgspec.structs.force_setattr(self, "_any_namespace", _selects_everything(self.namespace_selector))
        msgspec.structs.force_setattr(self, "_any_object", _selects_everything(self.object_selector))

    def target(self, request_key: RequestKey, resources: ApiResources) -> MatchedResource | None:
        """Return the matched resource by the rules alone; None if they do not match."""
        return find_matched_resource(self.rules, request_key, resources if self.equivalent else None)

    def match(self, subject: MatchContext, target: MatchedResource | None) -> Match:
        """Decide whether the webhook is to be called, before its match conditions.

        ``target`` is the resource that the rules matched.

        Raises:
            PendingConversionError: a webhook has to convert the objects first.
        """
        if target is None:
            return Skipped(self.rules.mismatch(subject.review))
        in_namespace = self._any_namespace or subject.selects_namespace(self.namespace_selector)
        if in_namespace is False:
            return _OTHER_NAMESPACE
        selected = self._any_object or subject.selects_object(self.object_selector)
        if selected is False:
            return _OTHER_OBJECT
        for refusal in (target.fault, in_namespace, selected):
            if isinstance(refusal, Status):
                return Refused(refusal)
        return _converted_match(target, subject)

    async def match_converted(
        self, subject: MatchContext, target: MatchedResource | None, deadline: Deadline
    ) -> Match:
        """Do the same, and ask the webhooks that convert the objects, if there are any."""
        while True:
            try:
                return await work_on_review(subject.review.received_values, self.match, subject, target)
            except PendingConversionError as pending:
                await fulfil_conversion(pending, subject.review.conversion_webhooks, deadline.at)

    async def apply_conditions(self, match: Match, deadline: Deadline) -> Match:
        """Apply the match conditions if everything else matches."""
        if self.conditions is None or not isinstance(match, Matched):
            return match
        return await self.conditions.decide(match.review, deadline.at)


def _selects_everything(selector: SelectorOrStatus) -> bool:
    return isinstance(selector, Selector) and selector.is_empty


def _converted_match(target: MatchedResource, subject: MatchContext) -> Match:
    try:
        return Matched(subject.converted(target))
    except ConversionError as error:
        return Refused(statuses.internal_error(str(error)), inconvertible=True)


MatchedWebhook: TypeAlias = "tuple[ChainWebhook, MatchedResource | None]"
"""A webhook, and the resource that its rules match; None if they do not match."""

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
"""Sent only to static webhooks, so that a broken webhook can be repaired.

Source: ``IsExemptAdmissionConfigurationResource`` in ``…/plugin/webhook/predicates/rules/rules.go``.
"""

_CACHED_REQUESTS = 256
"""Cached kinds of requests: the four operations on 64 resources and subresources.

A larger cache would take much memory with a list of a thousand webhooks for everything: 64 bytes for each.
"""


class WebhookIndex:
    """Webhooks in calling order, indexed by the requests that their rules match.

    Rules look only at operation, resource and scope. They are matched once for each such combination, so a review costs
    nothing for the webhooks that do not match it.
    """

    def __init__(self, hooks: Iterable[ChainWebhook]) -> None:
        """Index ``hooks``, which are in calling order."""
        self._hooks: tuple[ChainWebhook, ...] = tuple(hooks)
        self._static = tuple(hook for hook in self._hooks if hook.is_static)
        self._matching = functools.lru_cache(_CACHED_REQUESTS)(self._find_matching)

    def __iter__(self) -> Iterator[ChainWebhook]:
        """Iterate over the webhooks in calling order."""
        return iter(self._hooks)

    def __len__(self) -> int:
        """Return the number of webhooks."""
        return len(self._hooks)

    def candidates(self, review: Review, *, every: bool = False) -> Sequence[MatchedWebhook]:
        """Return the webhooks whose rules match, in calling order; with ``every``, the others as well."""
        if not self._hooks:
            return ()
        request_key, resources = RequestKey.of(review), review.cluster.resources
        return self._match_rules(request_key, resources) if every else self._matching(request_key, resources)

    def _find_matching(self, request_key: RequestKey, resources: ApiResources) -> tuple[MatchedWebhook, ...]:
        return tuple(
            candidate for candidate in self._match_rules(request_key, resources) if candidate[1] is not None
        )

    def _match_rules(self, request_key: RequestKey, resources: ApiResources) -> list[MatchedWebhook]:
        return [(hook, hook.matcher.target(request_key, resources)) for hook in self._eligible(request_key)]

    def _eligible(self, request_key: RequestKey) -> Sequence[ChainWebhook]:
        """Return the webhooks that may be called for such a request at all.

        Source: ``Dispatch`` in ``k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go``.
        """
        if (request_key.resource.group, request_key.resource.resource) in VIRTUAL_RESOURCES:
            # Since Kubernetes 1.37: feature gate ``ExcludeAdmissionWebhookVirtualResources``.
            return ()
        if request_key.kind.group == _EXCLUDED_GROUP and request_key.kind.kind in _EXCLUDED_KINDS:
            # Static webhooks are in files, where they can be repaired without the API.
            return self._static
        return self._hooks


CONTROLLERS = {Phase.MUTATE: "MutatingAdmissionWebhook", Phase.VALIDATE: "ValidatingAdmissionWebhook"}
"""The admission controllers that call webhooks."""

_NO_TIME = "failed to call webhook: context deadline exceeded"
"""As for a call that has no time left."""
_WITHOUT_SIDE_EFFECTS = ("None", "NoneOnDryRun")


class ChainWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook of one configuration, ready to be matched and called."""

    webhook: Webhook
    """The configured webhook with defaults."""
    configuration: str
    """The configuration's name."""
    is_static: bool = False
    """Whether the configuration is only in a file, and never in the API."""
    uid: str
    """``<configuration>/<webhook>/<n>``, where n counts webhooks of that name in the configuration."""
    index: int
    """The index among all configured webhooks of its kind, for audit annotations."""
    matcher: Matcher
    """Which requests it is called for."""
    transport: Transport
    """The transport that reaches it."""
    call: Call
    """The name and timeout of the call."""
    exemptions: tuple[Exemption, ...] = ()
    """The exceptions from the webhook."""
    rollout: Rollout | None = None
    """Its rollout, if it is not enforced everywhere."""
    allow_list: AllowList | None = None
    """The fields that it may change; None means all."""
    late_reviews: LateReviews
    """The reviews whose calls took all their time."""

    @property
    def name(self) -> str:
        """The webhook's name."""
        return self.webhook.name

    @property
    def fails_open(self) -> bool:
        """Whether a failed call allows the request."""
        return self.webhook.failure_policy == "Ignore"

    def apply_exceptions(self, match: Match, review: Review) -> Match:
        """Skip the webhook if an exception exempts the review, which is in the version of the request."""
        if (
            self.exemptions
            and isinstance(match, Matched)
            and (told := find_exemption(self.exemptions, review))
        ):
            return Skipped(told, is_exempted=True)
        return match

    def shadow(self, review: Review) -> str:
        """Return the name of the PolicyRollout that keeps the webhook in shadow for a review; empty if none does."""
        return self.rollout.name if self.rollout is not None and self.rollout.in_shadow(review) else ""

    def exemption_annotation(self, phase: Phase, told: str) -> dict[str, str]:
        """Return the audit annotation of a request that is exempted from the webhook."""
        annotation = exemption_annotation(told, self.configuration, self.name)
        return {f"{CONTROLLERS[phase].lower()}/{key}": value for key, value in annotation.items()}

    def step(self, phase: Phase, outcome: OutcomeStatus, *, reason: str = "", round_number: int = 0) -> Step:
        """Return a step for something that happened to this webhook without a call."""
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
    """Return the message of ``ErrCallingWebhook``, the only class of errors that a failure policy can ignore."""
    return f"failed calling webhook {statuses.go_quoted(webhook)}: {reason}"


class WebhookResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of calling one webhook, with its failure policy applied."""

    outcome: Outcome
    """The webhook's outcome; ``Failed`` for a failed call."""
    denial: Status | None = None
    """Why the request is denied; None if it is not."""
    duration_seconds: float = 0.0
    """Seconds from the decision to call until the answer was decoded."""
    is_asked: bool = True
    """False if the request was denied without a call."""

    @property
    def failed(self) -> bool:
        """True if there was no usable answer."""
        return isinstance(self.outcome.decision, Failed)

    @property
    def code(self) -> int:
        """The HTTP code in the API server's metrics; 0 for denials of the chain itself."""
        decision = self.outcome.decision
        if isinstance(decision, Failed):
            return decision.code
        return decision.status.code if isinstance(decision, Denied) and self.is_asked else 0

    @property
    def reason(self) -> str:
        """Why there was no usable answer, as the API server words it; empty if there was one."""
        decision = self.outcome.decision
        if not isinstance(decision, Failed):
            return ""
        return failed_calling(self.outcome.controller, decision.message)

    @property
    def failed_open(self) -> bool:
        """True if there was no usable answer and the request continues."""
        return self.failed and self.denial is None


async def call_webhook(hook: ChainWebhook, review: Review, phase: Phase, deadline: Deadline) -> WebhookResult:
    """Call a webhook and apply its failure policy.

    Source: ``…/webhook/mutating/dispatcher.go`` and ``…/validating/dispatcher.go`` ``callHook``: an explicit
    denial always refuses; only a failed call can be ignored.
    """
    started = time.monotonic()
    refusal = None
    try:
        refusal = _dry_run_refusal(hook, review)
        if not refusal and hook.late_reviews.remembered and hook.late_reviews.refuse(review):
            raise CallTimeoutError(_NO_TIME)
        outcome = refusal or await _call_transport(hook, review, phase, deadline)
        if hook.late_reviews.remembered:
            hook.late_reviews.answer(review)
    except CallError as error:
        kind = FailureKind.TIMEOUT if isinstance(error, CallTimeoutError) else FailureKind.ERROR
        if kind is FailureKind.TIMEOUT and (took := time.monotonic() - started) >= LEAST_SECONDS:
            hook.late_reviews.fail(review, took)
        outcome = Outcome(controller=hook.name, decision=Failed(kind, str(error), error.code))
    return WebhookResult(
        outcome=outcome,
        denial=_denial(hook, outcome),
        duration_seconds=time.monotonic() - started,
        is_asked=refusal is None,
    )


async def call_in_shadow(
    hook: ChainWebhook, review: Review, phase: Phase, deadline: Deadline
) -> WebhookResult | Skipped:
    """Call a webhook whose answer has no effect, and so neither may the call; skip it if that cannot be avoided."""
    side_effects = hook.webhook.side_effects
    if side_effects not in _WITHOUT_SIDE_EFFECTS:
        return Skipped(f"in shadow, and not called: it may have side effects (sideEffects: {side_effects})")
    if side_effects != "None" and not review.dry_run:
        review = msgspec.structs.replace(review, dry_run=True)
    return await call_webhook(hook, review, phase, shadow_deadline(deadline))


async def _call_transport(hook: ChainWebhook, review: Review, phase: Phase, deadline: Deadline) -> Outcome:
    calls, until = (hook.call,), deadline.sooner(hook.call.timeout_seconds)
    if phase is Phase.MUTATE:
        return (await hook.transport.mutate(review, calls, until))[0]
    return (await hook.transport.validate(review, calls, until))[0]


def _dry_run_refusal(hook: ChainWebhook, review: Review) -> Outcome | None:
    if not review.dry_run:
        return None
    side_effects = hook.webhook.side_effects
    if side_effects is None:
        raise CallError("Webhook SideEffects is nil", code=400)
    if side_effects in _WITHOUT_SIDE_EFFECTS:
        return None
    text = f"admission webhook {statuses.go_quoted(hook.name)} does not support dry run"
    return Outcome(controller=hook.name, decision=Denied(statuses.bad_request(text)))


def violating_result(hook: ChainWebhook, result: WebhookResult, told: str) -> WebhookResult:
    """Return the result of a webhook whose patch counts as a failed call, because it changes what it may not."""
    outcome = Outcome(controller=hook.name, decision=Failed(FailureKind.ERROR, told, 500))
    return msgspec.structs.replace(result, outcome=outcome, denial=_denial(hook, outcome))


def _denial(hook: ChainWebhook, outcome: Outcome) -> Status | None:
    match outcome.decision:
        case Denied(status):
            return status
        case Failed(message=message) if not hook.fails_open:
            return statuses.internal_error(failed_calling(hook.name, message))
        case _:
            return None


def configured_webhooks(
    configurations: Iterable[WebhookConfiguration],
    phase: Phase,
    reach: Callable[[Webhook, Phase], Transport],
    metrics: MatchConditionMetrics | None = None,
    breakers: CircuitBreakers | None = None,
    *,
    exemptions: Exemptions = NO_EXEMPTIONS,
    rollouts: Rollouts = NO_ROLLOUTS,
    allow_lists: AllowLists = NO_ALLOW_LISTS,
) -> WebhookIndex:
    """Prepare the webhooks of one phase for matching and calls.

    Args:
        configurations: The configurations of the phase, in calling order.
        phase: The phase.
        reach: Returns the transport to a webhook.
        metrics: Counts the results of match conditions.
        breakers: Stops calls to webhooks that keep failing.
        exemptions: Exempts requests from webhooks.
        rollouts: Keeps webhooks in shadow.
        allow_lists: The fields that mutating webhooks may change.
    """
    kind = (
        PolicyReferenceKind.MUTATING_WEBHOOK
        if phase is Phase.MUTATE
        else PolicyReferenceKind.VALIDATING_WEBHOOK
    )
    hooks: list[ChainWebhook] = []
    for configuration in configurations:
        counts: dict[str, int] = {}
        for webhook in configuration.webhooks:
            number = counts.get(webhook.name, 0)
            counts[webhook.name] = number + 1
            transport = reach(webhook, phase)
            if breakers is not None:
                transport = breakers.guard(transport, webhook.name, configuration.name, phase)
            hooks.append(
                ChainWebhook(
                    webhook=webhook,
                    configuration=configuration.name,
                    is_static=configuration.is_static,
                    uid=f"{configuration.name}/{webhook.name}/{number}",
                    index=len(hooks),
                    matcher=_matcher(webhook, phase, metrics),
                    transport=transport,
                    call=Call(webhook.name, webhook.timeout_seconds),
                    late_reviews=LateReviews(webhook.name),
                    exemptions=exemptions.of_webhook(kind, configuration.name, webhook.name),
                    rollout=rollouts.of_webhook(kind, configuration.name, webhook.name),
                    allow_list=allow_lists.of_webhook(configuration.name, webhook.name)
                    if phase is Phase.MUTATE
                    else None,
                )
            )
    return WebhookIndex(hooks)


def _matcher(webhook: Webhook, phase: Phase, metrics: MatchConditionMetrics | None) -> Matcher:
    return Matcher(
        rules=compile_rules(webhook.rules),
        equivalent=webhook.match_policy == "Equivalent",
        namespace_selector=compile_selector_or_status(webhook.namespace_selector),
        object_selector=compile_selector_or_status(webhook.object_selector),
        conditions=_conditions(webhook, phase, metrics) if webhook.match_conditions else None,
    )


def _conditions(webhook: Webhook, phase: Phase, metrics: MatchConditionMetrics | None) -> MatchConditions:
    from pratique_frontdoor.chain.match_conditions import MatchConditions  # noqa: PLC0415 - brings CEL

    kind = "admit" if phase is Phase.MUTATE else "validate"
    observe = None if metrics is None else functools.partial(metrics.observe_webhook, webhook.name, kind)
    fails_open = webhook.failure_policy == "Ignore"
    return MatchConditions.compile(webhook.match_conditions, fails_open=fails_open, observe=observe)
