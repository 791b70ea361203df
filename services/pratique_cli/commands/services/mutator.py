"""``pratique serve mutator``."""

from __future__ import annotations

import click

from pratique_cli.service_options import SERVER_HELPS, settings_flags
from pratique_mutator.service import MUTATOR, MutatorSettings

EPILOG = """\b
Examples:
  pratique serve mutator
  pratique serve mutator --host 0.0.0.0 --port 9443 --cluster cluster/
"""


@click.command("mutator", epilog=EPILOG)
@settings_flags(MutatorSettings, SERVER_HELPS, {})
def command(settings: MutatorSettings) -> None:
    """Run mutating admission controllers, over gRPC (proto/pratique/admission/v1)."""
    MUTATOR.run(settings)
