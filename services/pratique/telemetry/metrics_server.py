"""An HTTP server for ``GET /metrics`` beside a gRPC service."""

from __future__ import annotations

import http.server
import logging
import socket
import threading
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler

from pratique.apimachinery.errors import ListenError

_log = logging.getLogger(__name__)

_CLIENT_TIMEOUT_SECONDS = 5.0
"""How long to wait for a silent client: half of Prometheus' own default timeout."""
_SHUTDOWN_POLL_SECONDS = 0.25
"""How often the server checks for shutdown, which delays the end of a service by as much."""
MAX_CLIENTS = 8
"""The maximum number of concurrent clients: two Prometheus servers and a few people. Others are disconnected."""
_PATHS = frozenset({"/metrics", "/metrics/"})


class MetricsServer:
    """Serves a registry over HTTP until closed."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Start to listen; port 0 picks a free port.

        Raises:
            ListenError: the address cannot be bound.
        """
        handler = type("_Registered", (_Handler,), {"registry": registry})
        try:
            self._server = (_IPv6Server if ":" in host else _Server)((host, port), handler)
        except (OSError, OverflowError) as error:
            raise ListenError(error, {"metrics-host": host, "metrics-port": port}) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            name="pratique-metrics",
            daemon=True,
            args=(_SHUTDOWN_POLL_SECONDS,),
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """The address it listens on, with the actual port."""
        host, port = self._server.server_address[:2]
        shown = str(host)
        return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(MetricsHandler):
    """Serves the metrics paths only; prometheus_client's own handler serves every path."""

    timeout = _CLIENT_TIMEOUT_SECONDS
    server_version = "pratique"
    sys_version = ""

    def do_GET(self) -> None:  # noqa: N802 - as in the standard library
        if self.path.partition("?")[0] in _PATHS:
            super().do_GET()
        else:
            self.send_error(http.HTTPStatus.NOT_FOUND)


class _Server(http.server.ThreadingHTTPServer):
    """Uses one thread per client, up to :data:`MAX_CLIENTS`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._clients = threading.BoundedSemaphore(MAX_CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a client, unless there are too many."""
        if self._clients.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a client, then free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._clients.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as it is called
        """Log a broken scrape; the standard library would print a traceback."""
        _log.debug("a scrape broke off", exc_info=True)


class _IPv6Server(_Server):
    address_family = socket.AF_INET6
