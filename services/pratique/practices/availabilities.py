"""Practices about how many answer for a webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.practices.definitions import Breach, Practice, Severity
from pratique.practices.starts import known_workloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSONObject
    from pratique.practices.subjects import Subject

_SCALED = frozenset({"Deployment", "StatefulSet"})


def _single(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        workloads = known_workloads(hook.backend, subject.cluster) if hook.backend is not None else []
        if len(workloads) == 1 and workloads[0]["kind"] in _SCALED and _replicas(workloads[0]) == 1:
            named = f'{workloads[0]["kind"]} "{workloads[0]["metadata"]["name"]}"'
            yield hook.breach(f"is answered by the one Pod of {named}", "clientConfig")


def _replicas(workload: JSONObject) -> object:
    """How many Pods are wanted, as the API server fills it in."""
    wanted = member(workload, "spec", "replicas")
    return 1 if wanted is None else wanted


SINGLE = Practice(
    rule="single-backend",
    severity=Severity.INFO,
    explanation="While the only Pod behind a webhook restarts or moves, nobody answers for it.",
    fix="Run several replicas behind the Service, on several nodes.",
    check=_single,
)
