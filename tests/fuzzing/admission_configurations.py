"""Bytes to an AdmissionConfiguration, and to the controllers that it configures."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing.seed_files import lines
from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.engines.engine import ChainSources


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """Name the file."""
    file = folder / "admission.yaml"
    settings = ChainSettings(admission_control_config_file=file)

    async def configure() -> bool:
        try:
            sources = ChainSources.read(settings)
            told = [one for one in sources.catalogue if one.name in sources.plugin_configurations]
            hosted = sources.configure([*sources.selected, *told])
        except ConfigurationError:
            return False
        for one in hosted:
            await one.handlers.close()
        return True

    with asyncio.Runner() as loop:

        def attempt(data: bytes) -> bool:
            file.write_bytes(data)
            return loop.run(configure())

        yield attempt


def seeds() -> Iterator[bytes]:
    """What the vectors tell their controllers, and a legacy file."""
    seen = set()
    for case in lines("vectors/controllers.jsonl"):
        if case["config"] and case["plugin"] not in seen:
            seen.add(case["plugin"])
            yield _file([{"name": case["plugin"], "configuration": case["config"]}])
    limits = [{"type": "Namespace", "qps": 50, "burst": 100, "cacheSize": 200}]
    exemptions = {"usernames": ["a"], "namespaces": ["b"], "runtimeClasses": ["c"]}
    group = "admission.k8s.io/v1alpha1"
    for name, configuration in (
        (
            "EventRateLimit",
            {"apiVersion": f"eventratelimit.{group}", "kind": "Configuration", "limits": limits},
        ),
        ("ResourceQuota", {"limitedResources": [{"resource": "pods", "matchContains": ["pods"]}]}),
        (
            "PodSecurity",
            {
                "apiVersion": "pod-security.admission.config.k8s.io/v1",
                "kind": "PodSecurityConfiguration",
                "defaults": {"enforce": "baseline", "enforce-version": "v1.30"},
                "exemptions": exemptions,
            },
        ),
    ):
        yield _file([{"name": name, "configuration": configuration}])
    yield _file([{"name": "PodNodeSelector", "path": "elsewhere.yaml"}])
    yield b"podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: disk=ssd}\n"


def _file(plugins: list[object]) -> bytes:
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    return json.dumps({**head, "plugins": plugins}).encode()
