"""PodTopologyLabels."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_topology_labels import CONTROLLER
from support.admissions import admit, denial, pod_review, review_of
from support.mutation_invariants import admitted_twice
from support.pods import pod

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
OFF = {"featureGates": {"PodTopologyLabelsAdmission": False}}


def cluster_of(**nodes: JSON) -> ObjectStore:
    """A cluster of nodes, with their labels."""
    return ObjectStore(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        for name, labels in nodes.items()
    )


def binding_review(
    labels: JSON = None, *, to: JSON = None, kind: str = "Binding", cluster: ObjectStore | None = None
) -> Review:
    return review_of(
        {
            "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": kind},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "binding",
            "namespace": "shop",
            "name": "web",
            "object": {
                "kind": kind,
                "metadata": {"name": "web", "labels": labels},
                "target": {"kind": "Node", "name": "n1"} if to is None else to,
            },
        },
        cluster_of() if cluster is None else cluster,
    )


def new_pod(cluster: ObjectStore, labels: JSON = None, **spec: JSON) -> Review:
    return msgspec.structs.replace(pod_review(pod(labels=labels, **spec)), cluster=cluster)


LABELS = [
    ({ZONE: "z", REGION: "r", "topology.kubernetes.io/rack": "k", "app": "x"}, {ZONE: "z", REGION: "r"}),
    ({ZONE: "z", "topology.kubernetes.io/arbitrary": "a"}, {ZONE: "z"}),
    ({REGION: "r", "sub.topology.kubernetes.io/zone": "z"}, {REGION: "r"}),
    ({ZONE: ""}, {ZONE: ""}),
    ({"topology.kubernetes.io": "z"}, None),
    ({}, None),
    (None, None),
]


@pytest.mark.parametrize(("of_node", "copied"), LABELS)
def test_a_binding_gets_the_zone_and_region_of_its_node(of_node: JSON, copied: JSON) -> None:
    found = admit(CONTROLLER, binding_review(cluster=cluster_of(n1=of_node)))
    assert found.object["metadata"]["labels"] == copied


@pytest.mark.parametrize(("of_node", "copied"), LABELS)
def test_a_pod_that_is_created_on_a_node_gets_them_too(of_node: JSON, copied: JSON) -> None:
    found = admit(CONTROLLER, new_pod(cluster_of(n1=of_node), nodeName="n1"))
    assert found.object["metadata"].get("labels") == copied


@pytest.mark.parametrize("review_with", ["binding", "pod"])
def test_labels_of_the_node_replace_those_of_the_object(review_with: str) -> None:
    cluster = cluster_of(n1={ZONE: "new"})
    own = {ZONE: "old", REGION: "kept", "app": "web"}
    bound = binding_review(own, cluster=cluster)
    review = bound if review_with == "binding" else new_pod(cluster, own, nodeName="n1")
    assert admit(CONTROLLER, review).object["metadata"]["labels"] == {**own, ZONE: "new"}


@pytest.mark.parametrize(
    "to",
    [{"name": "n1"}, {"kind": "Pod", "name": "n1"}, {"kind": "node", "name": "n1"}, {"kind": "Node"}, []],
)
def test_only_a_binding_to_a_node_is_labelled(to: JSON) -> None:
    assert admit(CONTROLLER, binding_review(to=to, cluster=cluster_of(n1={ZONE: "z"}))).operations == ()


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_pod_that_is_not_scheduled_is_left_alone(name: JSON) -> None:
    assert admit(CONTROLLER, new_pod(cluster_of(n1={ZONE: "z"}), nodeName=name)).operations == ()


def test_a_node_that_does_not_exist_has_no_labels() -> None:
    for review in (binding_review(), new_pod(cluster_of(), nodeName="n1")):
        found = admit(CONTROLLER, review)
        assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize(
    ("operation", "subresource"), [("UPDATE", ""), ("CREATE", "eviction"), ("UPDATE", "status")]
)
def test_other_requests_are_ignored(operation: str, subresource: str) -> None:
    review = pod_review(pod(nodeName="n1"), operation=operation, subresource=subresource)
    review = msgspec.structs.replace(review, cluster=cluster_of(n1={ZONE: "z"}))
    assert admit(CONTROLLER, review).operations == ()


def test_the_feature_gate_turns_it_off() -> None:
    cluster = cluster_of(n1={ZONE: "z"})
    for review in (binding_review(cluster=cluster), new_pod(cluster, nodeName="n1")):
        assert admit(CONTROLLER, review, OFF).operations == ()


def test_objects_of_other_kinds_are_an_error() -> None:
    assert denial(admit(CONTROLLER, binding_review(kind="Pod"))) == (500, "", "expected Binding but got Pod")
    found = admit(CONTROLLER, pod_review({"kind": "Binding", "apiVersion": "v1"}))
    assert denial(found) == (500, "", "expected Pod but got *core.Binding")


@given(
    st.dictionaries(st.sampled_from([ZONE, REGION, "a"]), st.sampled_from(["x", "y", ""])),
    st.none() | st.dictionaries(st.sampled_from([ZONE, REGION, "a"]), st.sampled_from(["x", "y", ""])),
)
def test_a_second_pass_changes_nothing(of_node: JSONObject, own: JSON) -> None:
    cluster = cluster_of(n1=of_node)
    admitted_twice(CONTROLLER, binding_review(own, cluster=cluster))
    admitted_twice(CONTROLLER, new_pod(cluster, own, nodeName="n1"))
