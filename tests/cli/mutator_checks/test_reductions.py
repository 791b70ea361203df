from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.schemas import schema_of
from pratique.cluster.store import ANY_NAMESPACE
from pratique_cli.mutator_checks.runs import Reduction

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "1", "b": "2"}},
    "spec": {
        "containers": [{"name": "a", "image": "a", "args": ["x", "y"]}, {"name": "b", "image": "b"}],
        "tolerations": [{"operator": "Exists"}, {"key": "a"}],
    },
}
SCHEMA = schema_of(GroupVersionKind("", "v1", "Pod"), ANY_NAMESPACE)


def reduced(shows: Callable[[Any], bool], trials: int = 400) -> tuple[Any, int]:
    tried = 0

    async def show(document: Any) -> bool:
        nonlocal tried
        tried += 1
        return shows(document)

    return asyncio.run(Reduction(show, SCHEMA, trials).reduce(POD)), tried


def test_everything_unnecessary_is_removed() -> None:
    smallest, _ = reduced(lambda _: True)
    assert smallest == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "a"}]},
    }


def test_the_part_that_shows_the_defect_stays() -> None:
    smallest, _ = reduced(lambda pod: '"y"' in json.dumps(pod) and "Exists" in json.dumps(pod))
    assert smallest["spec"] == {
        "containers": [{"name": "a", "args": ["y"]}],
        "tolerations": [{"operator": "Exists"}],
    }


def test_a_later_item_can_be_the_one_that_stays() -> None:
    smallest, _ = reduced(
        lambda pod: any(container["name"] == "b" for container in pod["spec"]["containers"])
    )
    assert smallest["spec"] == {"containers": [{"name": "b"}]}


def test_an_object_that_cannot_be_reduced_is_unchanged() -> None:
    same, _ = reduced(lambda _: False)
    assert same is POD


def test_reduction_stops_after_a_number_of_attempts() -> None:
    assert reduced(lambda _: False, trials=3)[1] == 3


def test_reduction_does_not_modify_the_object() -> None:
    before = json.dumps(POD)
    reduced(lambda _: True)
    assert json.dumps(POD) == before
