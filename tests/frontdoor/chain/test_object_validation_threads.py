"""Where objects are decoded and validated, so that one object does not keep the event loop from others."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.registry.object_validation import owner_warnings, receive
from pratique_frontdoor.chain.decisions import Decision
from support.chains import POD as SMALL_POD
from support.chains import decided, pod_review
from support.scripted_webhooks import Act, Script, decide
from support.waiting import within
from support.watched_documents import WatchedDocument

WIDGETS: JSONObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"text": {"type": "string"}}}
                        },
                    }
                },
            }
        ],
    },
}


POD: JSONObject = SMALL_POD


class WatchedStore(ObjectStore):
    """A store that knows which threads look something up."""

    def __init__(self, while_looking: Callable[[], None] = lambda: None) -> None:
        super().__init__(assume_namespaces=True)
        self.while_looking = while_looking
        self.threads: set[str] = set()

    def get(self, *args: Any, **kwargs: Any) -> JSONObject | None:
        name = threading.current_thread().name
        self.threads.add(name)
        if name.startswith("pratique-"):
            self.while_looking()
        return super().get(*args, **kwargs)


def widget_review(cluster: ObjectStore, text: str = "") -> Review:
    cluster.put(WIDGETS)
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"text": text},
    }
    return pod_review(
        kind=GroupVersionKind("example.com", "v1", "Widget"),
        resource=GroupVersionResource("example.com", "v1", "widgets"),
        object_document=Document.from_raw(json.dumps(widget).encode()),
        cluster=cluster,
        object_validation=True,
    )


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (0, "pratique-reviews"),
        (1_000, "pratique-reviews"),
        (10_000, "pratique-large-reviews"),
    ],
)
def test_custom_resources_are_validated_in_threads(values: int, name: str) -> None:
    cluster = WatchedStore()
    assert asyncio.run(decided(widget_review(cluster, "," * values))).allowed
    assert cluster.threads == {threading.current_thread().name, name}


def watched_pod(values: int) -> WatchedDocument:
    metadata = {**POD["metadata"], "annotations": {"a": "," * values}}
    return WatchedDocument(json.dumps({**POD, "metadata": metadata}).encode())


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (0, threading.main_thread().name),
        (1_000, "pratique-reviews"),
        (10_000, "pratique-large-reviews"),
        (300_000, "pratique-large-reviews"),
    ],
)
def test_an_object_is_read_in_the_thread_for_its_size(values: int, name: str) -> None:
    document = watched_pod(values)
    # The longest one is too long for an annotation: refused or not, the event loop does not read it.
    asyncio.run(decided(pod_review(object_document=document, object_validation=True)))
    assert document.threads[0] == name


def test_an_update_goes_by_the_size_of_both_objects() -> None:
    document = watched_pod(0)
    stored = Document.from_raw(watched_pod(1_000).raw)
    review = pod_review(
        operation=Operation.UPDATE,
        object_document=document,
        old_object_document=stored,
        object_validation=True,
    )
    asyncio.run(decided(review))
    assert document.threads[0] == "pratique-reviews"


def test_what_a_webhook_has_made_long_is_validated_in_a_thread() -> None:
    cluster = WatchedStore()
    review = widget_review(cluster)
    webhook = Script("w.example.com", Act.CHANGE, {**review.object, "spec": {"text": "," * 10_000}})
    assert decide(review, [webhook]).allowed
    assert webhook.calls == 1
    assert "pratique-large-reviews" in cluster.threads


def test_work_that_nobody_waits_for_any_more_is_ended() -> None:
    began, ended = threading.Event(), threading.Event()

    def endless() -> None:
        began.set()
        try:
            while True:
                pass
        finally:
            ended.set()

    async def run() -> Decision:
        deciding = asyncio.ensure_future(decided(widget_review(WatchedStore(endless))))
        await asyncio.to_thread(began.wait, 120)
        deciding.cancel()
        await asyncio.wait([deciding])
        assert within(120, ended.is_set)
        return await decided(widget_review(WatchedStore()))

    assert asyncio.run(run()).allowed


class CountedOwner(dict[str, Any]):
    """An owner that counts how often owners are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedOwner.compared += 1
        return super().__eq__(other)

    __hash__ = None


def test_owners_are_not_compared_with_each_other() -> None:
    owners = [
        CountedOwner(apiVersion="v1", kind="Pod", name="a", uid=str(number % 900)) for number in range(1000)
    ]
    pod = {**POD, "metadata": {**POD["metadata"], "ownerReferences": owners}}
    review = pod_review(object_document=Document.from_data(pod))
    assert len(receive(review).object["metadata"]["ownerReferences"]) == 900
    [warning] = owner_warnings(review)
    assert warning.count(", ") >= 99
    assert CountedOwner.compared < 5000
