"""Invariants of mutating policies."""

from __future__ import annotations

import copy
import json

from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patches import apply_patch
from support.mutating_policies import applied, bound, mutating, mutating_policies_of, patched
from support.validating_policies import deployment, deployment_review

NAMES = st.sampled_from(["a", "b", "example.com/c"])
TEXTS = st.sampled_from(["x", "y", ""])
MAPS = st.dictionaries(NAMES, TEXTS, max_size=2)
IMAGES = st.dictionaries(NAMES, TEXTS, max_size=3)


def configuration(labels: dict[str, str], replicas: int, images: dict[str, str]) -> JSONObject:
    """An apply configuration that does not depend on the object."""
    containers = ", ".join(
        f"Object.spec.template.spec.containers{{name: {json.dumps(name)}, image: {json.dumps(image)}}}"
        for name, image in images.items()
    )
    return applied(
        f"Object{{metadata: Object.metadata{{labels: {json.dumps(labels)}}}, spec: Object.spec{{replicas: {replicas}, "
        "template: Object.spec.template{spec: Object.spec.template.spec{containers: "
        f"[{containers}]}}}}}}}}"
    )


def adding(name: str, value: str) -> JSONObject:
    """A JSON Patch that fails on objects without labels."""
    path = f'"/metadata/labels/" + jsonpatch.escapeKey({json.dumps(name)})'
    return patched(f"[JSONPatch{{op: 'add', path: {path}, value: {json.dumps(value)}}}]")


CONFIGURATIONS = st.builds(configuration, MAPS, st.integers(0, 2), IMAGES)
PATCHES = st.builds(adding, NAMES, TEXTS)


@st.composite
def deployments(draw: st.DrawFn) -> JSONObject:
    """Deployments with labels or without, and with some containers."""
    document = deployment(draw(st.integers(0, 2)))
    if draw(st.booleans()):
        document["metadata"]["labels"] = draw(MAPS)
    containers = [{"name": name, "image": image} for name, image in draw(IMAGES).items()]
    document["spec"]["template"] = {"spec": {"containers": containers}}
    return document


@given(deployments(), st.lists(CONFIGURATIONS, min_size=1, max_size=2))
def test_applying_an_apply_configuration_twice_changes_nothing_more(
    document: JSONObject, mutations: list[JSONObject]
) -> None:
    # If several contradict each other, the last one wins in each round, so the object is the same in the end.
    policies, review = mutating_policies_of(mutating(*mutations), bound()), deployment_review(document)
    once = policies.admit(review)
    twice = policies.admit(review.with_object(once.document))
    assert once.refusal is None
    assert twice.document == once.document
    assert twice.dirty
    assert twice.decisions[0].operations == ()


@given(
    deployments(),
    st.lists(st.lists(CONFIGURATIONS | PATCHES, min_size=1, max_size=2), min_size=1, max_size=3),
)
def test_the_operations_of_all_policies_compose_to_the_mutated_object(
    document: JSONObject, policies: list[list[JSONObject]]
) -> None:
    documents = [mutating(*mutations, name=f"p{place}") for place, mutations in enumerate(policies)]
    bindings = [bound(f"p{place}", name=f"b{place}") for place in range(len(policies))]
    before = copy.deepcopy(document)
    found = mutating_policies_of(*documents, *bindings).admit(deployment_review(document))
    assert document == before
    for decision in found.decisions:
        assert decision.ran
        assert decision.changed is bool(decision.operations)
        before = apply_patch(before, decision.operations)
    assert before == found.document.data
    assert found.dirty or not any(decision.changed for decision in found.decisions)
