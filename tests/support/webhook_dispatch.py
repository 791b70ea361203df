"""Webhooks dispatched as a user has it: a front door over HTTP, the real chain, and webhooks over HTTPS.

Configurations may be used as they are written, without the defaults and checks of files: Kubernetes' own tables of
tests hold some that no API server would take.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pratique.admission.controllers import Controller, Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import Cluster, ObjectStore
from pratique.configuration.admissionregistration import (
    WebhookConfiguration,
    WebhookConfigurationKind,
    decode_webhook_configuration,
)
from pratique.configuration.loading import Configurations
from pratique.hosting.catalogue import configure_controller, load_catalogue
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import Engine, open_clients
from pratique_frontdoor.engines.local import InProcessTransport
from pratique_frontdoor.webhooks.clients import WebhookCredentials, WebhookTransports
from support.front_doors.engines import AllowingEngine
from support.front_doors.running import Answer, Door, open_door
from support.webhook_servers import (
    NAMES,
    Behaviour,
    Received,
    WebhookServer,
    answered,
    authority,
    raw,
    respond,
    serve,
)

SERVICE = ("webhook-test", "default")
"""Name and namespace of the service that the webhooks of Kubernetes' tables are."""


class AssembledEngine:
    """The real chain of given parts."""

    def __init__(
        self, store: ObjectStore, configurations: Configurations, controllers: Sequence[Controller] = ()
    ) -> None:
        hosted = [configure_controller(one, None) for one in controllers]
        hosts = InProcessTransport(MutatorHost(hosted, store), ValidatorHost(hosted, store))
        self.cluster = store
        self._webhooks = WebhookTransports(
            open_clients(store), {phase: WebhookCredentials() for phase in Phase}
        )
        callers = [one for one in load_catalogue() if not one.hosted]
        self._chain = assemble(
            ChainParts(
                controllers=[*controllers, *callers],
                configurations=configurations,
                mutator=hosts,
                validator=hosts,
                reach=self._webhooks.reach,
            )
        )

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        return await self._chain.decide(review, phases, deadline, explain=explain)

    async def unready(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        await self._webhooks.close()


@dataclasses.dataclass
class Relay:
    """One front door for many engines: each decides one review, and is closed."""

    current: Engine = dataclasses.field(default_factory=AllowingEngine)

    @property
    def cluster(self) -> Cluster:
        return self.current.cluster

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        try:
            return await self.current.decide(review, phases, deadline, explain=explain)
        finally:
            await self.current.close()

    async def unready(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        """Every engine has been closed."""


@dataclasses.dataclass(frozen=True)
class DispatchingFrontDoor:
    """A front door, and what decides behind it."""

    door: Door
    relay: Relay

    def ask(self, engine: Engine, target: str, request: JSONObject) -> Answer:
        self.relay.current = engine
        return self.door.post(target, json.dumps(review_of(request)).encode())


@contextlib.contextmanager
def open_front_door() -> Iterator[DispatchingFrontDoor]:
    relay = Relay()
    with open_door(relay) as door:
        yield DispatchingFrontDoor(door, relay)


@dataclasses.dataclass(frozen=True)
class Dispatched:
    """What came of a request."""

    decision: JSON
    """The decision document."""
    received: Sequence[Received]
    """What the webhooks were asked, in order."""
    metrics: str

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.received]

    @property
    def message(self) -> str:
        return str((self.decision["status"] or {}).get("message", ""))


def dispatch(
    front_door: DispatchingFrontDoor,
    request: JSONObject,
    documents: Iterable[JSONObject],
    behaviours: Mapping[str, Behaviour],
    phase: str = "admit",
    *,
    objects: Iterable[JSONObject] = (),
    store: ObjectStore | None = None,
    controllers: Sequence[Controller] = (),
) -> Dispatched:
    """Send a request through webhooks that are configured as ``documents`` say and behave as told, by path.

    ``objects`` are the cluster's. In configurations ``<ca>`` and ``<server>`` are replaced once the server runs.
    """
    certificate = authority().issue(*NAMES, f"{SERVICE[0]}.{SERVICE[1]}.svc")
    with serve(behaviours, certificate=certificate) as server:
        held = store or ObjectStore()
        for each in (*objects, *_service(server)):
            held.put(each)
        engine = AssembledEngine(held, as_written(filled(documents, server)), controllers)
        answer = front_door.ask(engine, f"/explain?phase={phase}", request)
    assert answer.code == 200, answer.text
    return Dispatched(answer.json, server.received, front_door.door.get("/metrics").text)


def as_written(documents: Iterable[JSONObject]) -> Configurations:
    """Configurations below the loader: neither defaulted nor checked."""
    decoded = [decode_webhook_configuration(document) for document in documents]
    found = [
        WebhookConfiguration(WebhookConfigurationKind(one.kind), one.metadata.name, one.webhooks)
        for one in decoded
    ]
    return Configurations(
        tuple(one for one in found if one.kind is WebhookConfigurationKind.MUTATING),
        tuple(one for one in found if one.kind is WebhookConfigurationKind.VALIDATING),
    )


def filled(documents: Iterable[JSONObject], server: WebhookServer) -> list[JSONObject]:
    """Put the server's address and authority in place of ``<server>`` and ``<ca>``."""
    ca_bundle = base64.b64encode(server.ca_bundle).decode()
    text = json.dumps(list(documents))
    text = text.replace("<server>", urlsplit(server.url).netloc).replace("<ca>", ca_bundle)
    found: list[JSONObject] = json.loads(text)
    for document in found:
        for webhook in document["webhooks"]:
            webhook["clientConfig"].setdefault("caBundle", ca_bundle)
    return found


def _service(server: WebhookServer) -> list[JSONObject]:
    name, namespace = SERVICE
    metadata = {"name": name, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 443}]}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata | {"labels": {"kubernetes.io/service-name": name}},
            "endpoints": [{"addresses": ["127.0.0.1"]}],
            "ports": [{"port": server.port}],
        },
    ]


def review_of(request: JSONObject) -> JSONObject:
    """The AdmissionReview of a request as the vectors write them."""
    written = {"uid": "u1", "name": "", "namespace": "", "userInfo": {}} | request
    written["subResource"] = written.pop("subresource", "")
    written.setdefault("kind", {"group": "", "version": "v1", "kind": "Unknown"})
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": written}


def behaviour_of(told: JSONObject) -> Behaviour:
    """What a case of Kubernetes' tables says that a webhook does."""
    if "transport" in told:
        assert "bad-http" in told["transport"]
        return raw(b"bad-http")
    if "httpStatus" in told:
        return respond(told["httpStatus"], told["body"].encode(), content_type=told["contentType"])
    if "response" not in told:
        assert "no response member" in told["review"]
        return answered(lambda received: _answer(received, None))
    response = dict(told["response"])
    if "patchText" in response:
        response["patch"] = base64.b64encode(response.pop("patchText").encode()).decode()
    return answered(lambda received: _answer(received, response))


def _answer(received: Received, response: JSONObject | None) -> JSONObject:
    review = received.review
    answer = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"}
    if response is None:
        return answer
    return answer | {"response": {"uid": review["request"]["uid"], **response}}


def slowly(behaviour: Behaviour, seconds: float) -> Behaviour:
    """Behave like that after a while."""

    async def behave(received: Received, writer: Any) -> None:
        await asyncio.sleep(seconds)
        await behaviour(received, writer)

    return behave
