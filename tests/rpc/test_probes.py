from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
import trustme
from grpc_health.v1 import health, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse

from pratique.rpc import probes
from support.certificate_mounts import Mount
from support.free_ports import free_port


@contextlib.contextmanager
def service(status: int | None) -> Iterator[str]:
    """A service that speaks of its health, if at all, as it is told to; gives its address."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    if status is not None:
        servicer = health.HealthServicer()
        servicer.set("", status)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait()


@pytest.fixture
def closed_port() -> int:
    return free_port()


def test_a_service_that_serves_is_healthy() -> None:
    with service(HealthCheckResponse.SERVING) as target:
        assert probes.main([target]) == 0


@pytest.mark.parametrize(
    ("status", "reason"),
    [(HealthCheckResponse.NOT_SERVING, "NOT_SERVING"), (None, "UNIMPLEMENTED")],
    ids=["drains", "does not say"],
)
def test_a_service_that_is_not_serving_is_reported(
    status: int | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with service(status) as target:
        assert probes.main([target]) == 1
    assert capsys.readouterr().err == f"{target}: {reason}\n"


def test_an_unreachable_service_is_reported(closed_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"127.0.0.1:{closed_port}"
    assert probes.main([target]) == 1
    assert capsys.readouterr().err == f"{target}: UNAVAILABLE\n"


@pytest.mark.parametrize("arguments", [[], ["one:1", "two:2"]], ids=["none", "two"])
def test_wrong_arguments_print_the_usage(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pratique.rpc.probes", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m pratique.rpc.probes ")
    assert "HOST:PORT" in done.stderr


def test_a_service_with_mutual_tls_can_be_probed_with_a_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    mount = Mount.of(tmp_path / "tls", authority.issue_cert("mutator"), authority)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    servicer = health.HealthServicer()
    servicer.set("", HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    pair = (mount.key.read_bytes(), mount.certificate.read_bytes())
    credentials = grpc.ssl_server_credentials(
        [pair], mount.authorities.read_bytes(), require_client_auth=True
    )
    target = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
    server.start()
    shown = ["--cert-file", str(mount.certificate), "--private-key-file", str(mount.key)]
    trusted = ["--ca-file", str(mount.authorities), "--server-name", "mutator"]
    try:
        assert probes.main([*trusted, *shown, target]) == 0
        for flags in (trusted, [*trusted[:2], *shown], []):
            assert probes.main([*flags, target]) == 1
            assert capsys.readouterr().err == f"{target}: UNAVAILABLE\n"
        assert probes.main(["--ca-file", "nothing", target]) == 1
        assert capsys.readouterr().err == "nothing: No such file or directory\n"
    finally:
        server.stop(grace=None).wait()
