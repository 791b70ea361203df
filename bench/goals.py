"""The goals: what is to be reached, and how the figure for it comes out of the results.

Those that are ratios of two figures of one run say the same on a fast and on a slow machine; ``make bench-check`` holds
later runs to them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from paths import GRPC_ECHO, HTTP_ECHO, PATHS
from peer_servers import SERVERS
from results import Reached, Results
from soaks import AFTER, AT_REST
from startups import REVIEW_ONE
from tails import HALF
from waits import ALONE, TOGETHER

_HOPS = {"/mutate": 1, "/validate": 1, "/admit": 2}
"""Calls over gRPC that a path makes: its floor is one echo over HTTP and one over gRPC for each of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """Something to be reached."""

    name: str
    figure: Callable[[Results], float | None]
    at_most: float | None = None
    at_least: float | None = None
    unit: str = ""
    ratio: bool = True
    """Whether it is the same on every machine, so that later runs can be held to it."""

    @property
    def wanted(self) -> str:
        """What is wanted, as a person writes it."""
        bound = self.at_most if self.at_most is not None else self.at_least
        sign = "≤" if self.at_most is not None else "≥"
        return "" if bound is None else f"{sign} {bound:,g}{self.unit and f' {self.unit}'}"

    def is_reached(self, figure: float) -> bool:
        """Whether a figure is good enough."""
        return (self.at_most is None or figure <= self.at_most) and (
            self.at_least is None or figure >= self.at_least
        )


def judge(results: Results) -> tuple[Reached, ...]:
    """Hold results to all goals."""
    found = []
    for goal in GOALS:
        figure = goal.figure(results)
        reached = None if figure is None else goal.is_reached(figure)
        found.append(Reached(goal=goal.name, wanted=goal.wanted, figure=figure, reached=reached))
    return tuple(found)


def _by(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _to_floor(path: str, section: str, shape: str, results: Results) -> float | None:
    """The median of a path by that of the echoes it is made of."""
    ours, http, grpc = (results.figure(section, who, shape, "p50") for who in (path, HTTP_ECHO, GRPC_ECHO))
    return None if http is None or grpc is None else _by(ours, http + _HOPS[path] * grpc)


def _worst_to_floor(section: str, shape: str, results: Results) -> float | None:
    found = [_to_floor(path, section, shape, results) for path in PATHS]
    return max((each for each in found if each is not None), default=None)


def _to_peer(peer: str, results: Results) -> float | None:
    """Our rate by that of a peer, for the phase in which we are worse."""
    found = []
    for phase in ("validate", "mutate"):
        ours, theirs = (
            results.figure("peers", f"{who}, {phase}", "16 connections", "rate") for who in ("Pratique", peer)
        )
        found.append(_by(ours, theirs))
    known = [each for each in found if each is not None]
    return min(known) if len(known) == len(found) else None


def _worst_tail(results: Results) -> float | None:
    tails = [
        _by(results.figure("tails", path, HALF, "p99"), results.figure("tails", path, HALF, "p50"))
        for path in PATHS
    ]
    return max((each for each in tails if each is not None), default=None)


def _side_by_side(results: Results) -> float | None:
    return _by(*(results.figure("waits", who, "1 connection", "p50") for who in (TOGETHER, ALONE)))


def _hundred_policies(results: Results) -> float | None:
    return _by(
        *(results.figure("policies", who, "1 connection", "p50") for who in ("100 policies", "1 policy"))
    )


def _most_memory(results: Results) -> float | None:
    services = results.sections.get("memory", {}).values()
    return max((each[when]["mebibytes"] for each in services for when in (AT_REST, AFTER)), default=None)


def _growth(results: Results) -> float | None:
    """Of the service that grew most."""
    services = results.sections.get("memory", {}).values()
    return max((each[AFTER]["mebibytes"] / each[AT_REST]["mebibytes"] for each in services), default=None)


def _offline(results: Results) -> float | None:
    return results.figure("offline", "pratique review", "whole", "rate")


def _start_up(results: Results) -> float | None:
    return results.figure("start-up", REVIEW_ONE, "whole", "p50")


_ONE = "1 connection"
GOALS = (
    Goal("/validate, p50 ÷ floor", functools.partial(_to_floor, "/validate", "paths", _ONE), at_most=1.15),
    Goal("/admit, p50 ÷ floor", functools.partial(_to_floor, "/admit", "paths", _ONE), at_most=1.2),
    Goal("/mutate, p50 ÷ floor", functools.partial(_to_floor, "/mutate", "paths", _ONE)),
    Goal(
        "500 KB, p50 ÷ floor with the same bytes, worst path",
        functools.partial(_worst_to_floor, "payloads", "500 KB"),
        at_most=1.5,
    ),
    Goal("16 validators side by side, p50 ÷ the slowest alone", _side_by_side, at_most=1.3),
    Goal("100 policies, p50 ÷ 1 policy", _hundred_policies, at_most=4),
    Goal("half the highest rate, p99 ÷ p50, worst path", _worst_tail, at_most=3),
    *(
        Goal(
            f"req/s over 16 connections ÷ {peer}, worse phase",
            functools.partial(_to_peer, peer),
            at_least=1.5 if peer == "kopf" else 1,
        )
        for peer in SERVERS
    ),
    Goal("memory of a service, the largest", _most_memory, at_most=70, unit="MiB", ratio=False),
    Goal("memory after reviews ÷ at rest, the worst", _growth, at_most=1.05),
    Goal("offline, reviews a second and core", _offline, at_least=3000, ratio=False),
    Goal("start-up of pratique review", _start_up, at_most=0.4, unit="s", ratio=False),
)
