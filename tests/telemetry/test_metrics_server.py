"""The HTTP server for metrics beside a gRPC service."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.telemetry.metrics_server import MAX_CLIENTS, MetricsServer
from pratique.telemetry.registry import create_registry


@pytest.fixture(name="server")
def _server() -> Iterator[MetricsServer]:
    server = MetricsServer(create_registry(), "127.0.0.1", 0)
    yield server
    server.close()


def get(server: MetricsServer, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.address, timeout=120)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/metrics", "/metrics/", "/metrics?name[]=pratique_build_info"])
def test_the_metrics_paths_serve_the_registry(server: MetricsServer, path: str) -> None:
    status, body = get(server, path)
    assert status == 200
    assert b"pratique_build_info" in body


@pytest.mark.parametrize("path", ["/", "/metric", "/metrics/x", "/debug"])
def test_other_paths_are_not_found(server: MetricsServer, path: str) -> None:
    status, body = get(server, path)
    assert status == 404
    assert b"pratique_build_info" not in body


def test_a_client_beyond_the_limit_is_disconnected(server: MetricsServer) -> None:
    host, _, port = server.address.rpartition(":")
    silent = [socket.create_connection((host, int(port)), timeout=120) for _ in range(MAX_CLIENTS)]
    try:
        with socket.create_connection((host, int(port)), timeout=120) as extra:
            assert extra.recv(1) == b""
    finally:
        for connection in silent:
            connection.close()


def test_a_port_in_use_is_a_configuration_error(server: MetricsServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(
        ConfigurationError, match=f"^--metrics-host 127.0.0.1, --metrics-port {port}: cannot listen there"
    ):
        MetricsServer(create_registry(), "127.0.0.1", port)


def test_an_ipv6_address_has_brackets() -> None:
    try:
        server = MetricsServer(create_registry(), "::1", 0)
    except ConfigurationError as error:
        assert "cannot listen there" in str(error)  # noqa: PT017 - a machine without IPv6
        return
    try:
        assert server.address.startswith("[::1]:")
        assert get(server, "/metrics")[0] == 200
    finally:
        server.close()


def test_a_closed_server_accepts_no_connections() -> None:
    server = MetricsServer(create_registry(), "127.0.0.1", 0)
    server.close()
    with pytest.raises(ConnectionRefusedError):
        get(server, "/metrics")
