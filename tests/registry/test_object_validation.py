"""The steps of object validation in the chain, as `pratique review` runs it."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.patches import patch_document
from pratique_frontdoor.chain.decisions import OBJECT_VALIDATION, Decision, Step
from support.chains import decided, pod_review
from support.manifest_decisions import decide_manifest
from support.stored_objects import definitions

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The Pod with another value."""
    pod = copy.deepcopy(POD)
    *parents, last = path.split(".")
    parent: Any = pod
    for name in parents:
        parent = parent[int(name) if name.isdigit() else name]
    parent[last] = value
    return pod


def own_steps(decision: Decision) -> list[Step]:
    return [step for step in decision.steps if step.controller == OBJECT_VALIDATION]


def message(decision: Decision) -> str:
    assert decision.status is not None
    return decision.status.message


def test_whoever_writes_endpoints_is_warned_even_if_they_are_refused() -> None:
    endpoints: dict[str, Any] = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}}
    warning = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    for written in (endpoints, endpoints | {"subsets": 1}):
        assert decide_manifest(written).warnings == (warning,)
    assert decide_manifest(POD).warnings == ()


def test_an_object_that_cannot_be_decoded_meets_no_controller() -> None:
    decision = decide_manifest(changed("spec.hostNetwork", "yes"), controllers=["AlwaysDeny"])
    assert [step.controller for step in decision.steps] == [OBJECT_VALIDATION]
    assert decision.status is not None
    assert decision.status.code == 400
    assert message(decision) == (
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field'
        " PodSpec.spec.hostNetwork of type bool"
    )


def test_an_unknown_field_is_refused() -> None:
    decision = decide_manifest(changed("spec.foo", 1))
    assert message(decision) == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"'
    )


def test_an_invalid_object_meets_no_validating_controller() -> None:
    decision = decide_manifest(changed("spec.containers", []), controllers=["PodSecurity"])
    assert decision.status is not None
    assert decision.status.code == 422
    assert message(decision) == 'Pod "web" is invalid: spec.containers: Required value'
    assert [(step.name, step.outcome) for step in decision.steps] == [
        ("defaults", OutcomeStatus.MUTATED),
        ("validation", OutcomeStatus.DENIED),
    ]


def test_mutating_controllers_see_defaults() -> None:
    decision = decide_manifest(
        changed("spec.containers.0.image", "web:latest"), controllers=["AlwaysPullImages"]
    )
    step = next(step for step in decision.steps if step.controller == "AlwaysPullImages")
    assert step.outcome is OutcomeStatus.UNCHANGED  # the default of :latest is Always
    assert decision.object_document.data["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_the_decision_has_the_object_as_it_would_be_stored() -> None:
    stored = decide_manifest(POD).object_document.data
    assert stored["spec"]["restartPolicy"] == "Always"
    assert stored["status"]["phase"] == "Pending"
    assert stored["metadata"] == {"name": "web", "namespace": "shop", "generation": 1}


def test_what_an_update_may_not_change_is_refused() -> None:
    stored = decide_manifest(POD).object_document.data
    decision = decide_manifest(changed("spec.restartPolicy", "Never"), old=stored)
    assert message(decision).startswith('Pod "web" is invalid: ')


def test_an_object_that_was_stored_may_be_applied_again() -> None:
    stored = decide_manifest(POD).object_document.data
    decision = decide_manifest(POD, old=stored)
    assert decision.allowed, decision.status


def test_a_kind_without_a_schema_is_not_guessed_at() -> None:
    review = pod_review(
        kind=GroupVersionKind("example.com", "v1", "Ship"),
        resource=GroupVersionResource("example.com", "v1", "ships"),
        object_validation=True,
    )
    (step,) = own_steps(asyncio.run(decided(review)))
    assert step.outcome is OutcomeStatus.SKIPPED
    assert step.reason == "no schema of Ship in example.com/v1 is known"


def test_without_object_validation_a_manifest_is_decided_as_it_is_written() -> None:
    decision = decide_manifest(changed("spec.foo", 1), object_validation=False)
    assert decision.allowed
    assert own_steps(decision) == []
    assert decision.object_document.data == changed("spec.foo", 1)


@pytest.mark.parametrize(
    "changes",
    [
        {},  # what was received is changed by defaults and by storage
        {"kind": "Secret", "spec": None, "data": {"a": "YQ=="}},  # by defaults alone
        {"kind": "ConfigMap", "spec": None, "data": {"a": "b"}},  # by nothing
    ],
)
def test_the_patch_of_a_decision_is_what_all_steps_have_changed(changes: dict[str, Any]) -> None:
    written = {name: value for name, value in (POD | changes).items() if value is not None}
    decision = decide_manifest(written, controllers=["DefaultTolerationSeconds"])
    assert decision.allowed
    patched = patch_document(Document.from_data(written), decision.patch)
    assert patched == decision.object_document
    assert bool(decision.patch) is (written != decision.object_document.data)


def test_every_step_tells_how_long_it_took() -> None:
    decision = decide_manifest(POD, controllers=["DefaultTolerationSeconds"])
    assert [(step.name, step.duration_seconds > 0) for step in own_steps(decision)] == [
        ("defaults", True),
        ("validation", True),
    ]


MALFORMED: dict[str, tuple[str, Any, str]] = {
    "a string for a struct": (
        "spec",
        "x",
        "cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec",
    ),
    "numbers for structs": (
        "spec.containers",
        [1],
        "cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Container",
    ),
    "a number for a name": (
        "spec.containers.0.name",
        5,
        "cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
    ),
    "a list for labels": (
        "metadata.labels",
        ["a"],
        "cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_an_update_of_what_no_api_server_stores_is_refused_and_meets_no_controller(case: str) -> None:
    path, value, problem = MALFORMED[case]
    decision = decide_manifest(POD, old=changed(path, value), controllers=["AlwaysDeny"])
    assert [step.controller for step in decision.steps] == [OBJECT_VALIDATION]
    assert decision.status is not None
    assert decision.status.code == 400
    assert message(decision) == f'oldObject: Pod in version "v1" cannot be handled as a Pod: json: {problem}'


def test_unknown_fields_and_nulls_of_a_stored_object_are_dropped() -> None:
    container = POD["spec"]["containers"][0] | {"img": "x", "command": None, "env": None}
    stored = POD | {"spec": {"containers": [container], "priority": None, "foo": 1}, "status": None}
    assert decide_manifest(POD, old=stored).status is None


def test_the_metadata_of_a_stored_custom_resource_is_decoded() -> None:
    ship = {
        "apiVersion": "lab.example.com/v1",
        "kind": "Ship",
        "metadata": {"name": "a"},
    }
    decision = decide_manifest(
        ship, old=ship | {"metadata": {"name": "a", "labels": 1}}, definitions=definitions()
    )
    assert message(decision).startswith("oldObject: Ship in version ")
    assert message(decision).endswith(" of type map[string]string")
