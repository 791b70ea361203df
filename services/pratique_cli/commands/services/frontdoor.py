"""``pratique serve frontdoor``."""

from __future__ import annotations

from types import MappingProxyType

import click

from frontdoor.serve import run
from frontdoor.settings import FrontDoorSettings
from pratique_cli.settings_flags import settings_flags

HELPS = MappingProxyType(
    {
        "host": "Address to listen on.",
        "port": "Port to listen on; 0 picks a free one.",
        "tls_cert_file": "Certificate chain in PEM, own certificate first. With the key, HTTPS is served.",
        "tls_private_key_file": "Its private key in PEM. Both files are read again when they change.",
        "mutator": "gRPC target of the mutator, such as dns:///mutator:9443.",
        "validators": "gRPC targets of the validators; calls are spread over all that they resolve to.",
        "default_timeout_seconds": "Time for a review that comes without ?timeout=.",
        "max_timeout_seconds": "The longest time for a review, whatever it asks for.",
        "answer_margin_seconds": "How long before its time is up a review is given up, to answer in time.",
        "max_body_bytes": "The longest body that is read.",
        "max_in_flight_bytes": "Bodies that are held at a time; more reviews are turned away with 503.",
        "head_seconds": "How long a client may take to shake hands and to send the head of a request.",
        "keep_alive_seconds": "How long an idle connection stays open.",
        "drain_seconds": "How long new requests are still answered after the first signal to stop.",
    }
)

EPILOG = """\b
Examples:
  pratique serve frontdoor
  pratique serve frontdoor --mutator dns:///mutator:9443 --validator dns:///validator:9443
  pratique serve frontdoor --port 8443 --tls-cert-file tls.crt --tls-private-key-file tls.key
"""


@click.command("frontdoor", epilog=EPILOG)
@settings_flags(FrontDoorSettings, HELPS, {"validators": "validator"})
def command(settings: FrontDoorSettings) -> None:
    """Answer AdmissionReviews over HTTP or HTTPS, asking a mutator and validators over gRPC."""
    run(settings)
