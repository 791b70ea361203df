"""The registry: every practice, in the order in which it is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.practices import (
    availabilities,
    certificates,
    coverages,
    deadlocks,
    failures,
    futility,
    orders,
    scopes,
    selections,
    serving_certificates,
    system_objects,
    timeouts,
    trusts,
    unreachable,
)

if TYPE_CHECKING:
    from pratique.practices.definitions import Practice

PRACTICES: tuple[Practice, ...] = (
    timeouts.TOO_LONG,
    timeouts.OVER_BUDGET,
    availabilities.SINGLE,
    scopes.WILDCARDS,
    scopes.NOT_EQUIVALENT,
    scopes.READ_ONLY,
    scopes.CUSTOM_RESOURCES,
    selections.DODGEABLE,
    deadlocks.DEADLOCK,
    deadlocks.INTERCEPTS,
    deadlocks.CIRCLES,
    system_objects.KUBE_SYSTEM,
    system_objects.LEASES,
    system_objects.NODES,
    system_objects.ACCESS_REVIEWS,
    system_objects.EVENTS,
    system_objects.POD_STATUS,
    system_objects.MIRROR_PODS,
    failures.FAIL_OPEN,
    failures.MUTATING_CLOSED,
    failures.UNVERIFIED,
    failures.SIDE_EFFECTS,
    failures.REVIEW_VERSIONS,
    orders.NOT_REINVOKED,
    orders.SCATTERED,
    certificates.UNREADABLE,
    certificates.EXPIRED,
    certificates.EXPIRES_SOON,
    certificates.NOT_A_CA,
    serving_certificates.MISNAMED,
    serving_certificates.UNTRUSTED,
    serving_certificates.EXPIRED,
    serving_certificates.EXPIRES_SOON,
    unreachable.UNBOUND,
    unreachable.WITHOUT_POLICY,
    unreachable.CONSTANTS,
    futility.MATCHES_NOTHING,
    futility.MAY_MATCH_NOTHING,
    futility.WITHOUT_EFFECT,
    futility.WITHOUT_PARAMS,
    coverages.UNCOVERED,
    coverages.UNSCALED,
    coverages.ENFORCING_FAILS_OPEN,
    trusts.NEAR_HOST,
    trusts.SAME_NAMES,
    trusts.UNSTABLE,
    trusts.WRITERS,
    trusts.OVERWRITES,
    trusts.OTHER_NAMESPACES,
)
RULES = frozenset(practice.rule for practice in PRACTICES)
"""Their names."""
