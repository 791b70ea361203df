"""PodGroupProtection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.controllers.pod_group_protection import CONTROLLER, FINALIZER
from support.admissions import admit, denial, review_of
from support.mutation_invariants import admitted_twice

ON = {"featureGates": {"GenericWorkload": True}}
OFF = {"featureGates": {"GenericWorkload": False}}


def group_review(
    finalizers: JSON = None,
    *,
    operation: str = "CREATE",
    subresource: str = "",
    api_group: str = "scheduling.k8s.io",
    kind: str = "PodGroup",
    version: str = "v1beta1",
) -> Review:
    return review_of(
        {
            "operation": operation,
            "kind": {"group": api_group, "version": version, "kind": kind},
            "resource": {"group": api_group, "version": version, "resource": "podgroups"},
            "subResource": subresource,
            "namespace": "shop",
            "name": "trainers",
            "object": {"kind": kind, "metadata": {"name": "trainers", "finalizers": finalizers}},
        }
    )


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_a_new_group_gets_the_finalizer_if_the_gate_is_on(version: str) -> None:
    found = admit(CONTROLLER, group_review(version=version), ON)
    assert found.object["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]


@pytest.mark.parametrize("configuration", [None, {}, {"featureGates": {}}, OFF])
def test_nothing_happens_while_the_gate_is_off_as_it_is_by_default(configuration: JSON) -> None:
    assert admit(CONTROLLER, group_review(), configuration).operations == ()


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        (None, "the feature gate GenericWorkload is off"),
        (OFF, "the feature gate GenericWorkload is off"),
        (ON, ""),
    ],
)
def test_the_service_is_called_only_if_the_gate_is_on(configuration: JSON, reason: str) -> None:
    assert CONTROLLER.skip_reason is not None
    assert CONTROLLER.skip_reason(configuration, group_review()) == reason


@pytest.mark.parametrize(
    ("finalizers", "kept"),
    [
        ([], [FINALIZER]),
        (["a.example/x"], ["a.example/x", FINALIZER]),
        ([FINALIZER], [FINALIZER]),
        ([FINALIZER, "a.example/x"], [FINALIZER, "a.example/x"]),
        ([FINALIZER, FINALIZER], [FINALIZER, FINALIZER]),
        ([f"{FINALIZER}-2"], [f"{FINALIZER}-2", FINALIZER]),
    ],
)
def test_the_finalizer_is_appended_unless_it_is_there(finalizers: JSON, kept: JSON) -> None:
    assert admit(CONTROLLER, group_review(finalizers), ON).object["metadata"]["finalizers"] == kept


@pytest.mark.parametrize(
    "review",
    [
        group_review(operation="UPDATE"),
        group_review(subresource="status"),
        group_review(api_group="scheduling.x-k8s.io"),
        group_review(kind="Workload"),
    ],
)
def test_everything_else_is_ignored(review: Review) -> None:
    found = admit(CONTROLLER, review, ON)
    assert (found.allowed, found.operations) == (True, ())


def test_finalizers_that_are_not_a_list_are_a_bad_request() -> None:
    code, _, message = denial(admit(CONTROLLER, group_review("x"), ON))
    assert (code, message) == (400, "metadata.finalizers: must be a list, not a string")


def test_unknown_feature_gates_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r'unknown field "featureGates\.GangScheduling"'):
        admit(CONTROLLER, group_review(), {"featureGates": {"GangScheduling": True}})


@given(st.lists(st.sampled_from([FINALIZER, "a.example/x", "b.example/y"])))
def test_a_second_pass_changes_nothing(finalizers: list[str]) -> None:
    assert (
        FINALIZER in admitted_twice(CONTROLLER, group_review(finalizers), ON).object["metadata"]["finalizers"]
    )
