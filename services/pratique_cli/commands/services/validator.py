"""``pratique serve validator``."""

from __future__ import annotations

import dataclasses

import click

from pratique.controllers.quota.ledger import default_ledger_file, has_ledger_url, with_ledger_url
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
    VALIDATOR.run(_with_ledger(settings))


def _with_ledger(settings: ValidatorSettings) -> ValidatorSettings:
    """Default the quota ledger to a file, so that usage survives the process."""
    if has_ledger_url(settings.chain):
        return settings
    return dataclasses.replace(settings, chain=with_ledger_url(settings.chain, str(default_ledger_file())))
