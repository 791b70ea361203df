"""``GET /metrics`` beside a service that speaks gRPC."""

from __future__ import annotations

import http.server
import logging
import socket
import threading
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler

from pratique.apimachinery.errors import ConfigurationError

_log = logging.getLogger(__name__)

_CLIENT_TIMEOUT_SECONDS = 5.0
"""How long one is waited for that says nothing: half of Prometheus' own patience with the other side."""
_SHUTDOWN_POLL_SECONDS = 0.25
"""How often it looks whether it is to end; the end of a service waits for that long."""
MAX_CLIENTS = 8
"""At a time; more are turned away. Two Prometheis, and whoever looks by hand."""
_PATHS = frozenset({"/metrics", "/metrics/"})


class MetricsServer:
    """Serves a registry over HTTP until it is closed."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Listen; a ``port`` of 0 picks a free one.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        handler = type("_Registered", (_Handler,), {"registry": registry})
        try:
            self._server = (_IPv6Server if ":" in host else _Server)((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigurationError(
                f"--metrics-host {host}, --metrics-port {port}: cannot listen there: {reason}"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            name="pratique-metrics",
            daemon=True,
            args=(_SHUTDOWN_POLL_SECONDS,),
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it listens, with the port that was picked."""
        host, port = self._server.server_address[:2]
        shown = str(host)
        return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(MetricsHandler):
    """Answers one path; prometheus_client's answers all of them."""

    timeout = _CLIENT_TIMEOUT_SECONDS
    server_version = "pratique"
    sys_version = ""

    def do_GET(self) -> None:  # noqa: N802 - as in the standard library
        if self.path.partition("?")[0] in _PATHS:
            super().do_GET()
        else:
            self.send_error(http.HTTPStatus.NOT_FOUND)


class _Server(http.server.ThreadingHTTPServer):
    """One thread for each client, of which there are few."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._clients = threading.BoundedSemaphore(MAX_CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to answer, where there are not too many."""
        if self._clients.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and let the next one in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._clients.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as it is called
        """Say that a scrape broke off; the standard library would print its traceback."""
        _log.debug("a scrape broke off", exc_info=True)


class _IPv6Server(_Server):
    address_family = socket.AF_INET6
