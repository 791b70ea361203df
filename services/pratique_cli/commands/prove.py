"""``pratique prove``."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique_cli.chain_options import CHAIN_PARAMETERS, chain_flags, plugin_parameters
from pratique_cli.exit_codes import ExitCode
from pratique_cli.options import (
    FORMATS,
    ExistingPath,
    SectionedCommand,
    WholeNumber,
    color_flag,
    flag,
    format_flag,
    timeout_flag,
)
from pratique_cli.progress import no_progress_flag, progress_for
from pratique_cli.terminal import print_problem

if TYPE_CHECKING:
    from pratique_cli.mutator_checks.cases import MutatorCase
    from pratique_cli.mutator_checks.defects import CheckReport

EPILOG = """\b
PATH is a webhook configuration, a policy with its binding, a manifest, an
AdmissionReview, a folder of .yaml, .yml and .json with files of any of these,
or - for standard input. Given objects are tried first, then objects generated
for the kinds that the mutators match.

\b
Examples:
  pratique prove policies/
  pratique prove policies/ manifests/ --examples 1000
  pratique prove --admission-control Sidecar,Limits pod.yaml
  pratique prove policies/ --write found.yaml; pratique test found.yaml
  pratique prove policies/ manifests/ --writer apply --writer autoscaler.yaml

\b
Exit codes: 0 no defect found, 1 at least one defect found, 2 wrong usage or
unreadable input, 3 the program itself failed, or a mutator could not be
called.
"""

SECTIONS = {
    "Admission chain": CHAIN_PARAMETERS,
    "Settings of single controllers": plugin_parameters(),
}


@click.command("prove", cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@click.argument("paths", metavar="PATH...", type=ExistingPath(dash=True), nargs=-1)
@flag(
    "--examples",
    type=WholeNumber(0),
    default=100,
    show_default=True,
    help="How many objects to generate for each kind.",
)
@flag(
    "--seed",
    type=WholeNumber(0),
    default=0,
    show_default=True,
    help="The seed of the generator: the same seed generates the same objects.",
)
@flag(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the findings to FILE as a suite for pratique test.",
)
@flag(
    "--writer",
    "writers",
    multiple=True,
    metavar="apply|replace|FILE",
    help="Also let something write each object again until that ends: apply the object as it was before, replace it by"
    " that, or apply the fields in FILE. Several times: each by itself.",
)
@flag(
    "--no-dry-run",
    is_flag=True,
    help="Do not use dry-run requests, for webhooks that reject them. Side effects may be permanent.",
)
@timeout_flag("each run of the mutators")
@format_flag(*FORMATS)
@color_flag
@no_progress_flag
@chain_flags
def command(  # noqa: PLR0913 - one for each flag
    paths: tuple[Path, ...],
    chain: ChainSettings,
    output: str,
    *,
    examples: int,
    seed: int,
    write: Path | None,
    writers: tuple[str, ...],
    no_dry_run: bool,
    timeout: float,
    color: bool | None,
    no_progress: bool,
) -> ExitCode:
    """Check that mutators can run again, and in any order, on given and on generated objects."""
    if not paths and chain == type(chain)():
        raise click.UsageError("Missing argument 'PATH...': name configurations, manifests, or chain flags.")
    from pratique_cli.mutator_checks.cases import read_check_inputs  # noqa: PLC0415 - not needed for usage errors

    inputs = read_check_inputs(paths)
    chain = dataclasses.replace(chain, config=(*inputs.configurations, *chain.config))
    dry_run, shows_progress = not no_dry_run, not no_progress
    shape = _CheckSettings(examples, seed, timeout, writers, dry_run=dry_run, shows_progress=shows_progress)
    report = _run_checks(chain, inputs.objects, shape)
    _write_report(report, output, colour=color)
    if write is not None:
        _write_suite(report, chain, write)
    if report.error:
        return ExitCode.BROKEN
    return ExitCode.DENIED if report.findings else ExitCode.ADMITTED


class _CheckSettings(msgspec.Struct, frozen=True):
    """How much is tried, and how."""

    examples: int
    seed: int
    timeout: float
    writers: tuple[str, ...]
    dry_run: bool
    shows_progress: bool


def _run_checks(
    chain: ChainSettings, objects: Sequence[SourceDocument], shape: _CheckSettings
) -> CheckReport:
    from pratique_cli.mutator_checks.mutator_runs import MutatorRunner  # noqa: PLC0415
    from pratique_cli.mutator_checks.runs import MutatorCheckRun  # noqa: PLC0415
    from pratique_cli.mutator_checks.writers import read_writers  # noqa: PLC0415
    from pratique_frontdoor.engines.mutator_sets import MutatorSet  # noqa: PLC0415 - likewise

    store, writers = load_cluster(chain.cluster), read_writers(shape.writers)
    given = _cases(objects, store, dry_run=shape.dry_run)
    progress = progress_for(sys.stderr if shape.shows_progress else None, sys.stdout, streams=False)

    async def open_set() -> MutatorSet:
        return MutatorSet(chain, store)

    with asyncio.Runner() as loop:
        mutators = loop.run(open_set())
        try:
            run = MutatorCheckRun(
                runner=MutatorRunner(mutators, shape.timeout),
                store=store,
                loop=loop,
                seed=shape.seed,
                examples=shape.examples,
                dry_run=shape.dry_run,
                writers=writers,
                progress=progress,
            )
            return run.run(given)
        finally:
            progress.clear()
            loop.run(mutators.close())


def _cases(objects: Sequence[SourceDocument], store: ObjectStore, *, dry_run: bool) -> list[MutatorCase]:
    from pratique_cli.mutator_checks.cases import given_case  # noqa: PLC0415 - likewise

    for document in objects:
        if document.data.get("kind") == "CustomResourceDefinition":
            store.put(document.data)  # objects may come with their definition
    cases = (given_case(document, store, dry_run=dry_run) for document in objects)
    return [case for case in cases if case is not None]


def _write_report(report: CheckReport, output: str, *, colour: bool | None) -> None:
    if output == "text":
        from pratique_cli.mutator_checks.reports import report_text  # noqa: PLC0415
        from pratique_cli.terminal import palette_for  # noqa: PLC0415 - each format imports what it needs

        sys.stdout.write(report_text(report, palette_for(sys.stdout, colour=colour)))
    else:
        from pratique_cli.encoding import encode_document  # noqa: PLC0415
        from pratique_cli.mutator_checks.reports import report_document  # noqa: PLC0415

        sys.stdout.buffer.write(encode_document(report_document(report), output))
    sys.stdout.flush()
    if report.error:
        print_problem(report.error)


def _write_suite(report: CheckReport, chain: ChainSettings, file: Path) -> None:
    from pratique_cli.mutator_checks.reports import findings_suite, has_testable_findings  # noqa: PLC0415 - few ask for it

    if not has_testable_findings(report):
        print_problem(f"no finding can be written as a test; {file} is not written")
        return
    file.write_text(findings_suite(report, chain, file.parent), "utf-8")
