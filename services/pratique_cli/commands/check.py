"""``pratique check``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from pratique_cli.chain_flags import chain_flags
from pratique_cli.exits import ExitCode
from pratique_cli.flags import ExistingPath
from pratique_cli.loads import load_all
from pratique_cli.palettes import printable

if TYPE_CHECKING:
    from pathlib import Path

    from pratique.settings import ChainSettings

EPILOG = """\b
Examples:
  pratique check webhooks/
  pratique check webhooks/ --cluster cluster/ --admission-control-config-file admission.yaml

\b
Each problem is one line on standard error, with file, document and field. So
is each warning, with the reasons indented below it: an expression of a policy
that does not fit the schema of a kind that the policy matches. --cluster brings
the schemas of custom resources.
Exit codes: 0 no problem, with or without warnings, 2 problems.
"""


@click.command("check", epilog=EPILOG)
@click.argument("paths", metavar="PATH...", type=ExistingPath(dash=True), nargs=-1)
@chain_flags
def command(paths: tuple[Path, ...], chain: ChainSettings) -> ExitCode:
    """Validate configurations and policies, and all else that the chain flags name.

    PATH is what --config takes: webhook configurations and policies.
    """
    if not paths and chain == type(chain)():
        raise click.UsageError(
            "Missing argument 'PATH...': name a configuration, or what a chain flag takes."
        )
    loaded = load_all(dataclasses.replace(chain, config=(*paths, *chain.config)))
    warnings = loaded.warnings()
    for text in (*loaded.problems, *warnings):
        click.echo("pratique: " + "\n".join(map(printable, text.split("\n"))), err=True)
    if loaded.problems:
        return ExitCode.BAD_INPUT
    click.echo(f"no problems found{_counted(len(warnings))}")
    return ExitCode.ADMITTED


def _counted(warnings: int) -> str:
    return "" if not warnings else f", {warnings} warning{'s' if warnings > 1 else ''}"
