"""The suite as it is deployed: a front door, a mutator and validators, each a process of its own; or all in one."""

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
    with deployed_services(chain, validators) as services, services.front_door(certificate) as ours:
        yield ours


@contextlib.contextmanager
def deployed_in_one(
    chain: Sequence[str] = CHAIN, *, certificate: Certificate | None = None
) -> Iterator[Deployment]:
    """Run the front door with the engine in its own process until the block ends."""
    with _serving("all", *chain, *(certificate.flags if certificate else ())) as (pid, port):
        yield Deployment("https" if certificate else "http", port, {"all": pid})


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """A mutator and validators that run: processes and ports."""

    chain: tuple[str, ...]
    mutator: tuple[int, int]
    validators: tuple[tuple[int, int], ...]

    @contextlib.contextmanager
    def front_door(
        self,
        certificate: Certificate | None = None,
        *,
        validators: int | None = None,
        flags: Sequence[str] = (),
    ) -> Iterator[Deployment]:
        """Run a front door of theirs until the block ends; of the first of the validators alone, where that is said."""
        used = self.validators[:validators]
        targets = (
            *("--mutator", f"127.0.0.1:{self.mutator[1]}"),
            *("--validator", ",".join(f"127.0.0.1:{port}" for _, port in used)),
        )
        tls = certificate.flags if certificate else ()
        with _serving("frontdoor", *self.chain, *targets, *tls, *flags) as (frontdoor, port):
            pids = {"frontdoor": frontdoor, "mutator": self.mutator[0]}
            pids |= {f"validator {number}": pid for number, (pid, _) in enumerate(used, 1)}
            yield Deployment("https" if certificate else "http", port, pids)


@contextlib.contextmanager
def deployed_services(chain: Sequence[str], validators: int) -> Iterator[Services]:
    """Run a mutator and validators until the block ends, for as many front doors as want them."""
    with contextlib.ExitStack() as running:
        # A key that the services share, as `pratique up` makes one.
        key = Path(running.enter_context(tempfile.TemporaryDirectory()), "checks.key")
        key.write_text(secrets.token_hex(32))
        shared = (*chain, "--checks-key-file", str(key))
        mutator = running.enter_context(_serving("mutator", *shared))
        validating = [running.enter_context(_serving("validator", *shared)) for _ in range(validators)]
        yield Services(shared, mutator, tuple(validating))


@contextlib.contextmanager
def _serving(service: str, *flags: str) -> Iterator[tuple[int, int]]:
    """One service as a process; gives its id and its port."""
    with process("-m", "pratique_cli", "serve", service, "--port", "0", *flags) as (started, port):
        yield started.pid, port


def configured(folder: Path, name: str, documents: Sequence[JSONObject], plugins: str) -> tuple[str, ...]:
    """Chain flags for documents, which are written to a file of that name, and the plugins that read them."""
    path = folder / f"{name}.yaml"
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return ("--admission-control", plugins, "--config", str(path))
