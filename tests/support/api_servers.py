"""Real API servers for tests: kube-apiserver over an etcd of its own, on free ports, in a folder that goes with it.

No controller manager and no kubelet run: nothing makes ServiceAccounts or starts Pods, so what a test creates stays as
admission left it. ``create_namespace`` makes what Pods need.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.api_clients import Client, Reply
from support.bound_processes import bound_process
from support.free_ports import free_port
from support.kubernetes_programs import program, why_not

USERS = {
    "admin": ("system:masters",),
    "developer": (),
    "system:node:node-1": ("system:nodes",),
    "system:node:node-2": ("system:nodes",),
    "system:serviceaccount:default:default": ("system:serviceaccounts", "system:serviceaccounts:default"),
}
"""Who can call, with their groups; the token is ``token-of-`` and the name. ``developer`` may do nothing by itself."""
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}],
}
_PATIENCE_SECONDS = 120
_GARBAGE_PERCENT = "400"
"""What may be garbage: an API server spends a quarter of its start on collecting what it reads then."""


@dataclasses.dataclass(frozen=True, slots=True)
class ApiServer:
    """A running kube-apiserver."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int
    etcd: str
    """The URL of its etcd, which another API server can share."""

    @property
    def authority(self) -> Path:
        """The certificate that callers trust."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def audit_log(self) -> Path:
        """The file of audit events, a line of JSON for each."""
        return self.folder / "audit.log"

    def client(self, user: str = "admin", **headers: str) -> Client:
        """A connection of a user, for one thread; ``admin`` can impersonate others by ``headers``."""
        return Client(self.port, self.authority, f"token-of-{user}", headers)

    def ask(self, method: str, path: str, body: Any = None, *, user: str = "admin") -> Reply:
        """Send one request over a connection of its own."""
        with contextlib.closing(self.client(user)) as client:
            return client.ask(method, path, body)

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a namespace and the ServiceAccount that its Pods run as."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": dict(labels or {})},
        }
        with contextlib.closing(self.client()) as client:
            client.must("POST", "/api/v1/namespaces", namespace)
            client.must("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)

    def kubectl(
        self, *words: str, user: str = "admin", stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as a user; its exit code, standard output and standard error."""
        binary = program("kubectl")
        if binary is None:
            pytest.skip(why_not("kubectl"))
        command = [
            str(binary),
            f"--server=https://127.0.0.1:{self.port}",
            f"--certificate-authority={self.authority}",
            f"--token=token-of-{user}",
            f"--cache-dir={self.folder / 'kubectl'}",
            *words,
        ]
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        environment |= {"HOME": str(self.folder), "KUBERC": "off", "GOGC": "off"}
        return subprocess.run(
            command, env=environment, input=stdin or "", text=True, capture_output=True, check=False
        )

    def counted(self, metric: str, **labels: str) -> float:
        """The sum of a metric over all series that have the labels."""
        text = self.ask("GET", "/metrics").body
        series = re.findall(rf"^{metric}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(value) for given, value in series if all(label in given for label in wanted))

    def audited(self) -> int:
        """How many bytes of events there are so far."""
        return self.audit_log.stat().st_size if self.audit_log.exists() else 0

    def audit_events(self, after: int = 0) -> list[dict[str, Any]]:
        """All events after so many bytes, in the order in which requests ended."""
        content = self.audit_log.read_bytes()[after:] if self.audit_log.exists() else b""
        return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


@contextlib.contextmanager
def running(
    *,
    enable: Sequence[str] = (),
    disable: Sequence[str] = (),
    admission: Mapping[str, Any] | None = None,
    flags: Mapping[str, str] | None = None,
    etcd: str | None = None,
) -> Iterator[ApiServer]:
    """Run an API server until the block ends; skips the test where its programs are not installed.

    Args:
        enable: admission plugins beside those that are on by default.
        disable: admission plugins that are off.
        admission: the AdmissionConfiguration.
        flags: further flags by their names without dashes, which replace those that it would have.
        etcd: the URL of an etcd that another API server has, whose objects this one then has, too.
    """
    if missing := why_not("kube-apiserver"):
        pytest.skip(missing)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pratique-apiserver-")))
        url = etcd or stack.enter_context(running_etcd(folder))
        port = free_port()
        chosen = _flags(folder, port, url)
        chosen |= {"enable-admission-plugins": ",".join(enable)} if enable else {}
        chosen |= {"disable-admission-plugins": ",".join(disable)} if disable else {}
        if admission:
            _write(folder / "admission.yaml", admission)
            chosen["admission-control-config-file"] = str(folder / "admission.yaml")
        log = folder / "kube-apiserver.log"
        process = stack.enter_context(_process("kube-apiserver", chosen | dict(flags or {}), log))
        server = ApiServer(process, folder, port, url)
        _wait_until_ready(server, log)
        yield server


@contextlib.contextmanager
def restarted(server: ApiServer) -> Iterator[None]:
    """Kill an API server and start it again, at the same port and over the same etcd, until the block ends."""
    server.process.kill()
    server.process.wait()
    log = server.folder / "kube-apiserver-again.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(server.process.args, stdout=output, stderr=output) as again,
    ):
        try:
            _wait_until_ready(dataclasses.replace(server, process=again), log)
            yield
        finally:
            again.kill()


