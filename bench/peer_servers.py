"""Peers as servers: each is started as its own documentation has it run in production, and speaks TLS.

All of them show the same certificate. kopf and Pepr are one process each, because they are made so, and so are
controller-runtime and OPA, whose one uses all cores; gunicorn runs as many workers as its documentation advises for the
machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from deployments import Certificate
from measures import REVIEW, Target
from peer_installs import PEERS, install_go, install_node, install_python, run

from processes import command, family, process

_PATIENCE_SECONDS = 60.0
WORKERS = 2 * (os.cpu_count() or 1) + 1
"""What gunicorn's documentation starts from: (2 x cores) + 1."""


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """A peer that runs: where its two webhooks are."""

    port: int
    pid: int
    validate: str
    mutate: str

    def target(self, phase: str) -> Target:
        """One of its webhooks, with all processes that it has started meanwhile."""
        path = self.mutate if phase == "mutate" else self.validate
        return Target("https", self.port, path, tuple(family(self.pid)))


@contextlib.contextmanager
def serve_kopf(certificate: Certificate, _folder: Path) -> Iterator[Peer]:
    """kopf, with uvloop, as its documentation advises."""
    programs, port = install_python("kopf"), _free_port()
    with process(str(PEERS / "api_server.py")) as (_, api):
        environment = {
            **_rules(),
            "PORT": str(port),
            "TLS_CERT": str(certificate.chain),
            "TLS_KEY": str(certificate.key),
            "KUBERNETES_API": f"http://127.0.0.1:{api}",
        }
        arguments = ("run", "--standalone", "--all-namespaces", "handlers.py")
        with command(
            str(programs / "kopf"), *arguments, folder=programs.parent, environment=environment
        ) as running:
            yield _answering(Peer(port, running.pid, "/validate", "/mutate"))


@contextlib.contextmanager
def serve_fastapi(certificate: Certificate, _folder: Path) -> Iterator[Peer]:
    """FastAPI on gunicorn with uvicorn's workers."""
    with _gunicorn("fastapi", certificate, "--worker-class", "uvicorn_worker.UvicornWorker") as peer:
        yield peer


@contextlib.contextmanager
def serve_flask(certificate: Certificate, _folder: Path) -> Iterator[Peer]:
    """Flask on gunicorn with threaded workers: its default ones would close each connection, which API servers keep."""
    flags = ("--worker-class", "gthread", "--threads", "4", "--keep-alive", "75")
    with _gunicorn("flask", certificate, *flags) as peer:
        yield peer


@contextlib.contextmanager
def _gunicorn(name: str, certificate: Certificate, *flags: str) -> Iterator[Peer]:
    programs, port = install_python(name), _free_port()
    arguments = (
        *("--bind", f"127.0.0.1:{port}", "--workers", str(WORKERS)),
        *("--certfile", str(certificate.chain), "--keyfile", str(certificate.key)),
        *flags,
        "app:app",
    )
    with command(
        str(programs / "gunicorn"), *arguments, folder=programs.parent, environment=_rules()
    ) as running:
        yield _answering(Peer(port, running.pid, "/validate", "/mutate"))


@contextlib.contextmanager
def serve_pepr(certificate: Certificate, folder: Path) -> Iterator[Peer]:
    """Pepr's admission controller: the module bundled as ``pepr build`` does it, with the environment of its chart."""
    installed, port = install_node("pepr"), _free_port()
    bundled = ("pepr.ts", "--bundle", "--minify", "--keep-names", "--platform=node", "--external:pepr")
    run(["node_modules/.bin/esbuild", *bundled, "--log-level=error", "--outfile=dist/pepr.js"], installed)
    with process(str(PEERS / "api_server.py")) as (_, api):
        environment = {
            "KUBECONFIG": str(_kubeconfig(folder / "kubeconfig.json", f"http://127.0.0.1:{api}")),
            "PORT": str(port),
            "SSL_CERT_PATH": str(certificate.chain),
            "SSL_KEY_PATH": str(certificate.key),
            "PEPR_API_PATH": "bench",
            "PEPR_WATCH_MODE": "false",
            "PEPR_PRETTY_LOG": "false",
            "LOG_LEVEL": "info",
            "NODE_ENV": "production",
        }
        with command("node", "dist/pepr.js", folder=installed, environment=environment) as running:
            yield _answering(Peer(port, running.pid, "/validate/bench", "/mutate/bench"))


@contextlib.contextmanager
def serve_controller_runtime(certificate: Certificate, _folder: Path) -> Iterator[Peer]:
    """controller-runtime's webhook server, with two handlers."""
    program, port = install_go("controller-runtime", "."), _free_port()
    tls = ("--tls-cert-file", str(certificate.chain), "--tls-private-key-file", str(certificate.key))
    with command(str(program), "--port", str(port), *tls, folder=program.parent, environment={}) as running:
        yield _answering(Peer(port, running.pid, "/validate", "/mutate"))


@contextlib.contextmanager
def serve_opa(certificate: Certificate, _folder: Path) -> Iterator[Peer]:
    """OPA, with two policies, asked by the API that it has for webhooks; without a log line for each request."""
    program, port = install_go("opa", "github.com/open-policy-agent/opa"), _free_port()
    arguments = (
        *("run", "--server", "--addr", f"127.0.0.1:{port}", "--log-level", "error"),
        *("--tls-cert-file", str(certificate.chain), "--tls-private-key-file", str(certificate.key)),
        *("--skip-version-check", "validate.rego", "mutate.rego"),
    )
    with command(str(program), *arguments, folder=program.parent, environment={}) as running:
        paths = (f"/v0/data/bench/{phase}/review" for phase in ("validate", "mutate"))
        yield _answering(Peer(port, running.pid, *paths))


SERVERS: dict[str, Callable[[Certificate, Path], AbstractContextManager[Peer]]] = {
    "kopf": serve_kopf,
    "Pepr": serve_pepr,
    "FastAPI": serve_fastapi,
    "Flask": serve_flask,
    "controller-runtime": serve_controller_runtime,
    "OPA": serve_opa,
}


def _rules() -> dict[str, str]:
    return {"PYTHONPATH": str(PEERS / "rules")}


def _kubeconfig(path: Path, server: str) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }
    path.write_text(json.dumps(document))
    return path


def _free_port() -> int:
    """A port that nobody listens on: peers take one, and do not tell which one they took."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _answering(peer: Peer) -> Peer:
    """Wait until it does: its webhooks are there some time after its port.

    Raises:
        TimeoutError: it never does.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if post(peer.port, peer.validate, REVIEW.read_bytes())[0] == 200:
                return peer
        time.sleep(0.2)
    raise TimeoutError("a peer did not start")


def post(port: int, path: str, body: bytes) -> tuple[int, bytes]:
    """Post a review over TLS; gives the status code and the answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.closing(
        http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    ) as one:
        one.request("POST", path, body, {"Content-Type": "application/json"})
        answer = one.getresponse()
        return answer.status, answer.read()
