"""Compare Pratique with a real kube-apiserver on drawn pairs: ``make differential N=10000``."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from differential import conformance
from differential.bound_pods import BoundPods, PodGroups
from differential.built_ins import Changes, Creations
from differential.configurations import RefusedConfigurations
from differential.custom_resources import CustomResources
from differential.events import EventBursts
from differential.image_reviews import ImageReviews, OpenImageReviews
from differential.judging import Judges, judging
from differential.nodes import NodeUsers
from differential.objects import Objects
from differential.policies import MutatingPolicies, ValidatingPolicies
from differential.run_files import RunFile
from differential.runs import Comparable, Run, Worlds
from differential.signers import Signers
from differential.tallies import Tally
from differential.webhooks import Webhooks

FAMILIES: tuple[Comparable, ...] = (
    Worlds(Creations()),
    Worlds(Changes()),
    Worlds(NodeUsers()),
    Worlds(ValidatingPolicies()),
    Worlds(MutatingPolicies()),
    Worlds(Webhooks()),
    Worlds(CustomResources()),
    Worlds(Signers()),
    Worlds(BoundPods()),
    RefusedConfigurations(),
    Objects(),
    Worlds(ImageReviews()),
    Worlds(OpenImageReviews()),
    EventBursts(),
    Worlds(PodGroups()),
)
"""In the order in which they run; those of one setup come together, and setups with the same flags, too."""


def main() -> int:
    """Run, tell, and give the exit code."""
    arguments = _arguments()
    started = time.monotonic()
    until = started + 60 * arguments.minutes
    run = Run(arguments.seed, _tell, RunFile(arguments.file), until)
    tallies = dict(_compare(run, arguments.family, arguments.pairs))
    for name, tally in tallies.items():
        _describe(name, tally)
    if arguments.write:
        kept = run.done.families()
        found = {family.name: kept[family.name] for family in FAMILIES if family.name in kept}
        conformance.write(found, run.done.seeds())
    click.echo(f"seed {arguments.seed}, {time.monotonic() - started:.0f} s")
    return 1 if any(tally.different for tally in tallies.values()) else 0


def _compare(run: Run, part: str, pairs: int) -> Iterator[tuple[str, Tally]]:
    chosen = [family for family in FAMILIES if part in family.name]
    each = -(-pairs // len(chosen))
    with contextlib.ExitStack() as stack:
        judges: Judges | None = None
        for setup, families in itertools.groupby(chosen, key=lambda family: family.setup):
            group = tuple(families)
            missing = time.monotonic() < run.until and any(
                run.compare(None, family, each).pairs < each for family in group
            )
            if missing and judges is None:
                judges = stack.enter_context(judging())
            judge = judges.of(setup) if missing and judges else None
            for family in group:
                yield family.name, run.compare(judge, family, each)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=300, metavar="N", help="how many pairs, of all families")
    parser.add_argument("--seed", default=f"{time.time_ns():x}", help="what pairs are drawn from")
    parser.add_argument("--family", default="", help="only families with this in their name")
    parser.add_argument(
        "--write", action="store_true", help="put the table of the file into docs/conformance.md"
    )
    parser.add_argument(
        "--file", type=Path, help="keep what is compared here; a run with the same seed goes on from it"
    )
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin nothing new after so many; needs --file"
    )
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
