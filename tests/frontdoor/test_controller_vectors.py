"""Kubernetes' own cases of single controllers, through the engine that ``pratique review`` and HTTP share.

As the flags have it: ``--admission-control NAME``, with the case's configuration in an AdmissionConfiguration, and with
roles in the cluster where a case says who may do what and roles can say it. Cases that need a stand-in for somebody
outside, or several steps in time, are run at the controller: tests/pratique/controllers.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_frontdoor.engines.engine import open_local
from support import pod_security_policies, vector_cases
from support.admissions import Admission, review_of
from support.expectations import check

HOSTED = [item.name for item in load_catalogue() if item.hosted]
BY_ROLES = {"PodSecurityPolicy"}
"""Whose stand-in says no more than roles of the cluster can say."""
CASES = [
    case
    for name in HOSTED
    for case in vector_cases.plugin(name)
    if "request" in case and (not case.get("external") or name in BY_ROLES)
]
PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}
OTHER_ERAS: dict[str, JSONObject] = {
    "DefaultStorageClass-007": {"refuseSeveralDefaults": True},
    "NamespaceLifecycle-004": {"allowUpdates": True},
    "PodTolerationRestriction-005": {"exact": True},
    "PodTolerationRestriction-007": {"exact": True},
    "Priority-010": {"release": "1.10"},
    "ServiceAccount-057": {"boundServiceAccountTokenVolume": False},
}
"""The settings of a controller for the release of a case, if that is not the current one."""


def settings_of(case: JSONObject, folder: Path) -> ChainSettings:
    configuration = case.get("config", {}) | OTHER_ERAS.get(case["id"], {})
    if case["plugin"] == "PodSecurityPolicy" and pod_security_policies.of_early_releases_alone(case):
        configuration |= pod_security_policies.EARLY
    file = folder / "admission.json"
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": case["plugin"], "configuration": configuration}] if configuration else [],
    }
    file.write_text(json.dumps(document))
    return ChainSettings(admission_control=(case["plugin"],), admission_control_config_file=file)


async def admitted(case: JSONObject, folder: Path) -> Admission:
    roles = pod_security_policies.roles_of(case["external"]["authorizer"]) if case.get("external") else []
    store = ObjectStore([*case["cluster"], *roles])
    engine = open_local(settings_of(case, folder), store)
    try:
        phases = frozenset(PHASES[phase] for phase in case["phases"])
        decision = await engine.decide(review_of(case["request"], store), phases, Deadline.after(30))
    finally:
        await engine.close()
    return Admission(decision.status, decision.object_document.data, decision.patch, decision.warnings)


@pytest.mark.parametrize("case", CASES, ids=vector_cases.source)
def test_a_controller_decides_as_in_kubernetes(case: JSONObject, tmp_path: Path) -> None:
    check(asyncio.run(admitted(case, tmp_path)), case["expected"])


def test_most_vectors_are_covered() -> None:
    all_cases = [case for name in HOSTED for case in vector_cases.plugin(name)]
    assert len(CASES) > 0.75 * len(all_cases)
