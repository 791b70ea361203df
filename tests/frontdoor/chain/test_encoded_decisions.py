"""Decisions as JSON: the text is that of the decision document, encoded as a whole."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import BOTH, Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import Document, encode
from pratique.apimachinery.statuses import failure
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.manifests.requests import review_of_manifest
from pratique_frontdoor.chain.decision_documents import encode_decision, to_document
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.engines.local import LocalEngine

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.none() | st.dictionaries(st.text(), VALUES, max_size=3)
PATCHES = st.lists(VALUES.map(lambda value: {"op": "add", "path": "/a", "value": value}), max_size=2)
STEPS = st.builds(
    Step,
    controller=st.text(),
    phase=st.sampled_from(Phase),
    name=st.text(),
    outcome=st.sampled_from(OutcomeStatus),
    reason=st.text(),
    patch=PATCHES.map(tuple),
    duration_seconds=st.sampled_from([0.0, 0.001, 0.0000001, 2.5, 1e-9, 12345.678]),
    timeout_seconds=st.none() | st.just(1.5),
    ended_at=st.sampled_from([0, 1]),
)


def decisions(expanded: st.SearchStrategy[tuple[Decision, ...]]) -> st.SearchStrategy[Decision]:
    return st.builds(
        Decision,
        uid=st.text(),
        allowed=st.booleans(),
        status=st.none() | st.text().map(lambda text: failure(403, "Forbidden", text)),
        object_document=OBJECTS.map(Document.from_data)
        | st.sampled_from([b'{"a": 1.0, "b" : 1e3}', b"null"]).map(Document.from_raw),
        patch=PATCHES.map(tuple),
        warnings=st.lists(st.text()).map(tuple),
        audit_annotations=st.dictionaries(st.text(), st.text(), max_size=2),
        steps=st.lists(STEPS, max_size=3).map(tuple),
        expanded=expanded,
    )


@given(decisions(decisions(st.just(())).map(lambda pod: (pod,)) | st.just(())))
def test_a_decision_is_encoded_as_its_document(decision: Decision) -> None:
    assert encode_decision(decision) == encode(to_document(decision))


@pytest.fixture
def config_map() -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}


def test_reviews_of_a_kind_share_the_steps_that_never_ran(config_map: dict[str, object]) -> None:
    async def decide_twice() -> list[Decision]:
        store = ObjectStore(assume_namespaces=True)
        engine = LocalEngine(ChainSettings(), store)
        review = review_of_manifest(config_map, store.resources, cluster=store)
        found = [await engine.decide(review, BOTH, Deadline.after(60), explain=True) for _ in range(2)]
        await engine.close()
        return found

    first, second = asyncio.run(decide_twice())
    skipped = [step.outcome is OutcomeStatus.SKIPPED for step in first.steps]
    shared = [step is again for step, again in zip(first.steps, second.steps, strict=True)]
    assert any(skipped)
    assert shared == skipped
