"""Schedules: which nemesis strikes what, when, and how hard, as a function of the seed."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence

from chaos.chains import FIRST, SECOND

DOOR, MUTATORS, VALIDATORS = "frontdoor", ("mutator-1", "mutator-2"), ("validator-1", "validator-2")
SERVICES = (*MUTATORS, *VALIDATORS)
NODES = (DOOR, *SERVICES)
ALL = "all"
SWAP = "swap configuration"
KILL_A_WORKER = "kill a worker"
LONGEST_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """The parameters of a nemesis."""

    nemesis: str
    targets: Sequence[str]
    """Nodes, or the links that lead to them."""
    seconds: tuple[float, float]
    """How long it may last."""
    amount: tuple[float, float] = (0.0, 0.0)
    """A further parameter, in its own unit."""


KINDS: tuple[Kind, ...] = (
    Kind(SWAP, (FIRST, SECOND), (0.0, 0.0)),
    Kind("renew certificates", (ALL,), (0.0, 0.0)),
    Kind("kill", NODES, (0.0, 0.0)),
    Kind("terminate", NODES, (0.0, 0.0)),
    Kind("pause", NODES, (0.5, LONGEST_SECONDS)),
    Kind("black hole", NODES, (0.5, LONGEST_SECONDS)),
    Kind("latency", NODES, (1.0, LONGEST_SECONDS), (0.05, 2.0)),
    Kind("truncate", NODES, (0.5, 2.0), (0.0, 6000.0)),
    Kind("fill the disk", (ALL,), (1.0, LONGEST_SECONDS)),
    Kind(KILL_A_WORKER, SERVICES, (0.0, 0.0)),
)
"""All nemeses. The amount is seconds of latency, and bytes that still pass before a connection is cut."""


@dataclasses.dataclass(frozen=True, slots=True)
class Strike:
    """One nemesis at work."""

    at: float
    """Seconds after the run began."""
    nemesis: str
    target: str
    seconds: float
    amount: float


def schedule(seed: int, seconds: float, every: float) -> list[Strike]:
    """Strikes until ``seconds`` are over, one each ``every`` seconds; more often where not all would have their turn.

    Configurations are swapped first, so that there is time in which one of the two alone is right.
    """
    every = min(every, seconds / len(KINDS))
    chance = random.Random(f"{seed}/schedule")
    kinds, configurations = _order(chance), itertools.cycle((SECOND, FIRST))
    strikes = [_strike(chance, next(kinds), number * every) for number in range(round(seconds / every))]
    return [
        dataclasses.replace(strike, target=next(configurations)) if strike.nemesis == SWAP else strike
        for strike in strikes
    ]


def _order(chance: random.Random) -> Iterator[Kind]:
    """All kinds, again and again, each time in another order; the first time configurations come first."""
    rest = list(KINDS[1:])
    chance.shuffle(rest)
    yield from (KINDS[0], *rest)
    while True:
        again = list(KINDS)
        chance.shuffle(again)
        yield from again


def _strike(chance: random.Random, kind: Kind, at: float) -> Strike:
    seconds, amount = chance.uniform(*kind.seconds), chance.uniform(*kind.amount)
    return Strike(
        round(at, 3), kind.nemesis, chance.choice(kind.targets), round(seconds, 3), round(amount, 3)
    )
