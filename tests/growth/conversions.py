"""What a conversion webhook answers, large in one place."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import TypeAlias

from growth.measuring import Clock, Work, fresh_number
from pratique.apimachinery.errors import ConversionError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.conversion import PendingConversionError
from pratique.https.clients import HttpsClients
from pratique.https.conversion_webhooks import HttpsConversionWebhooks
from support.webhook_servers import Received, WebhookServer, answered, serve

Change: TypeAlias = Callable[[int], JSONObject]


def _names(size: int, name: str) -> dict[str, JSON]:
    number = fresh_number()
    return {f"{name}{number + index}": "b" for index in range(size // 16)}


_METADATA: JSONObject = {"name": "first", "namespace": "shop"}
CHANGES: Mapping[str, Change] = {
    "labels": lambda size: {"metadata": {**_METADATA, "labels": _names(size, "example.com/a")}},
    "bad labels": lambda size: {"metadata": {**_METADATA, "labels": _names(size, "a b")}},
    "bad annotations": lambda size: {"metadata": {**_METADATA, "annotations": _names(size, "a b")}},
    "a list": lambda size: {"spec": [{"a": index} for index in range(size // 16)]},
    "a map": lambda size: {"spec": _names(size, "a")},
}


def conversion_work(what: str) -> Work:
    """Work on an answer of a conversion webhook, which is asked over HTTPS."""

    def work(size: int, clock: Clock) -> None:
        with serve(answered(_answer(what, size))) as server, clock(f"conversion webhook: {what}"):
            asyncio.run(_convert(server))

    return work


def _answer(what: str, size: int) -> Callable[[Received], JSON]:
    change = CHANGES[what](size)

    def answer(received: Received) -> JSON:
        review = received.review
        request = review["request"]
        (item,) = request["objects"]
        converted = {**item, "apiVersion": request["desiredAPIVersion"], **change}
        response = {"uid": request["uid"], "convertedObjects": [converted], "result": {"status": "Success"}}
        return {**review, "response": response}

    return answer


def error_of(what: str, size: int) -> str:
    """What is said of an answer of about ``size`` bytes that cannot be used; empty if it can."""
    with serve(answered(_answer(what, size))) as server:
        return asyncio.run(_convert(server))


async def _convert(server: WebhookServer) -> str:
    client = {"url": server.url, "caBundle": base64.b64encode(server.ca_bundle).decode()}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    definition: JSONObject = {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}
    order = {"apiVersion": "example.com/v1", "kind": "Order", "metadata": _METADATA, "spec": {}}
    before = GroupVersionKind("example.com", "v1", "Order")
    webhooks = HttpsConversionWebhooks(HttpsClients())
    try:
        pending = PendingConversionError(Document.from_data(order), before, "example.com/v2", definition)
        await webhooks.convert(pending, None)
    except ConversionError as error:
        return str(error)
    else:
        return ""
    finally:
        await webhooks.close()
