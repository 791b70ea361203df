"""The front door with the real engine behind it, controllers and all, in one process."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pratique.cluster.files import load_cluster
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.engines.engine import open_local
from support.front_doors.running import Door, open_door

REVIEWS = sorted((Path(__file__).parents[2] / "data" / "reviews").glob("*.json"))


@pytest.fixture(scope="module")
def chain() -> Iterator[Door]:
    settings = ChainSettings(enable_admission_plugins=("AlwaysPullImages",))
    with open_door(open_local(settings, load_cluster(None))) as door:
        yield door


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/admit"])
@pytest.mark.parametrize("file", REVIEWS, ids=lambda file: file.stem)
def test_real_reviews_are_answered(chain: Door, path: str, file: Path) -> None:
    answer = chain.post(path, file.read_bytes())
    assert answer.code == 200
    review = json.loads(file.read_bytes())
    assert answer.json["apiVersion"] == review["apiVersion"]
    assert answer.json["response"]["uid"] == review["request"]["uid"]


def test_the_patch_holds_what_the_mutating_phase_changed(chain: Door) -> None:
    response = chain.post("/admit").json["response"]
    patch = json.loads(base64.b64decode(response["patch"]))
    assert {"op": "add", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"} in patch
    assert response["allowed"] is True


def test_without_the_mutating_phase_the_same_review_is_denied(chain: Door) -> None:
    response = chain.post("/validate").json["response"]
    assert response["allowed"] is False
    causes = [cause["message"] for cause in response["status"]["details"]["causes"]]
    assert any("imagePullPolicy" in cause for cause in causes)


def test_an_explanation_names_every_controller_that_was_called(chain: Door) -> None:
    steps = chain.post("/explain").json["steps"]
    asked = [(step["controller"], step["phase"], step["outcome"]) for step in steps]
    assert ("AlwaysPullImages", "mutate", "mutated") in asked
    assert ("AlwaysPullImages", "validate", "allowed") in asked


def test_metrics_name_the_controllers(chain: Door) -> None:
    chain.post("/admit")
    metrics = chain.get("/metrics").text
    name = "apiserver_admission_controller_admission_duration_seconds_count"
    assert f'{name}{{name="AlwaysPullImages",operation="CREATE",rejected="false",type="admit"}}' in metrics
