"""The paths of the front door beside their floors, by connections, sizes, policies, webhooks and validators.

What grows by growing them is drawn, too: :mod:`curves`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from deployments import CHAIN, Certificate, Deployment, configured, deployed, deployed_in_one
from measures import HERE, Effort, Section, Shape, Target, interleaved
from payloads import write_payloads
from sleepers import webhooks

from policies import CHEAP, policy
from pratique.apimachinery.json_values import JSONObject
from processes import process

CONNECTIONS = (1, 4, 16, 64, 256)
CONNECTIONS_BY_TLS = (1, 16, 64)
POLICIES = (1, 10, 100, 1000)
VALIDATORS = (1, 2, 4, 8)
PATHS = ("/mutate", "/validate", "/admit")
HTTP_ECHO, GRPC_ECHO = "Starlette echo", "grpc.aio echo"
TCP_FRAMES, UNIX_FRAMES = "frames over TCP", "frames over a Unix socket"


def connections(*numbers: int) -> dict[str, Shape]:
    """Shapes of that many connections, by what they are called in tables."""
    return {counted(number, "connection"): Shape(number) for number in numbers}


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


@contextlib.contextmanager
def echoes(certificate: Certificate | None = None) -> Iterator[dict[str, Target]]:
    """Run the floors: HTTP, over TLS where there is a certificate; gRPC and frames, which are inside and never are."""
    files = (str(certificate.chain), str(certificate.key)) if certificate else ()
    kind = "https" if certificate else "http"
    with contextlib.ExitStack() as running:
        socket = str(Path(running.enter_context(tempfile.TemporaryDirectory())) / "frames")

        def echo(floor: str, kind: str, *given: str, path: str = "") -> Target:
            started, port = running.enter_context(process(str(HERE / "floors.py"), floor, *given))
            return Target(kind, port, path, (started.pid,))

        yield {
            HTTP_ECHO: echo("http", kind, *files, path="/echo"),
            GRPC_ECHO: echo("grpc", "grpc"),
            TCP_FRAMES: echo("frames", "frames"),
            UNIX_FRAMES: echo("unix", "unix", socket, path=socket),
        }


def measure_paths(effort: Effort, certificate: Certificate | None = None) -> Section:
    """All paths and their floors, over 1 to 256 connections; over TLS 1 to 64, because each costs a handshake."""
    numbers = CONNECTIONS_BY_TLS if certificate else CONNECTIONS
    with echoes(certificate) as floors, deployed(certificate=certificate) as ours:
        return interleaved(floors | _paths(ours), connections(*numbers), effort)


def _paths(ours: Deployment) -> dict[str, Target]:
    return {path: ours.target(path) for path in PATHS}


def measure_payloads(effort: Effort, folder: Path) -> Section:
    """All paths and their floors with reviews of 2 KB to 5 MB, over one connection."""
    shapes = {name: Shape(body=body) for name, body in write_payloads(folder).items()}
    with echoes() as floors, deployed() as ours:
        return interleaved(floors | _paths(ours), shapes, effort)


def measure_policies(effort: Effort, folder: Path) -> Section:
    """``/validate`` with 1 to 1,000 policies in CEL, all of which match."""
    sets = {
        counted(number, "policy", "policies"): configured(
            folder, f"policies-{number}", _policies(number), "ValidatingAdmissionPolicy"
        )
        for number in POLICIES
    }
    return _side_by_side({name: {"chain": flags} for name, flags in sets.items()}, effort)


def _policies(number: int) -> list[JSONObject]:
    """As many policies, each of which looks at each container, with their bindings."""
    return [part for place in range(number) for part in policy(f"p{place}", CHEAP, "pods")]


def measure_webhooks(effort: Effort, folder: Path) -> Section:
    """``/validate`` with 1, 4 and 16 webhooks over gRPC, all of which match and answer at once."""
    with process(str(HERE / "sleepers.py")) as (_, port):
        sets = {
            counted(number, "webhook"): configured(
                folder, f"webhooks-{number}", [webhooks([0] * number, port)], "ValidatingAdmissionWebhook"
            )
            for number in (1, 4, 16)
        }
        return _side_by_side({name: {"chain": flags} for name, flags in sets.items()}, effort)


def measure_validators(effort: Effort) -> Section:
    """``/validate`` with 1 to 8 validators, which share the same cores."""
    sets = {counted(number, "validator"): {"chain": CHAIN, "validators": number} for number in VALIDATORS}
    return _side_by_side(sets, effort)


def measure_decision_logs(effort: Effort, folder: Path) -> Section:
    """``/validate`` in one process: without a decision log, with one, and with one that is written before answers.

    How long a flush takes is up to the disk of ``folder``.
    """
    flags = {
        "no decision log": (),
        "a decision log": ("--decision-log", str(folder / "decisions.jsonl")),
        "a required one": ("--decision-log", str(folder / "required.jsonl"), "--decision-log-required"),
    }
    with contextlib.ExitStack() as running:
        targets = {
            name: running.enter_context(deployed_in_one((*CHAIN, *given))).target("/validate")
            for name, given in flags.items()
        }
        return interleaved(targets, connections(1, 16, 64), effort)


def _side_by_side(sets: Mapping[str, Mapping[str, object]], effort: Effort) -> Section:
    """``/validate`` of a deployment for each set of settings, in turn."""
    with contextlib.ExitStack() as running:
        targets = {
            name: running.enter_context(deployed(**settings)).target("/validate")  # type: ignore[arg-type]  # as above
            for name, settings in sets.items()
        }
        return interleaved(targets, connections(1, 16), effort)
