"""TLS credentials of services, from files."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import grpc

from pratique.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from pratique.rpc.settings import ServerSettings


def server_credentials(settings: ServerSettings) -> grpc.ServerCredentials | None:
    """Load what a service proves itself with; None where it serves without TLS.

    Raises:
        ConfigurationError: one file is given without the other, or they cannot be used.
    """
    certificate, key = settings.tls_cert_file, settings.tls_private_key_file
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ConfigurationError(
            "--tls-cert-file and --tls-private-key-file go together: give both or neither"
        )
    pair = (_read(key), _read(certificate))
    _check(certificate, key)
    return grpc.ssl_server_credentials([pair])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None


def _check(certificate: Path, key: Path) -> None:
    # gRPC would notice a bad pair only at the first handshake, and tell nobody.
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        reason = (error.reason or "unreadable").lower().replace("_", " ")
        expected = "expected a PEM certificate and its PEM private key without passphrase"
        raise ConfigurationError(f"{certificate} and {key}: {reason}: {expected}") from None
