"""RuntimeClass."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.runtime_class import CONTROLLER
from support.admissions import admit, denial, forbidden_text, pod_review
from support.mutation_invariants import admitted_twice
from support.pods import pod
from support.strategies.pods import tolerations

AMOUNTS = {"cpu": "100m", "memory": "64Mi"}
NFS = {"key": "nfs", "operator": "Equal", "value": "v4", "effect": "NoSchedule"}
GPU = {"key": "gpu", "operator": "Exists"}
MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
WITHOUT_CLASS = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def of_class(
    runtime_class: JSONObject, *, subresource: str = "", operation: str = "CREATE", **spec: JSON
) -> Review:
    """A review of a Pod that names a class with these fields."""
    stored = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
        **runtime_class,
    }
    review = pod_review(
        pod(**{"runtimeClassName": "gvisor", **spec}), operation=operation, subresource=subresource
    )
    return msgspec.structs.replace(review, cluster=ObjectStore([stored]))


OVERHEAD: JSONObject = {"overhead": {"podFixed": AMOUNTS}}
EMPTY_OVERHEADS: list[JSONObject] = [{}, {"overhead": None}, {"overhead": {}}, {"overhead": {"podFixed": {}}}]


@pytest.mark.parametrize("own", [None, {}, AMOUNTS, {"cpu": "0.1", "memory": "65536Ki"}])
def test_a_pod_gets_the_overhead_of_its_class(own: JSON) -> None:
    found = admit(CONTROLLER, of_class(OVERHEAD, overhead=own))
    assert found.allowed
    assert found.object["spec"]["overhead"] == AMOUNTS


@pytest.mark.parametrize("own", [{"cpu": "100m"}, {**AMOUNTS, "cpu": "1"}, {**AMOUNTS, "example.com/x": "0"}])
@pytest.mark.parametrize("phase", [Phase.MUTATE, Phase.VALIDATE])
def test_another_overhead_is_denied_in_both_phases(own: JSONObject, phase: Phase) -> None:
    assert forbidden_text(admit(CONTROLLER, of_class(OVERHEAD, overhead=own), phases=[phase])) == MISMATCH


def test_an_overhead_that_a_webhook_has_removed_is_denied() -> None:
    assert forbidden_text(admit(CONTROLLER, of_class(OVERHEAD), phases=[Phase.VALIDATE])) == MISMATCH


@pytest.mark.parametrize("runtime_class", EMPTY_OVERHEADS)
def test_a_class_without_an_overhead_changes_nothing(runtime_class: JSONObject) -> None:
    found = admit(CONTROLLER, of_class(runtime_class))
    assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize(
    ("runtime_class", "text"),
    list(zip(EMPTY_OVERHEADS, [WITHOUT_CLASS, WITHOUT_CLASS, MISMATCH, MISMATCH], strict=True)),
)
def test_an_overhead_that_the_class_does_not_have_is_denied(runtime_class: JSONObject, text: str) -> None:
    assert forbidden_text(admit(CONTROLLER, of_class(runtime_class, overhead=AMOUNTS))) == text


@pytest.mark.parametrize("overhead", [AMOUNTS, {}])
def test_an_overhead_without_a_class_is_denied_even_if_it_is_empty(overhead: JSONObject) -> None:
    found = admit(CONTROLLER, of_class({}, runtimeClassName=None, overhead=overhead))
    assert forbidden_text(found) == WITHOUT_CLASS


def test_a_pod_without_a_class_is_left_alone() -> None:
    found = admit(CONTROLLER, of_class(OVERHEAD, runtimeClassName=None))
    assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize("phase", [Phase.MUTATE, Phase.VALIDATE])
def test_a_class_that_does_not_exist_is_denied_in_both_phases(phase: Phase) -> None:
    found = admit(CONTROLLER, of_class({}, runtimeClassName="kata"), phases=[phase])
    assert forbidden_text(found) == 'pod rejected: RuntimeClass "kata" not found'


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "resource name may not be empty"),
        ("..", "invalid resource name \"..\": [may not be '..']"),
        ("a/b", "invalid resource name \"a/b\": [may not contain '/']"),
        ("a/b%", "invalid resource name \"a/b%\": [may not contain '/' may not contain '%']"),
    ],
)
def test_a_name_that_cannot_be_asked_for_is_an_error(name: str, message: str) -> None:
    assert denial(admit(CONTROLLER, of_class({}, runtimeClassName=name))) == (500, "", message)


@pytest.mark.parametrize("name", [5, ["gvisor"], {}])
def test_a_name_that_is_no_string_is_a_bad_request(name: JSON) -> None:
    code, _, message = denial(admit(CONTROLLER, of_class({}, runtimeClassName=name)))
    assert code == 400
    assert message.startswith("spec.runtimeClassName: must be a string, not ")


def scheduling(**fields: JSON) -> JSONObject:
    return {"scheduling": fields}


@pytest.mark.parametrize(
    ("of_runtime", "own", "merged"),
    [
        ({"disk": "ssd"}, None, {"disk": "ssd"}),
        ({"disk": "ssd"}, {"disk": "ssd"}, {"disk": "ssd"}),
        ({"disk": "ssd", "arch": "arm64"}, {"disk": "ssd"}, {"disk": "ssd", "arch": "arm64"}),
        ({"disk": "ssd"}, {"zone": "a"}, {"zone": "a", "disk": "ssd"}),
        ({}, {"zone": "a"}, {"zone": "a"}),
        (None, None, None),
    ],
)
def test_the_node_selectors_are_merged(of_runtime: JSON, own: JSON, merged: JSON) -> None:
    found = admit(CONTROLLER, of_class(scheduling(nodeSelector=of_runtime), nodeSelector=own))
    assert found.object["spec"]["nodeSelector"] == merged


def test_conflicting_node_selectors_are_denied() -> None:
    found = admit(
        CONTROLLER, of_class(scheduling(nodeSelector={"disk": "ssd"}), nodeSelector={"disk": "hdd"})
    )
    assert forbidden_text(found) == (
        "conflict: runtimeClass.scheduling.nodeSelector[disk] = ssd; pod.spec.nodeSelector[disk] = hdd"
    )


@pytest.mark.parametrize(
    ("of_runtime", "own", "merged"),
    [
        ([NFS, GPU], [NFS], [NFS, GPU]),
        ([NFS], [GPU], [GPU, NFS]),
        ([NFS], [{"key": "nfs", "operator": "Exists"}], [{"key": "nfs", "operator": "Exists"}]),
        ([{"operator": "Exists"}], [NFS, GPU], [{"operator": "Exists"}]),
        ([], [GPU, GPU, NFS], [GPU, NFS]),
        (None, [GPU, GPU], [GPU]),
        ([NFS], None, [NFS]),
    ],
)
def test_the_tolerations_are_merged_and_what_others_cover_is_dropped(
    of_runtime: JSON, own: JSON, merged: JSON
) -> None:
    found = admit(CONTROLLER, of_class(scheduling(tolerations=of_runtime), tolerations=own))
    assert found.object["spec"]["tolerations"] == merged


def test_without_scheduling_in_the_class_tolerations_stay_as_they_are() -> None:
    assert admit(CONTROLLER, of_class({}, tolerations=[GPU, GPU])).operations == ()


@pytest.mark.parametrize(
    ("operation", "subresource"), [("UPDATE", ""), ("CREATE", "eviction"), ("UPDATE", "status")]
)
def test_other_requests_are_ignored(operation: str, subresource: str) -> None:
    review = of_class(OVERHEAD, operation=operation, subresource=subresource, overhead={"cpu": "7"})
    found = admit(CONTROLLER, review)
    assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize("phase", [Phase.MUTATE, Phase.VALIDATE])
def test_an_object_that_is_not_a_pod_is_a_bad_request(phase: Phase) -> None:
    found = admit(CONTROLLER, pod_review({"kind": "Service"}), phases=[phase])
    text = "Resource was marked with kind Pod but was unable to be converted"
    assert denial(found) == (400, "BadRequest", text)


@given(
    st.sampled_from([{}, OVERHEAD, *EMPTY_OVERHEADS]),
    st.lists(tolerations(), max_size=3),
    st.lists(tolerations(), max_size=3),
    st.sampled_from([None, {"a": "1"}, {"a": "2"}]),
)
def test_a_second_pass_changes_nothing(
    runtime_class: JSONObject, of_runtime: list[JSONObject], own: list[JSONObject], selector: JSON
) -> None:
    fields = {**runtime_class, **scheduling(nodeSelector={"a": "1"}, tolerations=of_runtime)}
    admitted_twice(CONTROLLER, of_class(fields, tolerations=own, nodeSelector=selector))
