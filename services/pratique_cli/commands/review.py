"""``pratique review``."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import click

from frontdoor.engines import open_local
from pratique.cluster_files import load_cluster
from pratique.definitions import BOTH, MUTATE, VALIDATE
from pratique_cli.chain_flags import chain_flags
from pratique_cli.flags import ExistingPath, Seconds, flag
from pratique_cli.formats import format_flag
from pratique_cli.outputs.writers import open_output
from pratique_cli.palettes import printable
from pratique_cli.review_runs import ReviewRun

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pratique.clusters import ObjectStore
    from pratique.settings import ChainSettings
    from pratique_cli.exits import ExitCode
    from pratique_cli.outputs import Output

_PHASES = {"admit": BOTH, "mutate": MUTATE, "validate": VALIDATE}

EPILOG = """\b
FILE is an AdmissionReview in JSON or YAML, a JSON Lines stream of them, any
Kubernetes manifest (reviewed as a CREATE), a folder of .yaml, .yml and .json,
or - for standard input. Documents are reviewed in order; what is admitted is
seen by the reviews after it, as in kubectl apply -f.

\b
Examples:
  pratique review deployment.yaml
  pratique review --config webhooks/ --cluster cluster/ manifests/
  helm template chart | pratique review -o text -
  pratique review -o jsonl reviews.jsonl | jq .status.message

\b
Exit codes: 0 every request admitted, 1 at least one denied, 2 wrong usage or
at least one unreadable document (the others are reviewed all the same), 3 the
program itself failed, or a review was not decided in time.
"""


@click.command("review", epilog=EPILOG)
@click.argument("files", metavar="FILE...", type=ExistingPath(dash=True), nargs=-1, required=True)
@flag(
    "--phase",
    type=click.Choice(list(_PHASES)),
    default="admit",
    show_default=True,
    help="What each request goes through: the mutating phase, the validating phase, or both.",
)
@format_flag
@flag("-v", "--verbose", is_flag=True, help="In text: why steps were skipped, times and endpoints.")
@flag(
    "--color/--no-color",
    default=None,
    help="Colour the text, or do not. Without either: on a terminal, unless NO_COLOR is set.",
)
@flag(
    "--timeout",
    type=Seconds(),
    default="10s",
    show_default=True,
    help="How long each review may take, such as 500ms or 30s.",
)
@chain_flags
def command(
    files: tuple[Path, ...],
    chain: ChainSettings,
    phase: str,
    output: str,
    *,
    verbose: bool,
    color: bool | None,
    timeout: float,
) -> ExitCode:
    """Decide manifests and recorded reviews offline: what would the cluster decide, and why?"""
    store = load_cluster(chain.cluster)
    writer = open_output(output, verbose=verbose, colour=color)
    return asyncio.run(_review(files, chain, store, phase, writer, timeout))


async def _review(  # noqa: PLR0917 - what the command was told
    files: Iterable[Path],
    chain: ChainSettings,
    store: ObjectStore,
    phase: str,
    output: Output,
    timeout: float,  # noqa: ASYNC109
) -> ExitCode:
    # A read that waits for standard input is not ended by cancelling a task, which is asyncio's way.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = open_local(chain, store)
    try:
        run = ReviewRun(
            engine=engine,
            store=store,
            phases=_PHASES[phase],
            timeout_seconds=timeout,
            output=output,
            complain=_complain,
        )
        return await run.run(files)
    finally:
        await engine.close()


def _complain(problem: str) -> None:
    sys.stdout.flush()
    click.echo(f"pratique: {printable(problem)}", err=True)
