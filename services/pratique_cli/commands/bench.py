"""``pratique bench``."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from pratique.admission.reviews import Review
from pratique.apimachinery.documents import read_documents
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists
from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique_cli.benchmarks import ChainBenchmark, ChainCost, StepCost, run_benchmark, to_document
from pratique_cli.chain_options import chain_flags
from pratique_cli.encoding import indented_json
from pratique_cli.exit_codes import ExitCode
from pratique_cli.options import ExistingPath, Seconds, flag, format_flag, timeout_flag
from pratique_cli.outputs.columns import Column, Row, table_text
from pratique_cli.progress import Progress, no_progress_flag, progress_for
from pratique_cli.reviews.requests import RequestShape, review_of
from pratique_cli.terminal import Palette, palette_for
from pratique_frontdoor.engines.engine import open_local
from pratique_frontdoor.engines.local import LocalEngine

_MAX_SECONDS = 600.0
_MAX_REVIEWS = 10_000
_SHOWN_STEPS = 20
_COLUMNS = (
    *(Column(title, right=True) for title in ("SHARE", "MEAN", "P99", "CALLS")),
    Column("STEP", keep=False),
)

EPILOG = """\b
The reviews are dry runs, decided in this process, in the order of the files,
until the time is over; the first round only warms up. Webhooks of --config are
called, with dry runs. With --against, both chains decide each review in turn,
so the ratios hold on a machine that does other things as well.

\b
Examples:
  pratique bench --config policies/ manifests/
  pratique bench --config new/ --against old/ --seconds 30 manifests/
  pratique bench --config policies/ manifests/ -o json | jq '.steps[0]'
"""


def _at_most_600_seconds(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if value > _MAX_SECONDS:
        raise click.BadParameter(f"write {_MAX_SECONDS:.0f}s or less", ctx, param)
    return value


@click.command("bench", epilog=EPILOG)
@click.argument("files", metavar="FILE...", type=ExistingPath(dash=True), nargs=-1, required=True)
@flag(
    "--against",
    type=ExistingPath(),
    multiple=True,
    help="Configurations to compare with, in place of those of --config. Repeatable.",
)
@flag(
    "--seconds",
    type=Seconds(),
    default="5s",
    show_default=True,
    callback=_at_most_600_seconds,
    help="How long to measure, at most 600s.",
)
@timeout_flag("each review")
@format_flag("text", "table", "json")
@no_progress_flag
@chain_flags
def command(
    chain: ChainSettings,
    files: Sequence[Path],
    *,
    against: tuple[Path, ...],
    seconds: float,
    timeout: float,
    output: str,
    no_progress: bool,
) -> ExitCode:
    """Measure how fast your policies decide your manifests, and which of them takes the time."""
    documents = list(itertools.islice(_documents(files), _MAX_REVIEWS + 1))
    if not documents:
        raise InputError("the files hold no documents")
    if len(documents) > _MAX_REVIEWS:
        raise InputError(f"the files hold more than {_MAX_REVIEWS} documents; name fewer")
    chains = [chain, *([dataclasses.replace(chain, config=against)] if against else [])]
    progress = progress_for(None if no_progress else sys.stderr, sys.stdout, streams=False)
    try:
        costs = asyncio.run(_measure(chains, documents, seconds, timeout, progress))
    finally:
        progress.clear()
    if output == "json":
        click.echo(indented_json(_document(costs)), nl=False)
    else:
        palette = palette_for(sys.stdout, colour=None)
        click.echo("\n".join(_texts(costs, palette)), color=palette.colour)
    return ExitCode.ADMITTED


def _documents(files: Sequence[Path]) -> Iterator[SourceDocument]:
    return unwrap_lists(itertools.chain.from_iterable(map(read_documents, files)))


async def _measure(
    chains: Sequence[ChainSettings],
    documents: Sequence[SourceDocument],
    seconds: float,
    limit: float,
    progress: Progress,
) -> list[ChainCost]:
    engines: list[LocalEngine] = []
    reviews: list[list[Review]] = []
    shape = RequestShape(dry_run=True, object_validation=True)
    try:
        for chain in chains:
            store = load_cluster(chain.cluster)
            engines.append(open_local(chain, store))
            reviews.append(
                [review_of(document, store, number, shape) for number, document in enumerate(documents)]
            )
        benchmarks = [ChainBenchmark(engine, limit) for engine in engines]
        try:
            await run_benchmark(benchmarks, reviews, seconds, progress)
        except TimeoutError:
            raise InputError(f"a review was not decided within --timeout {limit:g}s") from None
        return [benchmark.cost() for benchmark in benchmarks]
    finally:
        for engine in engines:
            await engine.close()


def _ratio(costs: Sequence[ChainCost]) -> JSONObject:
    own, other = costs
    return {
        "cpu": round(own.cpu_of_a_review / other.cpu_of_a_review, 3),
        "median": round(own.median_seconds / other.median_seconds, 3),
    }


def _document(costs: Sequence[ChainCost]) -> JSONObject:
    own, *others = costs
    compared: JSONObject = {"against": to_document(others[0]), "ratio": _ratio(costs)} if others else {}
    return {**to_document(own), **compared}


def _texts(costs: Sequence[ChainCost], palette: Palette) -> Iterator[str]:
    own, *others = costs
    yield _summary(own)
    if others:
        ratio = _ratio(costs)
        yield f"against: {_summary(others[0])}"
        yield f"ratio: CPU {ratio['cpu']:.2f}, median {ratio['median']:.2f}"
    yield ""
    rows = [Row(_cells(step)) for step in own.steps[:_SHOWN_STEPS]]
    yield table_text(_COLUMNS, rows, palette).rstrip("\n")
    if len(own.steps) > _SHOWN_STEPS:
        yield f"and {len(own.steps) - _SHOWN_STEPS} steps that took less; -o json has all"


def _summary(cost: ChainCost) -> str:
    return (
        f"{cost.reviews} reviews, {cost.reviews / cost.wall_seconds:.0f} a second; a review takes"
        f" {cost.cpu_of_a_review * 1000:.3f} ms of CPU, median {cost.median_seconds * 1000:.3f} ms,"
        f" p99 {cost.p99_seconds * 1000:.3f} ms"
    )


def _cells(step: StepCost) -> tuple[str, ...]:
    key = step.key
    names = [key.controller, *([key.name] if key.name != key.controller else []), key.configuration]
    return (
        f"{step.share:.1%}",
        f"{step.mean_seconds * 1000:.3f} ms",
        f"{step.p99_seconds * 1000:.3f} ms",
        str(step.calls),
        " ".join(filter(None, (key.phase, *names))),
    )
