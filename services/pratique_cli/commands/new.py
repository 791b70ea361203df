"""``pratique new``."""

from __future__ import annotations

from pathlib import Path

import click

from pratique_cli.main import HELP_FLAGS
from pratique_cli.options import flag
from pratique_cli.policy_packages import PolicyPackage

EPILOG = """\b
Examples:
  pratique new policy RequireTeam
"""

POLICY_EPILOG = """\b
Examples:
  pratique new policy RequireTeam
  pratique new policy RequireTeam --dir policies/require-team

\b
Then:
  pip install ./require-team
  pratique up --enable-admission-plugins RequireTeam
"""


@click.group("new", epilog=EPILOG, context_settings={"help_option_names": HELP_FLAGS})
def command() -> None:
    """Make something to start from."""


@command.command(
    "policy", epilog=POLICY_EPILOG, short_help="Make a package with a policy in Python and its tests."
)
@click.argument("name")
@flag(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="The folder to make; by default one named after the policy, here. Nothing is overwritten.",
)
def policy(name: str, folder: Path | None) -> None:
    """Make a package with a policy in Python, called NAME, and tests that pass.

    NAME is what --enable-admission-plugins takes, such as RequireTeam. The package holds the policy, its tests, a
    README, an AdmissionConfiguration and a request that is denied.
    """
    package = PolicyPackage.named(name)
    for path in package.write(Path(package.package) if folder is None else folder):
        click.echo(f"made {path}")
