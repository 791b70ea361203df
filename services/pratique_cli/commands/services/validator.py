"""``pratique serve validator``."""

from __future__ import annotations

import dataclasses

import click

from pratique.controllers.quota.ledger import with_default_ledger
from pratique_cli.service_options import SERVER_HELPS, settings_flags
from pratique_validator.service import VALIDATOR, ValidatorSettings

EPILOG = """\b
Examples:
  pratique serve validator
  pratique serve validator --host 0.0.0.0 --port 9443 --cluster cluster/
"""


@click.command("validator", epilog=EPILOG)
@settings_flags(ValidatorSettings, SERVER_HELPS, {})
def command(settings: ValidatorSettings) -> None:
    """Run validating admission controllers, over gRPC (proto/pratique/admission/v1)."""
    VALIDATOR.run(dataclasses.replace(settings, chain=with_default_ledger(settings.chain)))
