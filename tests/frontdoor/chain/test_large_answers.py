"""What webhooks answer at length is worked on beside the event loop."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.json_values import Document, JSONObject
from support.chains import POD, pod_review
from support.scripted_webhooks import Act, Script, decide

MAIN = threading.main_thread().name


class WatchedAnnotations(dict[str, str]):
    """Annotations that know in which threads they are gone through."""

    def __init__(self, number: int) -> None:
        super().__init__({f"key{index}": "x" for index in range(number)})
        self.threads: set[str] = set()

    def items(self) -> Any:
        self.threads.add(threading.current_thread().name)
        return super().items()


@dataclasses.dataclass
class Annotating(Script):
    """A webhook that allows everything with annotations."""

    annotations: WatchedAnnotations = dataclasses.field(default_factory=lambda: WatchedAnnotations(0))

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        [outcome] = await super().mutate(review, calls, deadline)
        return [msgspec.structs.replace(outcome, audit_annotations=self.annotations)]


def received_pod() -> Review:
    return pod_review(object_document=Document.from_raw(json.dumps(POD).encode()))


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize(
    ("number", "name"), [(1, MAIN), (1_000, "pratique-reviews"), (10_000, "pratique-large-reviews")]
)
def test_annotations_are_recorded_where_their_number_says(phase: Phase, number: int, name: str) -> None:
    annotations = WatchedAnnotations(number)
    script = Annotating("w.example.com", annotations=annotations)
    mutating, validating = ([script], []) if phase is Phase.MUTATE else ([], [script])
    decision = decide(received_pod(), mutating, validating)
    assert f"w.example.com/key{number - 1}" in decision.audit_annotations
    assert annotations.threads == {name}


@pytest.mark.parametrize("had", [{}, {"own": "x"}])  # one operation with all of them, or one for each
def test_what_follows_a_large_patch_is_done_beside_the_loop(had: dict[str, str]) -> None:
    metadata: JSONObject = {"name": "web", "namespace": "shop", **({"labels": had} if had else {})}
    pod: JSONObject = {**POD, "metadata": metadata}
    labels = {**had, **{f"l{number}": "x" for number in range(10_000)}}
    grown: JSONObject = {**POD, "metadata": {**metadata, "labels": labels}}
    annotations = WatchedAnnotations(1)
    scripts = [
        Script("a.example.com", Act.CHANGE, grown),
        Annotating("b.example.com", annotations=annotations),
    ]
    review = pod_review(object_document=Document.from_raw(json.dumps(pod).encode()))
    decision = decide(review, scripts)
    assert decision.object_document.data["metadata"]["labels"] == labels
    assert annotations.threads == {"pratique-large-reviews"}
