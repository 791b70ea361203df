"""Whether a selector matches any object of a store: the answer of a scan over all, from fewer objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    Selector,
    compile_selector,
)
from pratique.cluster.store import ObjectStore

IN_LIST = LabelSelectorRequirement("tier", "In", ("web", "api"))
SELECTORS = {
    "one label": LabelSelector({"app": "cart"}),
    "two labels": LabelSelector({"app": "cart", "tier": "web"}),
    "a label and an expression": LabelSelector({"app": "cart"}, (IN_LIST,)),
    "an expression with one value": LabelSelector({}, (LabelSelectorRequirement("app", "In", ("cart",)),)),
    "an expression with two values": LabelSelector({}, (IN_LIST,)),
    "an absent label": LabelSelector({}, (LabelSelectorRequirement("app", "DoesNotExist"),)),
    "another value": LabelSelector({}, (LabelSelectorRequirement("app", "NotIn", ("cart",)),)),
}
LABELS = st.one_of(
    st.none(),
    st.just("no mapping"),
    st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["cart", "web", "api", 1, ["cart"]])),
)
CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from("xy"), LABELS))


def pod(name: str, namespace: str, labels: JSON) -> JSONObject:
    metadata = {"name": name, "namespace": namespace} | ({} if labels is None else {"labels": labels})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


@pytest.mark.parametrize("written", SELECTORS.values(), ids=SELECTORS)
@given(changes=CHANGES)
def test_a_store_finds_selected_objects_as_a_scan_does(
    written: LabelSelector, changes: list[tuple[bool, str, str, JSON]]
) -> None:
    selector = compile_selector(written)
    store = ObjectStore(assume_namespaces=True)
    for puts, name, namespace, labels in changes:
        if puts:
            store.put(pod(name, namespace, labels))
        else:
            store.remove("", "pods", name, namespace)
        for where in "xyz":
            expected = selector.matches_object(*store.list("", "pods", where))
            assert store.has_selected("", "pods", where, selector) == expected
            assert store.copy().has_selected("", "pods", where, selector) == expected


class LookedAt(dict[str, str]):
    """Labels that count how often they are looked at."""

    count = 0

    def __contains__(self, key: object) -> bool:
        LookedAt.count += 1
        return super().__contains__(key)


def test_objects_without_the_required_label_are_not_looked_at() -> None:
    store = ObjectStore(pod(f"p{number}", "x", LookedAt(app=f"app-{number}")) for number in range(100))
    selector = compile_selector(LabelSelector({"app": "app-7"}))
    LookedAt.count = 0
    assert store.has_selected("", "pods", "x", selector)
    assert LookedAt.count == 1


@pytest.mark.parametrize(
    ("written", "required"),
    [
        (SELECTORS["one label"], ("app", "cart")),
        (SELECTORS["an expression with one value"], ("app", "cart")),
        (SELECTORS["an expression with two values"], None),
        (SELECTORS["another value"], None),
        (LabelSelector(), None),
    ],
)
def test_a_selector_tells_a_label_that_it_requires(written: LabelSelector, required: Any) -> None:
    selector: Selector = compile_selector(written)
    assert selector.required_label == required
