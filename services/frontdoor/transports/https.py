"""The HTTPS transport: a Kubernetes webhook, called as kube-apiserver calls it.

Sources: ``k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`` and
``k8s.io/apiserver/pkg/util/webhook/client.go``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import TYPE_CHECKING

from frontdoor.webhooks.answers import read_answer, to_outcome
from frontdoor.webhooks.reviews import build_review
from frontdoor.webhooks.urls import webhook_url
from pratique.admission.controllers import Phase
from pratique.apimachinery.errors import CallError, CallTimeoutError
from pratique.apimachinery.json_reading import LARGE_BYTES
from pratique.https.clients import SessionKey
from pratique.https.exchanges import HttpRequest, response_body, send_with_retries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.webhooks.clients import WebhookCredentials
    from frontdoor.webhooks.reviews import SentReview
    from frontdoor.webhooks.urls import WebhookUrl
    from pratique.admission.calls import Call, Deadline
    from pratique.admission.outcomes import Outcome
    from pratique.admission.reviews import Review
    from pratique.configuration.webhooks import Webhook
    from pratique.https.clients import HttpsClients
    from pratique.https.credentials import Credentials

_HEADERS = (
    ("Accept", "application/json, */*"),
    ("Content-Type", "application/json"),
    ("User-Agent", "kube-apiserver-admission"),
    ("Accept-Encoding", "gzip"),
)
"""What kube-apiserver sends; webhooks may look at it."""

_CLOCK_DIGITS = 6
"""Microseconds: what is below is the rounding of floating point, and must not become another second."""


@dataclasses.dataclass(frozen=True, slots=True)
class _WebhookConnection:
    """How the webhook is reached, once that is known."""

    url: WebhookUrl
    credentials: Credentials
    kind: SessionKey

    @classmethod
    def to(cls, webhook: Webhook, known: WebhookCredentials) -> _WebhookConnection:
        url = webhook_url(webhook)
        credentials = known.for_target(url.target)
        ca_bundles = (credentials.ca_bundle, webhook.client_config.ca_bundle)
        ca_bundle = b"\n".join(bundle for bundle in ca_bundles if bundle)
        return cls(url, credentials, SessionKey(ca_bundle, credentials.certificate, url.is_service))

    def request(self, body: bytes, deadline: Deadline) -> HttpRequest:
        seconds = math.ceil(round(deadline.remaining_seconds, _CLOCK_DIGITS))
        if seconds <= 0:
            raise CallTimeoutError("failed to call webhook: context deadline exceeded")
        credentials = tuple(self.credentials.headers())
        return HttpRequest(self.url.with_timeout(seconds), self.url.authority, body, _HEADERS, credentials)


class HttpsTransport:
    """Asks one webhook. Each call of :meth:`mutate` and :meth:`validate` takes exactly one ``Call``."""

    def __init__(self, webhook: Webhook, clients: HttpsClients, credentials: WebhookCredentials) -> None:
        """Connect to nothing yet: what is wrong with the webhook's client configuration fails its calls."""
        self._webhook = webhook
        self._clients = clients
        self._credentials = credentials
        self._connection: _WebhookConnection | None = None

    @property
    def endpoint(self) -> str:
        """The webhook's URL; empty where its configuration gives none."""
        try:
            return str(webhook_url(self._webhook))
        except CallError:
            return ""

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Call the webhook as a mutating one.

        Raises:
            CallError: no usable answer came; the text is what follows ``failed calling webhook "…": ``.
        """
        return [await self._ask(Phase.MUTATE, review, calls, deadline)]

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Call the webhook as a validating one.

        Raises:
            CallError: no usable answer came; the text is what follows ``failed calling webhook "…": ``.
        """
        return [await self._ask(Phase.VALIDATE, review, calls, deadline)]

    async def close(self) -> None:
        """Let go of connections that no other webhook uses."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._clients.leave(connection.kind)

    async def _ask(self, phase: Phase, review: Review, calls: Sequence[Call], deadline: Deadline) -> Outcome:
        (call,) = calls
        sent = build_review(review, self._webhook.admission_review_versions)
        connection = self._connect()
        body = await self._answered(connection, sent, deadline.sooner(call.timeout_seconds))

        def outcome() -> Outcome:
            return to_outcome(call.name, read_answer(body, sent, phase), review)

        # What a webhook sends must not hold up the reviews of others.
        return outcome() if len(body) <= LARGE_BYTES else await asyncio.to_thread(outcome)

    async def _answered(self, connection: _WebhookConnection, sent: SentReview, deadline: Deadline) -> bytes:
        session = self._clients.session(connection.kind)
        request = connection.request(sent.body, deadline)
        try:
            return response_body(await send_with_retries(session, request, deadline))
        except CallError as error:
            raise type(error)(f"failed to call webhook: {error}", error.code) from None

    def _connect(self) -> _WebhookConnection:
        if self._connection is None:
            connection = _WebhookConnection.to(self._webhook, self._credentials)
            self._clients.join(connection.kind)
            self._connection = connection
        return self._connection
