"""What was valid once is not validated again, and what depends on something else is."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.validation import valid_values
from pratique.registry.validation.valid_values import ValidValues
from support.object_refusals import causes

SLEEPS = {"lifecycle": {"preStop": {"sleep": {"seconds": 20}}}}
UNMASKED = {"securityContext": {"procMount": "Unmasked"}}
RESTARTED = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
CLAIMING = {"resources": {"claims": [{"name": "gpu"}]}}
GPU = [{"name": "gpu", "resourceClaimName": "gpu"}]


def pod(container: JSONObject, spec: JSONObject) -> JSONObject:
    named = {"name": "c", "image": "i", **container}
    metadata = {"name": "a", "namespace": "b"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [named], **spec},
    }


@pytest.mark.parametrize(
    ("container", "allowing", "refusing", "field"),
    [
        (SLEEPS, {}, {"terminationGracePeriodSeconds": 10}, "lifecycle.preStop.sleep"),
        (UNMASKED, {"hostUsers": False}, {}, "securityContext.procMount"),
        (RESTARTED, {}, {"restartPolicy": "Never"}, "resizePolicy"),
        (CLAIMING, {"resourceClaims": GPU}, {}, "resources.claims[0]"),
    ],
)
def test_a_container_that_one_pod_may_have_is_refused_in_another(
    container: JSONObject, allowing: JSONObject, refusing: JSONObject, field: str
) -> None:
    assert causes(pod(container, allowing)) == []
    assert causes(pod(container, allowing)) == []

    (cause,) = causes(pod(container, refusing))

    assert cause.startswith(f"spec.containers[0].{field}: ")
    assert causes(pod(container, refusing)) == [cause]


@pytest.mark.parametrize("name", ["", "C", "c"])
def test_containers_alike_have_errors_of_their_own(name: str) -> None:
    containers = [{"name": other, "image": "i", **SLEEPS} for other in ("c", name)]
    (cause,) = causes(pod({}, {"containers": containers}))
    assert cause.startswith("spec.containers[1].name: ")


def test_a_token_may_lead_out_of_its_volume_in_a_stored_pod_alone() -> None:
    source: dict[str, Any] = {"serviceAccountToken": {"path": "../token"}}
    volumes = [{"name": "v", "projected": {"sources": [source]}}]
    written = pod({}, {"serviceAccountName": "default", "volumes": volumes})
    assert causes(written, written) == []
    assert causes(written) != []


DIFFERENT: tuple[JSON, ...] = (
    None,
    False,
    True,
    0,
    1,
    1.5,
    "",
    "1",
    "true",
    [],
    [1],
    {},
    {"a": 1},
    {"a": "1"},
)


def test_values_that_json_tells_apart_have_different_keys() -> None:
    values = ValidValues()
    assert len({values.key(value) for value in DIFFERENT}) == len(DIFFERENT)
    assert values.key(1, 2) != values.key([1, 2]) != values.key(1, [2])


def test_only_values_that_were_valid_are_remembered_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valid_values, "_MOST", 3)
    values, keys = ValidValues(), [str(number).encode() for number in range(4)]
    assert keys[0] not in values
    for key in keys[:3]:
        values.add(key)
    assert all(key in values for key in keys[:3])
    values.add(keys[3])
    assert keys[3] in values
    assert not any(key in values for key in itertools.islice(keys, 3))
