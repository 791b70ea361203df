"""What the mutating halves cost in the mutator, beyond the call itself.

A Pod of four containers goes through all of them in one call, in a namespace whose objects give most of them something
to do.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import time

import msgspec
from measures import Section

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Call, Review
from pratique.admission.rules import compile_rules
from pratique.apimachinery.json_values import Document, encode
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.hosting.catalogue import configure_controller, load_catalogue
from pratique.hosting.running import MutatorHost

ROUNDS = 1000
LIMITS = {"cpu": "500m", "memory": "128Mi"}
CLUSTER = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}},
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "shop"},
        "spec": {"limits": [{"type": "Container", "default": LIMITS, "defaultRequest": LIMITS}]},
    },
)
REFUSING = ("AlwaysDeny", "Initializers", "PodSecurityPolicy")
"""Left out: what ends the call, which is what the last does without a policy, and what hides a new object."""


def pod() -> bytes:
    """A Pod of four containers, as JSON."""
    containers = [
        {
            "name": f"c{number}",
            "image": f"registry.example/c{number}:1.0",
            "env": [{"name": "A", "value": "b"}],
        }
        for number in range(4)
    ]
    metadata = {"name": "web", "namespace": "shop", "labels": {"app": "web"}}
    return encode(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
    )


def measure_mutators() -> Section:
    """All that want a Pod, in one call."""
    logging.disable(logging.WARNING)  # InitialResources has no history here, and says so of each Pod
    try:
        return asyncio.run(_measure())
    finally:
        logging.disable(logging.NOTSET)


async def _measure() -> Section:
    store = ObjectStore(CLUSTER)
    review = Review(
        uid="u",
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name="web",
        namespace="shop",
        cluster=store,
    )
    mutating = [
        one
        for one in load_catalogue()
        if one.hosted and Phase.MUTATE in one.phases and one.name not in REFUSING
        if compile_rules(one.rules).matches(review)
    ]
    host = MutatorHost([configure_controller(one, None) for one in mutating], store)
    calls, raw, times = [Call(one.name) for one in mutating], pod(), []
    for _ in range(ROUNDS):
        seen = msgspec.structs.replace(review, object_document=Document.from_raw(raw))
        begun = time.perf_counter()
        outcomes = await host.mutate(seen, calls)
        times.append(time.perf_counter() - begun)
        assert len(outcomes) == len(calls)
    figures = {"p50": statistics.median(times), "controllers": len(calls)}
    return {"all mutating controllers, on a Pod of four containers": {"whole": figures}}
