"""``pratique replay``."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import sys
from collections.abc import Callable
from pathlib import Path

import click

from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.chain_options import CHAIN_PARAMETERS, chain_flags, plugin_parameters
from pratique_cli.exit_codes import ExitCode
from pratique_cli.options import (
    FORMATS,
    ExistingPath,
    SectionedCommand,
    WholeNumber,
    flag,
    format_flag,
    timeout_flag,
)
from pratique_cli.progress import no_progress_flag, progress_for
from pratique_cli.replays.comparisons import DecisionComparer
from pratique_cli.replays.recorded_reviews import RedactionReaders, mentions_extra
from pratique_cli.replays.reports import ReplayReport, open_replay_output
from pratique_cli.replays.runs import ReplayCluster, ReplayRun, without_webhooks
from pratique_cli.reviews.requests import PHASES
from pratique_cli.terminal import print_problem
from pratique_frontdoor.engines.engine import Engine, open_local

EPILOG = """\b
FILE is a recording (pratique record, --record), a JSON Lines stream of
AdmissionReviews, or - for standard input. Each review is independent of the
others, and is not charged to quotas. Webhooks are called.

\b
Examples:
  pratique replay reviews.jsonl --config new/
  pratique replay reviews.jsonl.1 reviews.jsonl --config new/ -o text
  pratique replay reviews.jsonl --config new/ --against old/

\b
Exit codes: 0 no differences, 1 at least one difference, 2 wrong usage or at
least one unreadable line (the others are still replayed), 3 the program
itself failed, or a review was not decided in time.
"""

SECTIONS = {
    "Admission chain": CHAIN_PARAMETERS,
    "Settings of single controllers": plugin_parameters(),
}


@click.command("replay", cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@click.argument("files", metavar="FILE...", type=ExistingPath(dash=True), nargs=-1, required=True)
@flag(
    "--against",
    type=ExistingPath(),
    multiple=True,
    help="Configurations to compare with, instead of the recorded decisions. Repeatable.",
)
@flag(
    "--phase",
    type=click.Choice(list(PHASES)),
    default="admit",
    show_default=True,
    help="The phases of AdmissionReviews that are not part of a recording.",
)
@flag("--skip-webhooks", is_flag=True, help="Call no webhooks, and skip reviews that they influenced.")
@flag(
    "--examples",
    type=WholeNumber(0, 1000),
    default=3,
    show_default=True,
    help="How many reviews to show for each difference.",
)
@timeout_flag("each decision")
@format_flag(*FORMATS)
@no_progress_flag
@chain_flags
def command(  # noqa: PLR0913 - one for each flag
    files: tuple[Path, ...],
    chain: ChainSettings,
    against: tuple[Path, ...],
    phase: str,
    output: str,
    *,
    skip_webhooks: bool,
    examples: int,
    timeout: float,
    no_progress: bool,
) -> int:
    """Replay recorded reviews with another configuration, and show the differences by controller, webhook or policy."""
    cluster = ReplayCluster(load_cluster(chain.cluster))
    progress = progress_for(None if no_progress else sys.stderr, sys.stdout, streams=output == "jsonl")

    def make_run(engine: Engine, baseline: Engine | None) -> ReplayRun:
        return ReplayRun(
            engine=engine,
            against=baseline,
            cluster=cluster,
            phases=PHASES[phase],
            timeout_seconds=timeout,
            skip_webhooks=skip_webhooks,
            comparer=DecisionComparer(
                RedactionReaders(load_catalogue(), policies_read_extra=mentions_extra(chain.config)).read
            ),
            report=ReplayReport(examples),
            output=open_replay_output(output),
            report_problem=functools.partial(print_problem, progress=progress),
            progress=progress,
        )

    replayed_chain = without_webhooks(chain) if skip_webhooks else chain
    return asyncio.run(_replay(files, replayed_chain, against, cluster, make_run))


async def _replay(
    files: tuple[Path, ...],
    chain: ChainSettings,
    against: tuple[Path, ...],
    cluster: ReplayCluster,
    make_run: Callable[[Engine, Engine | None], ReplayRun],
) -> ExitCode:
    chains = [chain, *([dataclasses.replace(chain, config=against)] if against else [])]
    engines: list[Engine] = []
    try:
        for settings in chains:
            engines.append(open_local(settings, cluster))  # noqa: PERF401 - those that are open are closed where one fails
        return await make_run(engines[0], engines[1] if against else None).run(files)
    finally:
        for engine in engines:
            await engine.close()
