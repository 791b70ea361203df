"""What webhooks cost that do not match.

A review of a Pod meets lists of 10 to 1,000 validating webhooks of which three match. The others are kept out in three
ways: by their rules, by their ``objectSelector``, or by their ``namespaceSelector``. The webhooks that match answer at
once in this process, so that the figures are the front door's own.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

from measures import Section

from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED, Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.admission.rules import rule
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.selectors import EVERYTHING, LabelSelector
from pratique.cluster.store import ObjectStore
from pratique.configuration.admissionregistration import (
    Webhook,
    WebhookConfiguration,
    WebhookConfigurationKind,
)
from pratique.configuration.loading import Configurations
from pratique.hosting.catalogue import load_catalogue
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Chain

MATCHING = 3
SIZES = (10, 100, 1000)
ROUNDS = 300
PODS, OTHERS = rule("pods"), rule("configmaps", "secrets", "services")


class AtOnce:
    """A webhook in this process that lets everything through."""

    endpoint = "in-process"

    async def mutate(self, _review: Review, calls: Sequence[Call], _deadline: Deadline) -> list[Outcome]:
        """Let all calls through."""
        return [Outcome(controller=call.name, decision=ALLOWED) for call in calls]

    validate = mutate

    async def close(self) -> None:
        """Nothing is open."""


def webhook(name: str, kept_out_by: str) -> Webhook:
    """A webhook that does not match because of one part of it; or matches, where that is no part."""
    nobody = LabelSelector({"app": name})
    return Webhook(
        name=name,
        rules=(OTHERS if kept_out_by == "rules" else PODS,),
        match_policy="Equivalent",
        failure_policy="Fail",
        side_effects="None",
        timeout_seconds=10,
        namespace_selector=nobody if kept_out_by == "namespaceSelector" else EVERYTHING,
        object_selector=nobody if kept_out_by == "objectSelector" else EVERYTHING,
    )


def chain_of(count: int, kept_out_by: str) -> Chain:
    """A chain of ``count`` webhooks, of which three match, spread over the list."""
    matching = {count * place // MATCHING for place in range(MATCHING)}
    webhooks = tuple(
        webhook(f"w{number}.example.com", "" if number in matching else kept_out_by)
        for number in range(count)
    )
    configuration = WebhookConfiguration(WebhookConfigurationKind.VALIDATING, "bench", webhooks)
    transport = AtOnce()
    return assemble(
        ChainParts(
            controllers=[one for one in load_catalogue() if not one.hosted],
            configurations=Configurations(validating=(configuration,)),
            mutator=transport,
            validator=transport,
            reach=lambda _webhook, _phase: transport,
        )
    )


def review_of_pod() -> Review:
    """The CREATE of a small Pod, its object not parsed yet, as it comes in over HTTP."""
    pod = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}}}'
    return Review(
        uid="u",
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name="web",
        namespace="shop",
        object_document=Document.from_raw(pod),
        cluster=CLUSTER,
    )


CLUSTER = ObjectStore(assume_namespaces=True)


async def median_seconds(chain: Chain) -> float:
    """The median time of a decision, calls included."""
    phases, times = frozenset({Phase.VALIDATE}), []
    for number in range(ROUNDS + 20):
        review = review_of_pod()
        begun = time.perf_counter()
        decision = await chain.decide(review, phases, Deadline.after(10))
        if number >= 20:  # the first ones warm up
            times.append(time.perf_counter() - begun)
        if len(decision.steps) != MATCHING or not decision.allowed:
            raise RuntimeError(f"{len(decision.steps)} webhooks were called")
    return statistics.median(times)


def measure_matching() -> Section:
    """The median of each size, by what keeps the others out."""
    return {
        f"others kept out by {kept_out_by}": {
            f"{size} webhooks": {"p50": asyncio.run(median_seconds(chain_of(size, kept_out_by)))}
            for size in SIZES
        }
        for kept_out_by in ("rules", "objectSelector", "namespaceSelector")
    }
