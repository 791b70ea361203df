"""Controllers that can skip a request before any call."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local
from support.chains import decided as judged
from support.chains import pod_review
from support.services.controllers import denying, hosted

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
LIMITED = {"limitedResources": [{"resource": "pods", "matchContains": ["pods"]}]}


def quota(namespace: str, hard: str = "5") -> JSONObject:
    limits = {"hard": {"pods": hard}, "used": {"pods": "0"}}
    metadata = {"name": "pods", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": {"pods": hard}},
        "status": limits,
    }


def decided(folder: Path, *objects: JSONObject, configuration: JSONObject | None = None) -> Decision:
    """Have a Pod of namespace ``shop`` reviewed by ResourceQuota alone."""
    file = folder / "admission.json"
    plugin = {"name": "ResourceQuota", "configuration": configuration or {}}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(json.dumps({**head, "plugins": [plugin]}))
    chain = ChainSettings(admission_control=("ResourceQuota",), admission_control_config_file=file)
    store = ObjectStore([NAMESPACE, *objects])

    async def run() -> Decision:
        engine = open_local(chain, store)
        try:
            return await engine.decide(pod_review(cluster=store), BOTH, Deadline.after(30), explain=True)
        finally:
            await engine.close()

    return asyncio.run(run())


@pytest.mark.parametrize("objects", [(), (quota("elsewhere"),)])
def test_no_call_is_made_for_a_namespace_without_quota(
    tmp_path: Path, objects: tuple[JSONObject, ...]
) -> None:
    (step,) = decided(tmp_path, *objects).steps
    assert (step.outcome, step.endpoint) == ("skipped", "")
    assert step.reason == "its namespace has no ResourceQuota"


def test_a_namespace_with_a_quota_is_charged(tmp_path: Path) -> None:
    (step,) = decided(tmp_path, quota("shop")).steps
    assert (step.outcome, step.endpoint) == ("allowed", "in-process")
    assert not decided(tmp_path, quota("shop", hard="0")).allowed


def test_limited_resources_are_checked_in_every_namespace(tmp_path: Path) -> None:
    decision = decided(tmp_path, configuration=LIMITED)
    assert decision.status is not None
    assert decision.status.message.endswith("insufficient quota to consume: count/pods,pods")


def test_third_party_controllers_run_no_code_in_the_front_door() -> None:
    asked: list[str] = []

    def skip_reason(_configuration: JSON, review: Review) -> str:
        asked.append(review.uid)
        return "nothing to do with it"

    controller = hosted("Somebodys", denying).controller
    somebodys = msgspec.structs.replace(controller, skip_reason=skip_reason)
    ours = msgspec.structs.replace(somebodys, trusted=True)
    assert not asyncio.run(judged(pod_review(), [somebodys])).allowed
    assert asked == []
    assert asyncio.run(judged(pod_review(), [ours])).allowed
