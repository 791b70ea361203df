"""The goals: what is to be reached, and how the figure for it comes out of the results.

The figures of one goal are those of one section, so that they were measured together. Those that are ratios say the
same on a fast and on a slow machine; ``make bench-check`` holds later runs to them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

import ratios
from contests import IN_ONE, OURS
from fanouts import DIVIDED, OVER_ONE, POLICIES, REPLICAS, SETS, UNDIVIDED, named
from offline import COUNT
from offline_figures import REVIEW, UNVALIDATED
from paths import GRPC_ECHO, TCP_FRAMES, UNIX_FRAMES
from peer_servers import SERVERS
from ratios import ONE, SIXTEEN
from results import NOT_ASKED_FOR, Reached, Results
from startups import REVIEW_ONE
from waits import ALONE, TOGETHER

_ENOUGH_CORES = REPLICAS
"""So that replicas can work side by side."""


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """Something to be reached; or a ratio that is shown and held to, where nothing is wanted."""

    name: str
    section: str
    figure: Callable[[Results], float | None]
    at_most: float | None = None
    at_least: float | None = None
    at_most_with_few_cores: float | None = None
    """Instead of ``at_most``, where there are fewer than what works side by side."""
    unit: str = ""
    ratio: bool = True
    """Whether it is the same on every machine, so that later runs can be held to it."""
    more_is_better: bool = False
    contenders: tuple[str, ...] = ()
    """Of the section, those that the figure is of."""
    note: Callable[[Results], str] = lambda _results: ""
    """What has to be known of the figure, or why there is none though the section was measured."""

    def upper(self, results: Results) -> float | None:
        """What it may be at most, on the cores that the section was measured on."""
        measured = results.measured.get(self.section) or results.usual_circumstances()
        few = int(measured.get("cores", _ENOUGH_CORES)) < _ENOUGH_CORES
        return self.at_most_with_few_cores if few and self.at_most_with_few_cores else self.at_most

    def wanted(self, results: Results) -> str:
        """What is wanted, as a person writes it."""
        upper = self.upper(results)
        bound, sign = (self.at_least, "≥") if upper is None else (upper, "≤")
        return "" if bound is None else f"{sign} {bound:,g}{self.unit and f' {self.unit}'}"

    def missed_by(self, figure: float, results: Results) -> float:
        """By what part of what is wanted a figure is too much or too little; 0 where it is good enough."""
        upper = self.upper(results)
        too_much = 0.0 if upper is None else figure / upper - 1
        too_little = 0.0 if self.at_least is None else 1 - figure / self.at_least
        return max(0.0, too_much, too_little)

    def why_unmeasured(self, results: Results) -> str:
        """Why there is no figure."""
        for name in (self.section, *self.contenders):
            if name in results.left_out:
                return f"{name} was left out: {results.left_out[name]}"
        targets = results.sections.get(self.section, {})
        present = (any(target.startswith(f"{name}, ") for target in targets) for name in self.contenders)
        if not targets or not all(present):
            return NOT_ASKED_FOR
        return self.note(results) or "the section has no such figure"


def judge(results: Results) -> tuple[Reached, ...]:
    """Hold results to all goals."""
    return tuple(_judged(goal, results) for goal in GOALS)


def _judged(goal: Goal, results: Results) -> Reached:
    figure, wanted = goal.figure(results), goal.wanted(results)
    if figure is None:
        why = goal.why_unmeasured(results)
        return Reached(goal=goal.name, wanted=wanted, figure=None, reached=None, note=why)
    missed_by = goal.missed_by(figure, results)
    return Reached(
        goal=goal.name,
        wanted=wanted,
        figure=figure,
        reached=not missed_by if wanted else None,
        missed_by=missed_by or None,
        note=goal.note(results),
    )


_RATES: dict[tuple[str, str], dict[str, float]] = {
    (OURS, "validate"): {"kopf": 1.5, "Pepr": 1, "Flask": 1},
    (OURS, "mutate"): {"kopf": 1},
}
_RATES_IN_ONE = {(IN_ONE, "validate"): {"kopf": 1.5, "FastAPI": 1, "Flask": 1}}


def _to_peers() -> Iterator[Goal]:
    """Over gRPC by every peer; in one process by those that something is wanted of."""
    over_grpc = [(key, peer, bounds.get(peer)) for key, bounds in _RATES.items() for peer in SERVERS]
    in_one = [(key, peer, bound) for key, bounds in _RATES_IN_ONE.items() for peer, bound in bounds.items()]
    for (ours, phase), peer, bound in over_grpc + in_one:
        figure = functools.partial(ratios.to_peer, ours, peer, phase)
        name = f"{ours}, {phase}, req/s over 16 connections ÷ {peer}"
        yield Goal(name, "peers", figure, at_least=bound, more_is_better=True, contenders=(ours, peer))


def _to_floors() -> Iterator[Goal]:
    """By the floor that is wanted, and by what a hop could cost at best."""
    for hop, bounds in ((GRPC_ECHO, {"/validate": 0.95, "/admit": 1.1}), (TCP_FRAMES, {}), (UNIX_FRAMES, {})):
        for path in ("/validate", "/admit", "/mutate"):
            floor = "floor" if hop == GRPC_ECHO else f"(HTTP echo + {hop})"
            figure = functools.partial(ratios.to_floor, path, "paths", ONE, hop)
            yield Goal(f"{path}, p50 ÷ {floor}", "paths", figure, at_most=bounds.get(path))


def _to_one_replica() -> Iterator[Goal]:
    """What divides by what it has learned is wanted to be fast; what always does, and what dividing costs, is shown."""
    for kind in SETS:
        undivided = named(kind, UNDIVIDED)
        for name, bounds in zip(DIVIDED, ((0.5, 0.7), (None, None)), strict=True):
            divided, of = named(kind, name), f"{POLICIES} {kind} policies,"
            yield Goal(
                f"{of} p50 of {name} ÷ {OVER_ONE}",
                "fan-out",
                functools.partial(ratios.quotient, "fan-out", ONE, "p50", (divided, named(kind, OVER_ONE))),
                at_most=bounds[0],
                at_most_with_few_cores=bounds[1],
            )
            yield Goal(
                f"{of} CPU a review of {name} ÷ off",
                "fan-out",
                functools.partial(ratios.quotient, "fan-out", ONE, "cpu", (divided, undivided)),
            )


def _of_few(results: Results) -> str:
    """Of a run that takes little trouble."""
    count = results.figure("offline", REVIEW, "whole", "reviews")
    return f"of {count:,.0f} manifests: most of it is start-up" if count and count < COUNT else ""


GOALS = (
    *_to_floors(),
    Goal(
        "/validate, CPU a review of 2 KB, 16 connections",
        "paths",
        functools.partial(ratios.cpu_microseconds, "paths", "/validate", SIXTEEN),
        at_most=300,
        unit="µs",
        ratio=False,
    ),
    Goal(
        "/mutate by a policy, CPU a review of 2 KB, 16 connections",
        "mutating policies",
        functools.partial(ratios.cpu_microseconds, "mutating policies", "/mutate", SIXTEEN),
        at_most=600,
        unit="µs",
        ratio=False,
    ),
    *_to_peers(),
    *_to_one_replica(),
    Goal(
        "8 validators, CPU a review over 16 connections ÷ 1 validator",
        "validators",
        functools.partial(ratios.quotient, "validators", SIXTEEN, "cpu", ("8 validators", "1 validator")),
        at_most=1.3,
    ),
    Goal(
        "CPU that a policy adds to a review, of up to 1,000",
        "policies",
        ratios.policy_microseconds,
        at_most=15,
        unit="µs",
        ratio=False,
    ),
    Goal(
        "500 KB, p50 ÷ floor with the same bytes, worst path",
        "payloads",
        functools.partial(ratios.worst_to_floor, "payloads", "500 KB"),
        at_most=2,
    ),
    Goal(
        "16 validators side by side, p50 ÷ the slowest alone",
        "waits",
        functools.partial(ratios.quotient, "waits", ONE, "p50", (TOGETHER, ALONE)),
        at_most=1.3,
    ),
    Goal(
        "half the highest rate, p99 ÷ p50, worst path, the generator on a core of its own",
        "tails",
        ratios.worst_tail,
        at_most=3,
        note=ratios.cores_of_tails,
    ),
    Goal(
        "memory of a service, the largest", "memory", ratios.most_memory, at_most=70, unit="MiB", ratio=False
    ),
    Goal("memory after reviews ÷ at rest, the worst", "memory", ratios.memory_growth, at_most=1.05),
    Goal(
        "offline, manifests a second on 2 cores",
        "offline",
        lambda results: results.figure("offline", REVIEW, "whole", "rate"),
        at_least=3000,
        more_is_better=True,
        ratio=False,
        note=_of_few,
    ),
    Goal(
        "offline, CPU a manifest with object validation ÷ without",
        "offline",
        functools.partial(ratios.quotient, "offline", "whole", "cpu", (REVIEW, UNVALIDATED)),
        at_most=1.6,
    ),
    Goal(
        "the slowest view of the console with 10,000 decisions",
        "console",
        ratios.slowest_view,
        at_most=200,
        unit="ms",
        ratio=False,
    ),
    Goal(
        "start-up of pratique review",
        "start-up",
        lambda results: results.figure("start-up", REVIEW_ONE, "whole", "p50"),
        at_most=0.35,
        unit="s",
        ratio=False,
    ),
)
