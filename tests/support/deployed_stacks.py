"""The stack of examples/07-in-a-cluster as processes: the manifests' own flags and certificates, without containers."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from support import cluster_manifests
from support.bound_processes import bound_process
from support.connection_forwarders import Forwarder
from support.forked_commands import PROGRAM, run
from support.free_ports import free_port
from support.waiting import within

CLIENT = "kube-apiserver"
_MOUNT = "/etc/pratique/tls"
_PATIENCE_SECONDS = 120
_CALLED = "pratique_frontdoor_replica_agrees{"
_SHORT = {"drain-seconds": "1"}
"""What takes less time than in a cluster, where kube-proxy needs some to learn of a Pod that goes."""


def make_certificates(folder: Path, *flags: str) -> None:
    """Make or renew certificates as docs/kubernetes.md says."""
    command = [
        PROGRAM,
        "certs",
        folder,
        "--namespace",
        cluster_manifests.NAMESPACE,
        "--client",
        CLIENT,
        *flags,
    ]
    run(command).check_returncode()


@dataclasses.dataclass(slots=True)
class Replica:
    """One process of a service, which starts again at the same port."""

    port: int
    command: list[str]
    environment: dict[str, str]
    log: Path
    _running: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it says that it is ready."""
        running = bound_process(self.command, self.log, self.environment)
        process = self._process = self._running.enter_context(running)
        within(_PATIENCE_SECONDS, lambda: self._is_ready() or process.poll() is not None)
        assert self._is_ready(), self.log.read_text()[-2000:]

    def _is_ready(self) -> bool:
        return "ready on" in self.log.read_text()

    def stop(self) -> None:
        """End it as Kubernetes does, and wait until it has answered what it had taken."""
        self.signal(signal.SIGTERM)
        assert self._process is not None
        self._process.wait(_PATIENCE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._running.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGSTOP makes it hang, SIGCONT goes on."""
        assert self._process is not None
        self._process.send_signal(number)


@dataclasses.dataclass(slots=True)
class DeployedStack:
    """Two replicas of each service, and what stands for kube-proxy before the front doors."""

    certificates: Path
    replicas: dict[str, list[Replica]]
    proxy: Forwarder

    @property
    def ports(self) -> list[int]:
        """Where the front doors listen."""
        return [replica.port for replica in self.replicas["frontdoor"]]

    def is_ready(self, port: int) -> bool:
        """Ask a front door whether it has a mutator and a validator to call, as a kubelet asks."""
        return self._get(port, "/readyz", self._tls()) is not None

    def calls_all(self, port: int, service: str) -> bool:
        """Tell whether a front door has a connection to each replica of a service."""
        tls, folder = self._tls(), self.certificates / CLIENT
        tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        lines = (self._get(port, "/metrics", tls) or "").splitlines()
        called = [line for line in lines if line.startswith(_CALLED) and f'service="{service}"' in line]
        return len(called) == len(self.replicas[service]) and all(line.endswith(" 1.0") for line in called)

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificates / "ca.crt")

    @staticmethod
    def _get(port: int, path: str, tls: ssl.SSLContext) -> str | None:
        """What a front door shows at a path; None if it shows an error or is not there."""
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=tls)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.read().decode() if answer.status == 200 else None
        return None

    def wait_until_ready(self) -> None:
        """Wait until all front doors are."""
        for port in self.ports:
            assert within(_PATIENCE_SECONDS, lambda port=port: self.is_ready(port)), port  # type: ignore[misc]  # mypy cannot infer a lambda with a default

    def restart(self, service: str, index: int) -> None:
        """Replace one replica as a rolling update does: no new connections, then the signal, then a new one."""
        replica = self.replicas[service][index]
        if service == "frontdoor":
            self.proxy.leave_out(replica.port)
        replica.stop()
        replica.start()
        self.wait_until_ready()
        if service == "frontdoor":
            self.proxy.take_in(replica.port)
            return
        # The next replica may only go when this one is called again, or there is none to call.
        for port in self.ports:
            assert within(_PATIENCE_SECONDS, lambda port=port: self.calls_all(port, service)), port  # type: ignore[misc]  # mypy cannot infer a lambda with a default


@contextlib.contextmanager
def deployed(
    folder: Path, certificates: Path, address: tuple[str, int], ports: Sequence[int], *flags: str
) -> Iterator[DeployedStack]:
    """Run the stack until the block ends.

    Args:
        folder: where logs go.
        certificates: what ``make_certificates`` has made.
        address: where connections to the Service arrive.
        ports: those of the front doors.
        flags: chain flags of all services, beside those of the manifests.
    """
    listening = {
        "mutator": [free_port(), free_port()],
        "validator": [free_port(), free_port()],
        "frontdoor": ports,
    }
    lists = {service: ",".join(f"127.0.0.1:{port}" for port in taken) for service, taken in listening.items()}
    targets = {"mutator": f"ipv4:{lists['mutator']}", "validator": lists["validator"]}
    with contextlib.ExitStack() as running:
        replicas: dict[str, list[Replica]] = {}
        for service, taken in listening.items():
            replicas[service] = []
            for port in taken:
                changed = targets | _SHORT | {"host": "127.0.0.1", "port": str(port)}
                command = [*_command(service, certificates / service, changed), *flags]
                replica = Replica(port, command, _environment(), folder / f"{service}-{port}.log")
                running.callback(replica.kill)
                replica.start()
                replicas[service].append(replica)
        proxy = running.enter_context(Forwarder(address, ports))
        stack = DeployedStack(certificates, replicas, proxy)
        stack.wait_until_ready()
        yield stack


def _command(service: str, certificates: Path, changed: Mapping[str, str]) -> list[str]:
    """What the manifest runs, with other values of some flags: addresses for names, which no DNS has here."""
    arguments = cluster_manifests.pod_specs()[service]["containers"][0]["args"]
    command = [str(PROGRAM)]
    for argument in arguments:
        name, given, value = argument.removeprefix("--").partition("=")
        value = changed.get(name, value.replace(_MOUNT, str(certificates)))
        command.append(f"--{name}={value}" if given else argument)
    if service == "frontdoor":
        names = (f"--{name}-server-name=pratique-{name}" for name in ("mutator", "validator"))
        command += [f"--drain-seconds={changed['drain-seconds']}", *names]
    return command


def _environment() -> dict[str, str]:
    """The chain flags of the manifests, and no others; policies of ``--config`` are in their chain, too."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    chain: dict[str, str] = cluster_manifests.of_kind("ConfigMap")["pratique-chain"]["data"]
    controllers = f"{chain['PRATIQUE_ADMISSION_CONTROL']},ValidatingAdmissionPolicy"
    return kept | chain | {"PRATIQUE_ADMISSION_CONTROL": controllers}
