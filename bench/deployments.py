"""The suite as it is deployed: a front door, a mutator and validators, each a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from measures import Target

from pratique.apimachinery.json_values import JSONObject
from processes import process

CHAIN = (
    "--admission-control",
    "NamespaceLifecycle,DefaultTolerationSeconds,LimitPodHardAntiAffinityTopology",
)
"""Two mutating controllers, one of which changes the Pod, and a validating one, so that each path makes its hops."""


@dataclasses.dataclass(frozen=True, slots=True)
class Certificate:
    """Files in PEM that all servers here show, ours and others'."""

    chain: Path
    key: Path

    @property
    def flags(self) -> tuple[str, ...]:
        """As the front door takes them."""
        return ("--tls-cert-file", str(self.chain), "--tls-private-key-file", str(self.key))


@dataclasses.dataclass(frozen=True, slots=True)
class Deployment:
    """A suite that runs."""

    kind: str
    port: int
    pids: dict[str, int]
    """By service."""

    def target(self, path: str) -> Target:
        """One of its paths."""
        return Target(self.kind, self.port, path, tuple(self.pids.values()))


@contextlib.contextmanager
def deployed(
    chain: Sequence[str] = CHAIN, *, validators: int = 1, certificate: Certificate | None = None
) -> Iterator[Deployment]:
    """Run the suite until the block ends, with the chain flags of its services."""
    with contextlib.ExitStack() as running:
        # A key that the services share, as `pratique up` makes one.
        key = Path(running.enter_context(tempfile.TemporaryDirectory()), "checks.key")
        key.write_text(secrets.token_hex(32))
        shared = ("--port", "0", "--checks-key-file", str(key), *chain)

        def serve(service: str, *flags: str) -> tuple[int, int]:
            started, port = running.enter_context(
                process("-m", "pratique_cli", "serve", service, *shared, *flags)
            )
            return started.pid, port

        mutator, mutator_port = serve("mutator")
        validating = [serve("validator") for _ in range(validators)]
        ports = [f"127.0.0.1:{port}" for _, port in validating]
        tls = certificate.flags if certificate else ()
        frontdoor, port = serve(
            "frontdoor", "--mutator", f"127.0.0.1:{mutator_port}", "--validator", ",".join(ports), *tls
        )
        pids = {"frontdoor": frontdoor, "mutator": mutator}
        pids |= {f"validator {number}": pid for number, (pid, _) in enumerate(validating, 1)}
        yield Deployment("https" if certificate else "http", port, pids)


def configured(folder: Path, name: str, documents: Sequence[JSONObject], plugins: str) -> tuple[str, ...]:
    """Chain flags for documents, which are written to a file of that name, and the plugins that read them."""
    path = folder / f"{name}.yaml"
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return ("--admission-control", plugins, "--config", str(path))