def compact(server: ApiServer) -> None:
    """Make etcd forget all versions of objects but the current ones."""

    def ask(path: str, body: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(server.etcd + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:
            return json.load(answer)

    status = ask("/v3/maintenance/status", {})
    ask("/v3/kv/compaction", {"revision": status["header"]["revision"], "physical": True})


@contextlib.contextmanager
def running_etcd(folder: Path) -> Iterator[str]:
    """Run an etcd with its files in a folder until the block ends, and give its URL; skips the test without etcd."""
    if missing := why_not("etcd"):
        pytest.skip(missing)
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    flags = {
        "data-dir": str(folder / "etcd"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        # the machine does not lose power between two tests
        "unsafe-no-fsync": "true",
    }
    with _process("etcd", flags, folder / "etcd.log"):
        yield client


def _process(
    name: str, flags: Mapping[str, str], log: Path
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    command = [str(program(name)), *(f"--{flag}={value}" for flag, value in flags.items())]
    return bound_process(command, log, os.environ | {"GOGC": _GARBAGE_PERCENT})


def _flags(folder: Path, port: int, etcd: str) -> dict[str, str]:
    key = folder / "service-accounts.key"
    key.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    tokens = (
        f'token-of-{user},{user},uid-of-{user},"{",".join(groups)}"\n' for user, groups in USERS.items()
    )
    (folder / "tokens.csv").write_text("".join(tokens))
    _write(folder / "audit-policy.yaml", AUDIT_POLICY)
    return {
        "etcd-servers": etcd,
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",
        "cert-dir": str(folder / "certificates"),
        "token-auth-file": str(folder / "tokens.csv"),
        "authorization-mode": "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": str(key),
        "service-account-signing-key-file": str(key),
        "service-cluster-ip-range": "10.0.0.0/24",
        "allow-privileged": "true",
        "audit-policy-file": str(folder / "audit-policy.yaml"),
        "audit-log-path": str(folder / "audit.log"),
        "audit-log-mode": "blocking",
    }


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content))


def _wait_until_ready(server: ApiServer, log: Path) -> None:
    """Until it is ready and has made the namespaces that every cluster has."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        ended = server.process.poll()
        assert ended is None, f"kube-apiserver ended with {ended}: {log.read_text()[-2000:]}"
        with contextlib.suppress(OSError):
            paths = ("/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system")
            if all(server.ask("GET", path).code == 200 for path in paths):
                return
        time.sleep(0.1)
    raise TimeoutError(f"kube-apiserver did not become ready: {log.read_text()[-2000:]}")


def write_kubeconfig(server: ApiServer, folder: Path, user: str = "admin", port: int | None = None) -> Path:
    """Write a kubeconfig whose context ``test`` is a user of the API server, reached at another port if given."""
    cluster = {
        "server": f"https://127.0.0.1:{port or server.port}",
        "certificate-authority": str(server.authority),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "none",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": f"token-of-{user}"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
    }
    path = folder / f"kubeconfig-{user}"
    path.write_text(json.dumps(document))
    return path
