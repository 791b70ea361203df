"""The settings of every gRPC service."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

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
    """The certificate's private key in PEM."""

    max_message_bytes: int = 16 * 1024 * 1024
    """The longest message, both ways. 16 MiB: twice a legal review of 7 MiB, and room for more around it."""
    max_concurrent_calls: int = 1000
    """Calls at a time; more are refused with RESOURCE_EXHAUSTED. 1,000: a kube-apiserver with default flags
    has 600 requests in flight, and watches of health count as calls."""
    max_connection_age_seconds: float = 1800.0
    """How long a connection lives before its client is told to make a new one, give or take a tenth. That is
    how clients find replicas that came later. 1800: 30 minutes, rare enough to cost nothing."""
    drain_seconds: float = 0.2
    """How long calls are still taken after the first signal to stop, while health says NOT_SERVING. 0.2:
    clients that watch health turn away within 0.033."""
    grace_seconds: float = 30.0
    """How long calls in flight may take to finish after that. 30: the longest timeout of a webhook."""
