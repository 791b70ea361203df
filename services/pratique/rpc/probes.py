"""Ask a gRPC service whether it serves: what the health check of a container runs.

Usage: ``python -m pratique.rpc.probes HOST:PORT``. Exits with 0 where the service says SERVING, with 1 and
one line that says why where it does not, and with 2 where it was not told whom to ask.
"""

from __future__ import annotations

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

PATIENCE_SECONDS = 2.0
"""Less than a container's health check may take, so that the reason is told before that is over."""


def probe(target: str) -> str | None:
    """Ask for the health of the whole service (grpc.health.v1); gives None where it serves, else why not."""
    with grpc.insecure_channel(target) as channel:
        ask = health_pb2_grpc.HealthStub(channel).Check
        try:
            answer = ask(health_pb2.HealthCheckRequest(), timeout=PATIENCE_SECONDS)
        except grpc.RpcError as error:
            return f"{target}: {error.code().name}"
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        return None
    return f"{target}: {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}"


def main(arguments: list[str]) -> int:
    """Probe the one service that is named, and say on standard error what is wrong with it."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m pratique.rpc.probes HOST:PORT\n")
        return 2
    reason = probe(arguments[0])
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
    return 0 if reason is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
