"""Idleness: what a chain is given and goes by in no review, told where the chain is made."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.futile_rules import FutileRules
from pratique.practices import futility, unreachable
from pratique.practices.definitions import Finding, Severity
from pratique.practices.subjects import Subject
from pratique.practices.suppressions import is_suppressed
from pratique.practices.trials import Tried

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pratique.clusters import Cluster
    from pratique.configurations.all_configurations import Configurations
    from pratique.definitions import Controller
    from pratique.practices.definitions import Practice
    from pratique.practices.trials import HookName
    from pratique.reviews import Review

CERTAIN = (futility.MATCHES_NOTHING, futility.WITHOUT_EFFECT)
"""Practices by which what is told is so in every cluster."""
ALL = (
    *CERTAIN,
    futility.MAY_MATCH_NOTHING,
    futility.WITHOUT_PARAMS,
    unreachable.UNBOUND,
    unreachable.WITHOUT_POLICY,
)
"""Those besides that depend on what there is in the cluster, and on all configurations being here."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Names:
    """Stands for a trial where nothing is tried, and only the names of the controllers are asked for."""

    controllers: frozenset[str]

    def reached(self, review: Review) -> frozenset[HookName]:
        del review
        return frozenset()

    def __call__(self, review: Review) -> Tried:
        del review
        return Tried()


def idle_configurations(
    configurations: Configurations,
    cluster: Cluster,
    controllers: Sequence[Controller],
    practices: Collection[Practice] = ALL,
) -> Iterator[str]:
    """Tell of each configuration, policy or binding that can do nothing, a line each.

    Comments that switch off the rules of ``pratique check`` hold here, too.
    """
    subject = Subject(configurations, cluster, _Names(frozenset(one.name for one in controllers)), 0.0)
    for practice in practices:
        for breach in practice.check(subject):
            if not is_suppressed(breach.owner.source, breach.path, practice.rule):
                yield Finding(practice, breach).told(Severity.WARNING)


def idle_controllers(
    configured: Collection[str], controllers: Sequence[Controller], cluster: Cluster
) -> Iterator[str]:
    """Tell of settings for controllers that are off, and of rules of somebody else's that match nothing.

    Args:
        configured: The names of the controllers that are told something.
        controllers: Those that are on.
        cluster: Knows which kinds there are.
    """
    names = {one.name for one in controllers}
    for name in configured:
        if name not in names:
            yield f"warning: admission plugin {name} is switched off: its configuration does nothing"
    futile = FutileRules(cluster.resources)
    for one in controllers:
        if not one.trusted:
            for rule in one.rules:
                for fault in futile.find(rule):
                    yield f"warning: a rule of {one.name} matches nothing: {fault.text}"
