"""Checking mutators in this process, on the configurations and objects of a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique_cli.mutator_checks.cases import MutatorCase
from pratique_cli.mutator_checks.defects import CheckReport
from pratique_cli.mutator_checks.mutator_runs import MutatorRunner
from pratique_cli.mutator_checks.runs import MutatorCheckRun
from pratique_frontdoor.engines.mutator_sets import MutatorSet

POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
WEBHOOKS = ("MutatingAdmissionWebhook",)

POD: JSONObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}


def prove(
    folder: Path | None,
    *configurations: JSONObject,
    controllers: Sequence[str] = POLICIES,
    given: Sequence[JSONObject] = (POD,),
    cluster: Sequence[JSONObject] = (),
    examples: int = 0,
    dry_run: bool = True,
    later_seconds: float = 0,
    **shape: Any,
) -> CheckReport:
    """Check the mutators of ``configurations``, which are written into ``folder`` first, and of ``controllers``."""
    config: tuple[Path, ...] = ()
    if folder is not None:
        (folder / "configurations.json").write_text(
            json.dumps({"items": list(configurations), "kind": "List", "apiVersion": "v1"})
        )
        config = (folder / "configurations.json",)
    settings = ChainSettings(config=config, admission_control=tuple(controllers))
    store = ObjectStore(cluster, assume_namespaces=True)

    async def open_set() -> MutatorSet:
        return MutatorSet(settings, store)

    with asyncio.Runner() as loop:
        mutators = loop.run(open_set())
        try:
            runner = MutatorRunner(mutators, timeout_seconds=30)
            run = MutatorCheckRun(
                runner=runner,
                store=store,
                loop=loop,
                examples=examples,
                dry_run=dry_run,
                later_seconds=later_seconds,
                **shape,
            )
            return run.run([MutatorCase(each, store, dry_run) for each in given])
        finally:
            loop.run(mutators.close())


def found(report: CheckReport) -> list[tuple[str, ...]]:
    """The findings: each defect with the names of the mutators."""
    return [
        (finding.violation.defect.value, *(one.name for one in finding.violation.mutators))
        for finding in report.findings
    ]
