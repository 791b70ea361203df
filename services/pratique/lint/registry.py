"""All lint rules, in the order of ``pratique check --list-rules``, and the function that runs them."""

from __future__ import annotations

import time
from collections.abc import Collection

from pratique.cluster.store import Cluster
from pratique.configuration.loading import Configurations
from pratique.lint import (
    allow_lists,
    bypasses,
    certificates,
    deadlocks,
    exceptions,
    failures,
    rollouts,
    scopes,
    trust,
    without_effect,
)
from pratique.lint.outage_simulation import OutageSimulator
from pratique.lint.rules import LintContext, LintFinding, LintRule, run_rules

LINT_RULES: tuple[LintRule, ...] = (
    failures.TOO_LONG,
    failures.OVER_BUDGET,
    failures.SINGLE,
    scopes.WILDCARDS,
    scopes.NOT_EQUIVALENT,
    scopes.READ_ONLY,
    scopes.CUSTOM_RESOURCES,
    scopes.DODGEABLE,
    deadlocks.DEADLOCK,
    deadlocks.INTERCEPTS,
    deadlocks.CIRCLES,
    scopes.KUBE_SYSTEM,
    scopes.LEASES,
    scopes.NODES,
    scopes.ACCESS_REVIEWS,
    scopes.EVENTS,
    scopes.POD_STATUS,
    scopes.MIRROR_PODS,
    failures.FAIL_OPEN,
    failures.MUTATING_CLOSED,
    failures.UNVERIFIED,
    failures.SIDE_EFFECTS,
    failures.REVIEW_VERSIONS,
    failures.NOT_REINVOKED,
    failures.SCATTERED,
    certificates.UNREADABLE,
    certificates.EXPIRED,
    certificates.EXPIRES_SOON,
    certificates.NOT_A_CA,
    certificates.MISNAMED,
    certificates.UNTRUSTED,
    certificates.SERVING_EXPIRED,
    certificates.SERVING_EXPIRES_SOON,
    without_effect.UNBOUND,
    without_effect.WITHOUT_POLICY,
    without_effect.CONSTANTS,
    without_effect.MATCHES_NOTHING,
    without_effect.MAY_MATCH_NOTHING,
    without_effect.WITHOUT_EFFECT,
    without_effect.WITHOUT_PARAMS,
    bypasses.UNCOVERED,
    bypasses.UNSCALED,
    bypasses.ENFORCING_FAILS_OPEN,
    trust.NEAR_HOST,
    trust.SAME_NAMES,
    trust.UNSTABLE,
    trust.WRITERS,
    trust.OVERWRITES,
    trust.OTHER_NAMESPACES,
    exceptions.ENDED,
    exceptions.ENDS_SOON,
    exceptions.WITHOUT_POLICY,
    rollouts.WITHOUT_POLICY,
    rollouts.SIDE_EFFECTS,
    allow_lists.WITHOUT_POLICY,
    allow_lists.IMPOSSIBLE,
)
RULE_NAMES = frozenset(lint_rule.name for lint_rule in LINT_RULES)
"""The names of all rules."""


def find_violations(
    configurations: Configurations,
    cluster: Cluster,
    simulator: OutageSimulator,
    *,
    rules: Collection[str] = RULE_NAMES,
    now: float | None = None,
) -> list[LintFinding]:
    """Check configurations against the rules; findings are sorted by file and line.

    Args:
        configurations: The webhook configurations and policies to check.
        cluster: The cluster that they are for.
        simulator: Runs requests while all webhooks are down.
        rules: The names of the rules to check.
        now: The time in seconds since 1970; None means the current time.
    """
    context = LintContext(configurations, cluster, simulator, time.time() if now is None else now)
    found = run_rules((lint_rule for lint_rule in LINT_RULES if lint_rule.name in rules), context)
    return sorted(found, key=_position)


def _position(finding: LintFinding) -> tuple[str, int]:
    source = finding.violation.owner.source
    return ("", 0) if source is None else (source.file, source.position(finding.violation.path).line)
