"""Check the health of a gRPC service, for the health check of a container.

Usage: ``python -m pratique.rpc.probes [FLAGS] HOST:PORT``; with flags, over TLS. Exits with 0 if the service is
SERVING, with 1 and a reason in one line if it is not, and with 2 if the arguments are wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

TIMEOUT_SECONDS = 2.0
"""Shorter than the timeout of a container's health check, so that the reason is printed in time."""


def probe(
    target: str, credentials: grpc.ChannelCredentials | None = None, server_name: str = ""
) -> str | None:
    """Check the health of the whole service (grpc.health.v1); return None if it serves, else the reason.

    Args:
        target: The service, in gRPC's name syntax.
        credentials: For TLS; None means no TLS.
        server_name: The name that the service's certificate must have; empty means the name in the target.
    """
    options = (("grpc.ssl_target_name_override", server_name),) if server_name else ()
    with (
        grpc.insecure_channel(target)
        if credentials is None
        else grpc.secure_channel(target, credentials, options=options)
    ) as channel:
        ask = health_pb2_grpc.HealthStub(channel).Check
        try:
            answer = ask(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            return f"{target}: {error.code().name}"
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        return None
    return f"{target}: {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}"


def main(arguments: list[str]) -> int:
    """Probe the given service, and print to standard error why it does not serve."""
    options = _parser().parse_args(arguments)
    try:
        reason = probe(options.target, _credentials(options), options.server_name)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
    return 0 if reason is None else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pratique.rpc.probes", description="Ask whether a service serves."
    )
    parser.add_argument("target", metavar="HOST:PORT")
    parser.add_argument("--ca-file", type=Path, help="authorities of the service's certificate, in PEM")
    parser.add_argument("--cert-file", type=Path, help="certificate to show, in PEM")
    parser.add_argument("--private-key-file", type=Path, help="its private key, in PEM")
    parser.add_argument("--server-name", default="", help="name in the service's certificate")
    return parser


def _credentials(options: argparse.Namespace) -> grpc.ChannelCredentials | None:
    files = (options.ca_file, options.private_key_file, options.cert_file)
    if files == (None, None, None):
        return None
    return grpc.ssl_channel_credentials(*(None if file is None else file.read_bytes() for file in files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
