"""The labels that a node may set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.pods.nodes import forbidden_label_changes, may_set_label

LABELS = st.dictionaries(
    st.sampled_from(["own", "kubernetes.io/os", "other.k8s.io/x", "node-restriction.kubernetes.io/x"]),
    st.sampled_from(["1", "2"]),
)


@pytest.mark.parametrize(
    "label",
    [
        "role",
        "example.com/role",
        "notkubernetes.io/x",
        "kubernetes.io/hostname",
        "beta.kubernetes.io/arch",
        "node.kubernetes.io/anything",
        "deep.node.kubernetes.io/anything",
        "kubelet.kubernetes.io/anything",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    ],
)
def test_a_node_may_set_kubelet_labels(label: str) -> None:
    assert may_set_label(label)


@pytest.mark.parametrize(
    "label",
    [
        "node-restriction.kubernetes.io/team",
        "a.node-restriction.kubernetes.io/team",
        "kubernetes.io/role",
        "node-role.kubernetes.io/control-plane",
        "x.k8s.io/y",
        "k8s.io/y",
        "topology.kubernetes.io/rack",
    ],
)
def test_a_node_may_not_set_reserved_labels(label: str) -> None:
    assert not may_set_label(label)


@given(LABELS, LABELS)
def test_adding_changing_and_removing_a_label_all_count(new: dict[str, str], old: dict[str, str]) -> None:
    found = forbidden_label_changes({"metadata": {"labels": new}}, {"metadata": {"labels": old}})
    changed = {key for key, _ in new.items() ^ old.items()}
    assert found == sorted(key for key in changed if not may_set_label(key))


def test_a_new_node_sets_all_its_labels() -> None:
    assert forbidden_label_changes({"metadata": {"labels": {"x.k8s.io/b": "", "x.k8s.io/a": ""}}}) == [
        "x.k8s.io/a",
        "x.k8s.io/b",
    ]
    assert forbidden_label_changes({"metadata": {"labels": None}}) == []
