"""What the help of ``pratique serve mutator`` and ``pratique serve validator`` says of each setting."""

from __future__ import annotations

from types import MappingProxyType

SERVER_HELPS = MappingProxyType(
    {
        "host": "Address to listen on.",
        "port": "Port to listen on; 0 picks a free one.",
        "tls_cert_file": "Certificate chain in PEM, own certificate first. With the key, only TLS is served.",
        "tls_private_key_file": "Its private key in PEM. Both files are read again when they change.",
        "client_ca_file": "Authorities in PEM: only clients with a certificate of theirs are let in.",
        "client_allowed_names": "Clients that may call, by common name, DNS name or URI; all, if not given.",
        "max_message_bytes": "The longest message, both ways.",
        "max_concurrent_calls": "Calls at a time; more are refused with RESOURCE_EXHAUSTED.",
        "max_connection_age_seconds": "How long a connection lives before its client is to make a new one;"
        " that is how clients other than the front door find replicas that came later.",
        "metrics_host": "Address on which metrics are shown.",
        "metrics_port": "Port for GET /metrics; 0 picks a free one and logs it. No metrics, if not given.",
        "isolation": "Where controllers of other packages run: a process each, or threads of the service.",
        "drain_seconds": "How long calls are still taken after the first signal to stop.",
        "grace_seconds": "How long calls in flight may take to finish after that.",
    }
)
