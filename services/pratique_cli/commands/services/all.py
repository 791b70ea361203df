"""``pratique serve all``."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType

import click

from pratique.controllers.quota.ledger import with_default_ledger
from pratique_cli.commands.services.frontdoor import HELPS as FRONT_DOOR_HELPS
from pratique_cli.service_options import SERVER_HELPS, settings_flags
from pratique_frontdoor.engines.standalone import StandaloneSettings, open_standalone
from pratique_frontdoor.serve import run

_OF_SERVICES = (
    "mutator",
    "validators",
    "services_ca_file",
    "services_cert_file",
    "services_private_key_file",
    "checks_key_file",
    "mutator_server_name",
    "validator_server_name",
    "calls",
    "slow_replica_seconds",
    "validator_fanout",
    "validator_hedge_after",
    "mutator_timeout_seconds",
    "validator_timeout_seconds",
)
"""The settings of calls to services, of which there are none here."""
HELPS = MappingProxyType(
    {name: text for name, text in FRONT_DOOR_HELPS.items() if name not in _OF_SERVICES}
    | {"isolation": SERVER_HELPS["isolation"]}
)

EPILOG = """\b
Examples:
  pratique serve all
  pratique serve all --config policies/ --cluster cluster/
  pratique serve all --port 8443 --tls-cert-file tls.crt --tls-private-key-file tls.key
"""


@click.command("all", epilog=EPILOG)
@settings_flags(StandaloneSettings, HELPS, {})
def command(settings: StandaloneSettings) -> None:
    """Answer AdmissionReviews over HTTP or HTTPS, with all controllers in one process and no gRPC."""
    settings = dataclasses.replace(settings, chain=with_default_ledger(settings.chain))
    run(settings, lambda _: open_standalone(settings))
