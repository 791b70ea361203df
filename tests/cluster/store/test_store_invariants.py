"""The store compared with a plain dictionary."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore

# (apiVersion, kind, group it is stored in, resource, namespaced)
KINDS = [
    ("v1", "Pod", "", "pods", True),
    ("apps/v1", "Deployment", "apps", "deployments", True),
    ("extensions/v1beta1", "Deployment", "apps", "deployments", True),
    ("v1", "Node", "", "nodes", False),
]
NAMES = ["a", "b", "c"]
NAMESPACES = ["x", "y"]

Key: TypeAlias = tuple[str, str, str, str]
Step: TypeAlias = tuple[bool, tuple[str, str, str, str, bool], str, str, int]

steps = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(KINDS),
        st.sampled_from(NAMESPACES),
        st.sampled_from(NAMES),
        st.integers(0, 3),
    )
)


def apply(step: Step, store: ObjectStore, model: dict[Key, JSONObject]) -> None:
    puts, (api_version, kind, group, resource, namespaced), namespace, name, value = step
    where = namespace if namespaced else ""
    key = (group, resource, where, name)
    if not puts:
        assert store.remove(group, resource, name, where) == (key in model)
        model.pop(key, None)
        return
    metadata = {"name": name} | ({"namespace": namespace} if namespaced else {})
    document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "value": value}
    store.put(document)
    model[key] = document


def listed(
    model: dict[Key, JSONObject], group: str, resource: str, namespace: str | None
) -> list[JSONObject]:
    return [
        document
        for key, document in sorted(model.items(), key=lambda item: item[0])
        if key[:2] == (group, resource) and namespace in {None, key[2]}
    ]


@given(steps)
def test_a_store_behaves_like_a_dictionary(changes: list[Step]) -> None:
    store = ObjectStore()
    model: dict[Key, JSONObject] = {}
    for change in changes:
        apply(change, store, model)
        for _, _, group, resource, _ in KINDS:
            for namespace in (None, "", *NAMESPACES):
                expected = listed(model, group, resource, namespace)
                assert list(store.list(group, resource, namespace)) == expected
    for (group, resource, namespace, name), document in model.items():
        assert store.get(group, resource, name, namespace) == document


@given(steps)
def test_every_listed_object_can_be_fetched(changes: list[Step]) -> None:
    store = ObjectStore(assume_namespaces=True)
    model: dict[Key, JSONObject] = {}
    for change in changes:
        apply(change, store, model)
    for _, _, group, resource, _ in KINDS:
        for document in store.list(group, resource):
            metadata = document["metadata"]
            assert store.get(group, resource, metadata["name"], metadata.get("namespace", "")) is document
