"""``pratique check``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from pratique_cli.chain_flags import chain_flags
from pratique_cli.exits import ExitCode
from pratique_cli.flags import ExistingPath
from pratique_cli.loads import problems_of
from pratique_cli.palettes import printable

if TYPE_CHECKING:
    from pathlib import Path

    from pratique.settings import ChainSettings

EPILOG = """\b
Examples:
  pratique check webhooks/
  pratique check webhooks/ --cluster cluster/ --admission-control-config-file admission.yaml

\b
Each problem is one line on standard error, with file, document and field.
Exit codes: 0 no problem, 2 problems.
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
    problems = problems_of(dataclasses.replace(chain, config=(*paths, *chain.config)))
    for problem in problems:
        click.echo(f"pratique: {printable(problem)}", err=True)
    if problems:
        return ExitCode.BAD_INPUT
    click.echo("no problems found")
    return ExitCode.ADMITTED
