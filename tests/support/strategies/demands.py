"""Strategies: Pods that ask for amounts of resources, and the LimitRanges that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from support.strategies.pods import QUANTITIES, optional


def pods() -> st.SearchStrategy[JSONObject]:
    """Pods of which nothing is generated but what their containers ask for."""
    resources = optional({}, requests=amounts(), limits=amounts())
    container = optional({"name": st.sampled_from("abc")}, resources=resources)
    few = st.lists(container, max_size=2)
    spec = optional({"containers": few}, initContainers=few, ephemeralContainers=few)
    metadata = optional({"name": st.just("web")}, annotations=st.just({"a": "b"}))
    return st.fixed_dictionaries({"kind": st.just("Pod"), "metadata": metadata, "spec": spec})


def amounts() -> st.SearchStrategy[JSONObject]:
    """Lists of resources."""
    names = st.sampled_from(["cpu", "memory", "storage", "example.com/gpu"])
    return st.dictionaries(names, QUANTITIES, max_size=2)


def limit_ranges(name: str = "limits", namespace: str = "shop") -> st.SearchStrategy[JSONObject]:
    """LimitRanges with items of every type."""
    item = optional(
        {"type": st.sampled_from(["Container", "Pod", "PersistentVolumeClaim"])},
        min=amounts(),
        max=amounts(),
        default=amounts(),
        defaultRequest=amounts(),
        maxLimitRequestRatio=amounts(),
    )
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just("v1"),
            "kind": st.just("LimitRange"),
            "metadata": st.just({"name": name, "namespace": namespace}),
            "spec": st.fixed_dictionaries({"limits": st.lists(item, max_size=2)}),
        }
    )
