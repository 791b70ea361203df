"""The settings of every gRPC service."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.isolation.modes import Isolation

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a service listens, whom it lets in, and how it ends."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0 picks a free one."""
    tls_cert_file: Path | None = None
    """Certificate chain in PEM, own certificate first. With it and the key, only TLS is served."""
    tls_private_key_file: Path | None = None
    """The certificate's private key in PEM. Both files are read again when they change."""
    client_ca_file: Path | None = None
    """Certificates of authorities, in PEM: only clients with a certificate of one of them get a connection. Read
    again when it changes."""
    client_allowed_names: tuple[str, ...] = ()
    """Who of those may call: one of the names in the certificate, its common name, a DNS name or a URI, must be one
    of these. Empty lets all of them call."""

    max_message_bytes: int = 16 * 1024 * 1024
    """The longest message, both ways. 16 MiB: twice a legal review of 7 MiB, and room for more around it."""
    max_concurrent_calls: int = 1000
    """Calls at a time; more are refused with RESOURCE_EXHAUSTED. 1,000: a kube-apiserver with default flags
    has 600 requests in flight, and watches of health count as calls."""
    max_connection_age_seconds: float = 1800.0
    """How long a connection lives before its client is told to make a new one, give or take a tenth. That is
    how clients that look up no names, as the front door does, find replicas that came later. 1800: 30 minutes, rare
    enough to cost nothing."""
    drain_seconds: float = 0.2
    """How long calls are still taken after the first signal to stop, while health says NOT_SERVING. 0.2:
    clients that watch health turn away within 0.033."""
    grace_seconds: float = 30.0
    """How long calls in flight may take to finish after that. 30: the longest timeout of a webhook."""
    metrics_host: str = "127.0.0.1"
    """Address on which metrics are shown."""
    metrics_port: int | None = None
    """Port on which ``GET /metrics`` shows metrics; 0 picks a free one, which the log tells. None: nothing is counted
    nor shown."""
    isolation: Isolation = Isolation.PROCESS
    """What stands between the service and the controllers of other packages."""
