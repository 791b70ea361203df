"""``pratique serve frontdoor``."""

from __future__ import annotations

from types import MappingProxyType

import click

from pratique_cli.service_options import FRONT_DOOR_HELPS, settings_flags
from pratique_frontdoor.serve import run
from pratique_frontdoor.settings import FrontDoorSettings

HELPS = MappingProxyType(
    {
        "host": "Address to listen on.",
        "port": "Port to listen on; 0 picks a free one.",
        "tls_cert_file": "Certificate chain in PEM, own certificate first. With the key, HTTPS is served.",
        "tls_private_key_file": "Its private key in PEM. Both files are read again when they change.",
        "tls_min_version": "Oldest version of TLS: VersionTLS12 or VersionTLS13.",
        "tls_cipher_suites": "Cipher suites of TLS 1.2, as Go names them; OpenSSL's choice, if not given.",
        "client_ca_file": "Authorities in PEM: who has a certificate of theirs may call.",
        "client_allowed_names": "Who of those may call, by common name, DNS name or URI; all, if not given.",
        "token_file": "Bearer tokens, one a line: who has one may call.",
        "basic_auth_file": "user:password in each line: who has one may call.",
        "mutator": "gRPC target of the mutator, such as dns:///mutator:9443.",
        "validators": "gRPC targets of the validators; calls are spread over all that they resolve to.",
        "services_ca_file": "Authorities of the services, in PEM. With it they are asked over TLS.",
        "services_cert_file": "Certificate in PEM that the front door shows to the services.",
        "services_private_key_file": "Its private key in PEM.",
        "mutator_server_name": "Name in the mutator's certificate, if not that of its target.",
        "validator_server_name": "Name in the validators' certificates, if not that of their target.",
        "calls": "How services are called: a stream to each replica, or every call by itself (unary).",
        "slow_replica_seconds": "For how long a service's slow replica is left out; slow trials double it; 0: never.",
        "default_timeout_seconds": "Time for a review that comes without ?timeout=.",
        "max_timeout_seconds": "The longest time for a review, whatever it asks for.",
        "answer_margin_seconds": "How long before its time is up a review is given up, to answer in time.",
        "max_body_bytes": "The longest body that is read.",
        "max_in_flight_bytes": "Bodies that are held at a time; more reviews are turned away with 503.",
        "reserved_in_flight_bytes": "Beyond that, for reviews of nodes, leases and system users.",
        "max_caller_requests": "Reviews in flight of one caller with credentials; 0 is no limit.",
        "max_caller_bytes": "Bytes of reviews that one caller with credentials holds; 0 is no limit.",
        "max_address_requests": "Reviews in flight from an address, without credentials; 0 is no limit.",
        "max_address_bytes": "Bytes of reviews from an address, without credentials; 0 is no limit.",
        "max_address_connections": "Connections of an address that are not let in; 0 is no limit.",
        "max_unauthenticated_bytes": "What all connections take up that are not let in; 0 is no limit.",
        "head_seconds": "How long a client may take to shake hands and to send the head of a request.",
        "max_head_bytes": "The longest head of a request.",
        "max_head_fields": "The most header fields of a request.",
        "body_seconds": "How long a client may take to send a body.",
        "body_grace_seconds": "How long a body may come as slowly as it likes.",
        "min_body_bytes_per_second": "How much of a body has to come in each second after that.",
        "keep_alive_seconds": "How long an idle connection stays open.",
        **FRONT_DOOR_HELPS,
        "drain_seconds": "How long new requests are still answered after the first signal to stop.",
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
@settings_flags(FrontDoorSettings, HELPS, {"validators": "validator"})
def command(settings: FrontDoorSettings) -> None:
    """Answer AdmissionReviews over HTTP or HTTPS, asking a mutator and validators over gRPC."""
    run(settings)
