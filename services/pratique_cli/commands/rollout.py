"""``pratique rollout``."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

import click
import msgspec

from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import InputError, PratiqueError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique_cli.chain_options import CHAIN_PARAMETERS, chain_flags, plugin_parameters
from pratique_cli.encoding import encode_list
from pratique_cli.exit_codes import ExitCode
from pratique_cli.options import ExistingPath, SectionedCommand, WholeNumber, flag, format_flag, timeout_flag
from pratique_cli.progress import Progress, no_progress_flag, progress_for
from pratique_cli.replays.recorded_reviews import RecordedReview, read_recorded
from pratique_cli.replays.runs import ReplayCluster
from pratique_cli.reviews.inputs import read_inputs_with_progress
from pratique_cli.reviews.requests import PHASES
from pratique_cli.shadow_decisions import ShadowSummary
from pratique_cli.terminal import palette_for, print_problem
from pratique_frontdoor.chain.decision_documents import to_document
from pratique_frontdoor.engines.engine import Engine, open_local

EPILOG = """\b
FILE is a recording (pratique record, --record), or - for standard input. With
--config, its reviews are decided again under that configuration, so that you
see what a rollout would do before it runs anywhere; webhooks are called, and
nothing is charged to quotas.

\b
Examples:
  pratique rollout reviews.jsonl
  pratique rollout reviews.jsonl --config policies/ --config rollouts.yaml
  pratique rollout reviews.jsonl -o json | jq '.[].namespaces'

\b
Exit codes: 0 nothing in shadow would have denied a review, 1 at least one
review would have been denied, 2 wrong usage, unreadable input, or no decision
in shadow, 3 the program itself failed, or a review was not decided in time.
"""

SECTIONS = {
    "Admission chain, with --config": CHAIN_PARAMETERS,
    "Settings of single controllers": plugin_parameters(),
}


@click.command("rollout", cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@click.argument("files", metavar="FILE...", type=ExistingPath(dash=True), nargs=-1, required=True)
@flag(
    "--examples",
    type=WholeNumber(0, 1000),
    default=3,
    show_default=True,
    help="How many reviews to show for each policy, webhook or controller.",
)
@timeout_flag("each decision")
@format_flag("text", "json", "yaml")
@no_progress_flag
@chain_flags
def command(
    files: tuple[Path, ...],
    chain: ChainSettings,
    output: str,
    *,
    examples: int,
    timeout: float,
    no_progress: bool,
) -> ExitCode:
    """Show what policies in shadow would have denied and changed, of which namespaces and users."""
    summary = ShadowSummary(examples)
    cluster = ReplayCluster(load_cluster(chain.cluster))
    progress = progress_for(None if no_progress else sys.stderr, sys.stdout, streams=False)
    code = asyncio.run(_Evaluation(summary, cluster, timeout, progress).run(files, chain))
    evidence = summary.evidence
    if not evidence and code is ExitCode.ADMITTED:
        counted = f"{summary.reviews} {'review' if summary.reviews == 1 else 'reviews'}"
        raise InputError(
            f"no decision in shadow in {counted}: name policies and their PolicyRollout by --config, or record them"
        )
    if output == "text":
        lines = itertools.chain.from_iterable(entry.lines() for entry in evidence)
        text = "".join(f"{line}\n" for line in lines)
        click.echo(text, nl=False, color=palette_for(sys.stdout, colour=None).colour)
    else:
        click.echo(encode_list([entry.document for entry in evidence], output), nl=False)
    denials = any(entry.denials for entry in evidence)
    return code if code is not ExitCode.ADMITTED or not denials else ExitCode.DENIED


class _UndecidedError(PratiqueError):
    """A review was not decided in time."""


class _Evaluation(msgspec.Struct, frozen=True):
    """Adds the decisions on recorded reviews to a summary: the recorded ones, or new ones."""

    summary: ShadowSummary
    cluster: ReplayCluster
    timeout_seconds: float
    progress: Progress

    async def run(self, files: tuple[Path, ...], chain: ChainSettings) -> ExitCode:
        """Add all decisions, and return the exit code if something is amiss."""
        try:
            if not chain.config:
                return await self._add_all(files, None)
            engine = open_local(chain, self.cluster)
            try:
                return await self._add_all(files, engine)
            finally:
                await engine.close()
        finally:
            self.progress.clear()

    async def _add_all(self, files: tuple[Path, ...], engine: Engine | None) -> ExitCode:
        code = ExitCode.ADMITTED
        for document in read_inputs_with_progress(files, self.progress):
            try:
                if isinstance(document, InputError):
                    raise document
                await self._add(document, engine)
            except InputError as error:
                code = max(code, ExitCode.BAD_INPUT)
                print_problem(str(error), progress=self.progress)
            except _UndecidedError as error:
                code = ExitCode.BROKEN
                print_problem(str(error), progress=self.progress)
            self.progress.update(f"{self.summary.reviews} reviewed")
        return code

    async def _add(self, document: SourceDocument, engine: Engine | None) -> None:
        recorded = read_recorded(document, self.cluster, PHASES["admit"])
        if engine is None:
            steps = member(document.data, "decision", "steps")
            if not isinstance(steps, list):
                raise document.fault((), "no decision is recorded; decide it by --config")
        elif recorded.omitted:
            raise document.fault((), "its objects were too large to record, so it cannot be decided again")
        else:
            steps = (await self._decide(recorded, engine))["steps"]
        try:
            self.summary.add(document, recorded.review, steps)
        except (KeyError, TypeError, AttributeError):
            raise document.fault((), "decision: not a decision document") from None

    async def _decide(self, recorded: RecordedReview, engine: Engine) -> JSONObject:
        try:
            deadline = Deadline.after(self.timeout_seconds)
            return to_document(await engine.decide(recorded.review, recorded.phases, deadline))
        except TimeoutError:
            problem = f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            raise _UndecidedError(str(recorded.document.fault((), problem))) from None
        finally:
            self.cluster.settle()
