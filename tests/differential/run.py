"""Compare Pratique with a real kube-apiserver on drawn pairs: ``make differential N=10000``."""

from __future__ import annotations

import argparse
import json
import sys
import time

import click

from differential import conformance
from differential.built_ins import Changes, Creations
from differential.configurations import CONFIGURATIONS
from differential.judging import Judge, judging
from differential.nodes import NodeUsers
from differential.pairs import Family
from differential.policies import MutatingPolicies, ValidatingPolicies
from differential.runs import Run, Tally
from differential.webhooks import WEBHOOKS, Webhooks

_WITHOUT_SERVERS: tuple[Family, ...] = (
    Creations(),
    Changes(),
    NodeUsers(),
    ValidatingPolicies(),
    MutatingPolicies(),
)
FAMILIES = (*(family.name for family in _WITHOUT_SERVERS), WEBHOOKS)
"""The names of all families, in the order in which they run."""


def families(judge: Judge) -> tuple[Family, ...]:
    """All families, in that order."""
    return *_WITHOUT_SERVERS, Webhooks(judge.webhooks)


def main() -> int:
    """Run, tell, and give the exit code."""
    arguments = _arguments()
    started = time.monotonic()
    with judging() as judge:
        chosen = [family for family in families(judge) if arguments.family in family.name]
        configurations = arguments.family in CONFIGURATIONS
        each = -(-arguments.pairs // (len(chosen) + configurations))
        run = Run(judge, arguments.seed, _tell)
        tallies = dict(run.compare(chosen, each))
        if configurations:
            tallies[CONFIGURATIONS] = run.compare_configurations(each)
    for name, tally in tallies.items():
        _describe(name, tally)
    if arguments.write:
        conformance.write(tallies, arguments.seed)
    click.echo(f"seed {arguments.seed}, {time.monotonic() - started:.0f} s")
    return 1 if any(tally.different for tally in tallies.values()) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=300, metavar="N", help="how many pairs, of all families")
    parser.add_argument("--seed", default=f"{time.time_ns():x}", help="what pairs are drawn from")
    parser.add_argument("--family", default="", help="only families with this in their name")
    parser.add_argument("--write", action="store_true", help="put the table into docs/conformance.md")
    return parser.parse_args()


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _describe(name: str, tally: Tally) -> None:
    click.echo(
        f"{name}: {tally.pairs} pairs, {tally.same} same ({tally.refused} refused), {tally.listed} argued,"
        f" {tally.different} different; {tally.left_out} left out"
    )
    causes: dict[str, int] = {}
    for found in tally.found:
        causes[found.cause] = causes.get(found.cause, 0) + 1
        if causes[found.cause] == 1:
            click.echo(f"- {found.request.describe()} in {found.world}\n  {found.difference.describe()}")
            click.echo(f"  {json.dumps(found.request.body)}")
    for cause, count in causes.items():
        click.echo(f"  {count} times: {cause[:300]}")


if __name__ == "__main__":
    sys.exit(main())
