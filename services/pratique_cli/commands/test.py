"""``pratique test``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pratique.apimachinery.errors import InputError
from pratique_cli.exit_codes import ExitCode
from pratique_cli.options import (
    REVIEW_FORMATS,
    ExistingPath,
    Number,
    color_flag,
    flag,
    format_flag,
    timeout_flag,
)
from pratique_cli.progress import no_progress_flag, progress_for
from pratique_cli.suites.cases import Case, Pattern
from pratique_cli.suites.outputs import open_suite_output
from pratique_cli.suites.reading import find_suites, read_cases
from pratique_cli.suites.running import SuiteRun
from pratique_cli.terminal import print_problem, printable

EPILOG = """\b
PATH is a file, or a folder to search recursively for documents of apiVersion
test.pratique/v1 and kind TestSuite. Each case names a manifest or an
AdmissionReview, and the expected result. Cases are independent: each has its
own chain.

\b
Examples:
  pratique test policies/
  pratique test policies/ --run 'restricted/.*privileged'
  pratique test policies/ --list
  pratique test policies/ -v --fail-fast
  pratique test policies/ --coverage-threshold 90
  pratique test -o junit policies/ > tests.xml

\b
Exit codes: 0 every case passed, 1 a case failed or the coverage is too low,
2 wrong usage or an unreadable suite (the others still run), 3 the program
itself failed, or a review was not decided in time.
"""


class _Pattern(click.ParamType[Pattern]):
    """A regular expression in RE2 syntax."""

    name = "pattern"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Pattern:
        """Compile the expression."""
        from pratique.cel.errors import EvaluationError  # noqa: PLC0415 - help needs no patterns
        from pratique.cel.libraries.regexes import compile_pattern  # noqa: PLC0415 - likewise

        try:
            return Pattern(value, compile_pattern(value))
        except EvaluationError as error:
            self.fail(str(error), param, ctx)


@click.command("test", epilog=EPILOG)
@click.argument("paths", metavar="PATH...", type=ExistingPath(), nargs=-1, required=True)
@flag(
    "--run", "pattern", type=_Pattern(), help="Run only the cases whose SUITE/CASE matches, as with go test."
)
@flag("--list", "list_only", is_flag=True, help="List the cases and exit.")
@flag("-x", "--fail-fast", is_flag=True, help="Stop at the first case that does not pass.")
@flag(
    "--coverage/--no-coverage",
    "with_coverage",
    default=True,
    help="Show which policies, validations, bindings and webhooks the cases use.",
)
@flag(
    "--coverage-threshold",
    "--fail-under",
    "coverage_threshold",
    type=Number(0, 100),
    metavar="PERCENT",
    help="Exit with 1 if fewer of those denied, changed or warned about anything.",
)
@format_flag(*REVIEW_FORMATS)
@flag("-v", "--verbose", is_flag=True, help="In text: show the steps of every case.")
@color_flag
@no_progress_flag
@timeout_flag("each review")
def command(  # noqa: PLR0913 - one for each flag
    paths: tuple[Path, ...],
    pattern: Pattern | None,
    output: str,
    *,
    list_only: bool,
    fail_fast: bool,
    with_coverage: bool,
    coverage_threshold: float | None,
    verbose: bool,
    color: bool | None,
    no_progress: bool,
    timeout: float,
) -> int:
    """Run test suites for policies."""
    problems: list[InputError] = []
    progress = progress_for(None if no_progress else sys.stderr, sys.stdout, streams=output != "junit")

    def report_problem(problem: str) -> None:
        print_problem(*problem.split("\n"), progress=progress)

    cases = _chosen(list(read_cases(find_suites(paths, problems), problems)), pattern, problems)
    if list_only:
        return _list(cases, problems)
    run = SuiteRun(
        timeout_seconds=timeout,
        output=open_suite_output(output, verbose=verbose, colour=color),
        report_problem=report_problem,
        progress=progress,
        fail_fast=fail_fast,
        with_coverage=with_coverage,
        coverage_threshold=coverage_threshold,
    )
    return asyncio.run(run.run(cases, problems))


def _chosen(cases: list[Case], pattern: Pattern | None, problems: Sequence[InputError]) -> list[Case]:
    if pattern is None:
        return cases
    chosen = [case for case in cases if pattern.found_in(case.full_name)]
    if not chosen and not problems:
        raise click.BadParameter(f"no case matches {pattern.text!r}; see --list", param_hint="--run")
    return chosen


def _list(cases: Sequence[Case], problems: Sequence[InputError]) -> ExitCode:
    for case in cases:
        click.echo(f"{printable(case.full_name)}  ({printable(case.document.file)}:{case.line})")
    for problem in problems:
        print_problem(str(problem))
    return ExitCode.BAD_INPUT if problems else ExitCode.ADMITTED
