"""``pratique serve frontdoor``."""

from __future__ import annotations

from types import MappingProxyType

import click

from pratique_cli.service_options import FLAG_NAMES, FRONT_DOOR_HELPS, LISTENER_HELPS, settings_flags
from pratique_frontdoor.serve import run
from pratique_frontdoor.settings import FrontDoorSettings

HELPS = MappingProxyType(
    {
        **LISTENER_HELPS,
        "tls_min_version": "Oldest TLS version: VersionTLS12 or VersionTLS13.",
        "tls_cipher_suites": "TLS 1.2 cipher suites, by Go's names; OpenSSL's choice by default.",
        "token_file": "Bearer tokens that may call, one per line.",
        "basic_auth_file": "Users that may call, user:password, one per line.",
        "mutator": "gRPC target of the mutator, such as dns:///mutator:9443.",
        "validators": "gRPC targets of the validators; calls are distributed among all replicas they resolve to.",
        "services_ca_file": "CA certificates of the services, in PEM. With it, calls to them use TLS.",
        "services_cert_file": "Client certificate of the front door for the services, in PEM.",
        "services_private_key_file": "Its private key in PEM.",
        "checks_key_file": "A key shared with the services, which then need not check large objects again.",
        "mutator_server_name": "Name in the mutator's certificate, if it differs from its target.",
        "validator_server_name": "Name in the validators' certificates, if it differs from their target.",
        "calls": "How to call services: one stream for each replica (stream), or single calls (unary).",
        "slow_replica_seconds": "How long to avoid a slow replica; slow trial calls double it; 0 never avoids one.",
        "default_timeout_seconds": "Timeout of a review without ?timeout=.",
        "max_timeout_seconds": "The longest timeout of a review.",
        "answer_margin_seconds": "How long before its timeout a review is given up, so that the answer is in time.",
        "max_body_bytes": "The longest request body.",
        "max_in_flight_bytes": "Total bytes of request bodies in memory, each 64 KiB or more; further reviews get 503.",
        "reserved_in_flight_bytes": "Bytes in addition to that for reviews of nodes, leases and system users.",
        "max_caller_requests": "Concurrent reviews of one authenticated caller; 0 is no limit.",
        "max_caller_bytes": "Bytes of concurrent reviews of one authenticated caller; 0 is no limit.",
        "max_address_requests": "Concurrent reviews from one address without credentials; 0 is no limit.",
        "max_address_bytes": "Bytes of concurrent reviews from one address without credentials; 0 is no limit.",
        "max_address_connections": "Unauthenticated connections from one address; 0 is no limit.",
        "max_unauthenticated_bytes": "Total memory of unauthenticated connections; 0 is no limit.",
        "head_seconds": "How long a client may take for the handshake and the head of a request.",
        "max_head_bytes": "The longest head of a request.",
        "max_head_fields": "The most header fields of a request.",
        "body_seconds": "How long a client may take to send a body.",
        "body_grace_seconds": "How long a body may arrive at any speed.",
        "min_body_bytes_per_second": "The minimum speed of a body after that, in bytes per second.",
        "keep_alive_seconds": "How long an idle connection stays open.",
        **FRONT_DOOR_HELPS,
        "drain_seconds": "How long to answer new requests after SIGTERM; Ctrl-C ends at once what is idle.",
    }
)

EPILOG = """\b
Examples:
  pratique serve frontdoor
  pratique serve frontdoor --mutator dns:///mutator:9443 --validator dns:///validator:9443
  pratique serve frontdoor --port 8443 --tls-cert-file tls.crt --tls-private-key-file tls.key
  pratique serve frontdoor --record /var/log/pratique/reviews.jsonl --record-max-bytes 16MiB
"""


@click.command("frontdoor", epilog=EPILOG)
@settings_flags(FrontDoorSettings, HELPS, {"validators": "validator", **FLAG_NAMES})
def command(settings: FrontDoorSettings) -> None:
    """Answer AdmissionReviews over HTTP or HTTPS, by calling a mutator and validators over gRPC."""
    run(settings)
