"""What only some commands, chains and objects need is imported when they need it, so that the others start sooner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ALWAYS_LATE = {
    "aiohttp",
    "cel_expr_python",
    "cryptography",
    "hypothesis",
    "jinja2",
    "jsonschema",
    "kubernetes_asyncio",
    "opentelemetry",
    "rich",
    "sqlalchemy",
    "tenacity",
}
SERVING = {
    "google.protobuf",
    "grpc",
    "http.server",
    "multiprocessing",
    "prometheus_client",
    "starlette",
    "uvicorn",
    "uvloop",
    "watchfiles",
}
CHAIN_ROOMS = {
    "pratique.admission",
    "pratique.apimachinery",
    "pratique.cluster",
    "pratique.configuration",
    "pratique.controllers",
    "pratique.hosting",
    "pratique.https",
    "pratique.manifests",
    "pratique.pods",
    "pratique.processes",
    "pratique.registry",
    "pratique.telemetry",
    "pratique_cli",
}
OFFLINE_ROOMS = CHAIN_ROOMS | {
    "pratique.lint",
    "pratique.policies",
    "pratique_frontdoor.chain",
    "pratique_frontdoor.engines",
    "pratique_frontdoor.recording",
    "pratique_frontdoor.transports",
    "pratique_frontdoor.webhooks",
}
BACKEND_ROOMS = CHAIN_ROOMS | {"pratique.rpc", "pratique_frontdoor.settings"}
FRONT_DOOR_ROOMS = OFFLINE_ROOMS | {
    "pratique.rpc",
    "pratique_frontdoor.http",
    "pratique_frontdoor.serve",
    "pratique_frontdoor.settings",
}

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {containers: [{name: web, image: "nginx:1.27"}]}
"""
WEBHOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: shop}
webhooks:
- name: shop.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: shop, namespace: shop}}
  rules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
"""


class Start(NamedTuple):
    """A process, and what it may import."""

    arguments: Sequence[str]
    rooms: set[str]
    """The packages of Pratique that it may use."""
    late: set[str]
    """Modules that it may not import, beside ``ALWAYS_LATE``."""
    variables: Mapping[str, str] = {}


COMMANDS = {
    "help": Start(["--help"], {"pratique_cli"}, SERVING | {"asyncio", "msgspec", "yaml"}),
    "completion": Start(
        [],
        {"pratique_cli"},
        SERVING | {"asyncio", "importlib.metadata", "msgspec", "yaml"},
        {"_PRATIQUE_COMPLETE": "bash_complete", "COMP_WORDS": "pratique re", "COMP_CWORD": "1"},
    ),
    "version": Start(
        ["version"], {"pratique_cli", "pratique.processes"}, SERVING | {"asyncio", "msgspec", "yaml"}
    ),
    "review": Start(
        ["review", "pod.yaml"],
        OFFLINE_ROOMS,
        SERVING
        | {
            "importlib.metadata",
            "pratique.configuration.webhook_validation",
            "pratique.lint.outage_simulation",
            "pratique.lint.without_effect",
            "pratique.registry.custom_resources.definitions",
            "pratique.registry.validation.jobs",
            "pratique.registry.validation.nodes",
            "pratique.registry.validation.workloads",
            "pratique_frontdoor.chain.webhooks",
            "pratique_frontdoor.engines.remote",
        },
    ),
    "check": Start(
        ["check", "webhook.yaml"],
        OFFLINE_ROOMS,
        SERVING
        | {"importlib.metadata", "pratique.registry.object_validation", "pratique_frontdoor.engines.remote"},
    ),
}
SERVICES = {
    "mutator": Start(
        [], BACKEND_ROOMS | {"pratique_mutator"}, {"http.server", "prometheus_client", "starlette", "yaml"}
    ),
    "validator": Start(
        [], BACKEND_ROOMS | {"pratique_validator"}, {"http.server", "prometheus_client", "starlette", "yaml"}
    ),
    "frontdoor": Start(
        ["--mutator", "127.0.0.1:1", "--validator", "127.0.0.1:2"], FRONT_DOOR_ROOMS, {"yaml"}
    ),
    "all": Start([], FRONT_DOOR_ROOMS, {"google.protobuf", "grpc", "yaml"}),
}

CODE = """
import atexit, sys
atexit.register(lambda: open("modules", "w").write("\\n".join(sys.modules)))
from pratique_cli.main import main
main()
"""


def process(start: Start, folder: Path, arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        cwd=folder,
        env=os.environ | start.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def room(module: str) -> str:
    package, _, rest = module.partition(".")
    return (
        package
        if package not in {"pratique", "pratique_frontdoor"}
        else f"{package}.{rest.partition('.')[0]}"
    )


def check_imports(start: Start, folder: Path) -> None:
    modules = (folder / "modules").read_text().split("\n")
    packages = {
        ".".join(module.split(".")[: end + 1]) for module in modules for end in range(module.count(".") + 1)
    }
    assert packages & (ALWAYS_LATE | start.late) == set()
    bare = {"pratique", "pratique_frontdoor"}
    own = {room(module) for module in packages - bare if module.startswith("pratique")}
    assert own <= start.rooms


@pytest.mark.parametrize("start", COMMANDS.values(), ids=COMMANDS)
def test_a_command_does_not_import_what_it_does_not_use(start: Start, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "webhook.yaml").write_text(WEBHOOK)
    with process(start, tmp_path, start.arguments) as running:
        printed, _ = running.communicate()
    assert running.returncode == 0
    assert printed
    check_imports(start, tmp_path)


@pytest.mark.parametrize(("name", "start"), SERVICES.items(), ids=SERVICES)
def test_a_service_does_not_import_what_its_chain_does_not_need(
    name: str, start: Start, tmp_path: Path
) -> None:
    flags = ["--port", "0", "--drain-seconds", "0", "--until-stdin-closes"]
    with process(start, tmp_path, ["serve", name, *flags, *start.arguments]) as running:
        assert running.stdout is not None
        assert " ready on " in running.stdout.readline()
        running.communicate()
    assert running.returncode == 0
    check_imports(start, tmp_path)
