"""Chains of given parts, run in process: controllers as callables, webhooks as configurations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from pratique.admission.controllers import BOTH, Controller, Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import Configurations
from pratique.hosting.catalogue import configure_controller, load_catalogue
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique.https.clients import HttpsClients
from pratique.processes.review_threads import estimate_values
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.local import InProcessTransport
from pratique_frontdoor.transports import Transport
from pratique_frontdoor.webhooks.clients import WebhookCredentials, WebhookTransports

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}


def pod_review(pod: Any = None, **changes: Any) -> Review:
    """The CREATE of a Pod."""
    review = Review(
        uid="u1",
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name="web",
        namespace="shop",
        object_document=Document.from_data(json.loads(json.dumps(POD if pod is None else pod))),
        cluster=ObjectStore(assume_namespaces=True),
    )
    review = msgspec.structs.replace(review, **changes)
    received = [document.unchecked_raw for document in review.documents if document.received_bytes]
    # As a service counts what it receives; what tests make of data was not received.
    values = estimate_values(*received) if received else review.received_values
    return msgspec.structs.replace(review, received_values=values)


def webhook_controllers() -> list[Controller]:
    """The members of the catalogue that call webhooks."""
    return [one for one in load_catalogue() if not one.hosted]


async def decided(
    review: Review,
    controllers: Sequence[Controller] = (),
    configurations: Configurations | None = None,
    *,
    phases: frozenset[Phase] = BOTH,
    seconds: float = 10.0,
    explain: bool = False,
    first_denial_only: bool = False,
    host: Transport | None = None,
) -> Decision:
    """Run a review through a chain of these parts; ``host`` stands in for the in-process hosts."""
    hosted = [configure_controller(one, None) for one in controllers]
    transport = host or InProcessTransport(
        MutatorHost(hosted, review.cluster), ValidatorHost(hosted, review.cluster)
    )
    webhooks = WebhookTransports(HttpsClients(), {phase: WebhookCredentials() for phase in Phase})
    parts = ChainParts(
        controllers=controllers,
        configurations=configurations or Configurations(),
        mutator=transport,
        validator=transport,
        reach=webhooks.reach,
        first_denial_only=first_denial_only,
    )
    try:
        return await assemble(parts).decide(review, phases, Deadline.after(seconds), explain=explain)
    finally:
        await webhooks.close()


def decide(*arguments: Any, **options: Any) -> Decision:
    """``decided`` for tests that have no loop of their own."""
    return asyncio.run(decided(*arguments, **options))
