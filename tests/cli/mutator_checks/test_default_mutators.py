"""Pratique's own mutators are idempotent, alone and together, in chain order and in any other."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from pratique.admission.controllers import MUTATE, Phase
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.mutator_checks.cases import MutatorCase
from pratique_cli.mutator_checks.generation import Vocabulary, generate_objects, kinds_for
from pratique_frontdoor.engines.mutator_sets import MutatorSet
from support.mutator_checks import POD, found, prove

EXAMPLES = int(os.environ.get("PRATIQUE_PROOF_EXAMPLES", "25"))
"""Objects of each kind."""
MANY = 10_000
"""The number of objects for long runs."""

DEFAULT = tuple(
    item.name for item in load_catalogue() if item.default and Phase.MUTATE in item.phases and item.trusted
)
FURTHER = ("AlwaysPullImages", "ExtendedResourceToleration", "PodNodeSelector", "PodTolerationRestriction")
ORDERED = tuple(name for name in DEFAULT if not name.startswith("MutatingAdmission"))
"""Those whose order is tried. PodTolerationRestriction has to come after LimitRanger, as it does in Kubernetes: what
LimitRanger sets decides which tolerations a Pod gets."""

CLUSTER: tuple[JSONObject, ...] = (
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "default",
            "annotations": {
                "scheduler.alpha.kubernetes.io/node-selector": "disk=fast",
                "scheduler.alpha.kubernetes.io/defaultTolerations": '[{"key": "a", "operator": "Exists"}]',
            },
        },
    },
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "default"},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "4", "memory": "8Gi"},
                    "defaultRequest": {"cpu": "1m"},
                }
            ]
        },
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "fast",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "example.com/disk",
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "usual"},
        "value": 5,
        "globalDefault": True,
    },
    {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {
            "name": "public",
            "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
        },
        "spec": {"controller": "example.com/ingress"},
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "sandbox"},
        "handler": "sandbox",
        "overhead": {"podFixed": {"cpu": "10m"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "north"}},
    },
)
SANDBOXED: JSONObject = {**POD, "spec": {**POD["spec"], "nodeName": "n1", "runtimeClassName": "sandbox"}}
"""A Pod that refers to other objects, which generated ones do not."""
WORDS = Vocabulary(frozenset({"tolerations", "requests"}), ("disk", "fast", "example.com/gpu"))


@pytest.mark.parametrize(
    "controllers", [pytest.param(DEFAULT, id="default"), pytest.param((*DEFAULT, *FURTHER), id="more")]
)
def test_default_mutators_are_idempotent(controllers: tuple[str, ...]) -> None:
    report = prove(None, controllers=controllers, given=(SANDBOXED,), cluster=CLUSTER, examples=EXAMPLES)
    assert (found(report), report.error) == ([], "")
    idle = {mutator.name for mutator in report.mutators if not report.acted[mutator]}
    # PodGroupProtection does nothing until its feature gate is on.
    assert idle <= {"NamespaceLifecycle", "ExtendedResourceToleration", "PodGroupProtection"}


def prove_in_any_order(examples: int) -> int:
    """Run the mutators in sampled orders on their own results; return the number of objects."""
    store = ObjectStore(CLUSTER, assume_namespaces=True)
    chance = random.Random(0)
    tried = 0

    async def open_set() -> MutatorSet:
        return MutatorSet(ChainSettings(admission_control=ORDERED), store)

    with asyncio.Runner() as loop:
        mutators = loop.run(open_set())
        pod = next(item for item in kinds_for(mutators.mutators, store, ()) if item.kind.kind == "Pod")

        def visit(document: JSONObject) -> None:
            nonlocal tried
            loop.run(check(document))
            tried += 1

        async def check(document: JSONObject) -> None:
            review = MutatorCase(document, store).review()
            for order in (mutators.mutators, chance.sample(mutators.mutators, len(mutators.mutators))):
                once = await mutators.decide(review, MUTATE, Deadline.after(30), order)
                assert once.allowed, once.status
                again = review.with_object(once.object_document)
                twice = await mutators.decide(again, MUTATE, Deadline.after(30), order)
                assert (twice.allowed, twice.patch) == (True, ()), [str(item) for item in order]

        generate_objects(pod, WORDS, seed=0, examples=examples, visit=visit)
        loop.run(mutators.close())
    return tried


def test_default_mutators_are_idempotent_in_any_order() -> None:
    assert prove_in_any_order(100) == 100


@pytest.mark.long
def test_default_mutators_are_idempotent_in_any_order_for_ten_thousand_objects() -> None:
    assert prove_in_any_order(MANY) == MANY


@pytest.mark.long
def test_default_mutators_are_idempotent_for_ten_thousand_objects() -> None:
    report = prove(None, controllers=(*DEFAULT, *FURTHER), given=(), cluster=CLUSTER, examples=MANY // 7 + 1)
    assert (found(report), report.error) == ([], "")
    assert report.tried >= MANY  # of seven kinds or more
