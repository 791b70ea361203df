"""Configured hooks: the webhooks of the configurations, made ready to be matched and called."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from frontdoor.chain.hook_lists import HookList
from frontdoor.chain.hooks import Hook
from frontdoor.chain.matching import Matcher
from pratique.calls import Call
from pratique.definitions import Phase
from pratique.rules import compile_rules
from pratique.subjects import selecting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from frontdoor.chain.match_conditions import MatchConditions
    from frontdoor.transports import Transport
    from frontdoor.transports.circuit_breakers import CircuitBreakers
    from pratique.configurations.webhooks import Webhook, WebhookConfiguration
    from pratique.measures.match_conditions import ConditionMetrics


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
    from frontdoor.chain.match_conditions import MatchConditions  # noqa: PLC0415 - CEL, for those who use it

    kind = "admit" if phase is Phase.MUTATE else "validate"
    observe = None if metrics is None else functools.partial(metrics.observe_webhook, webhook.name, kind)
    fails_open = webhook.failure_policy == "Ignore"
    return MatchConditions.compile(webhook.match_conditions, fails_open=fails_open, observe=observe)
