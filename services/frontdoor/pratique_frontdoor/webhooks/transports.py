"""Transports that call one webhook: over HTTPS as kube-apiserver does, or over gRPC.

Sources: ``k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go``, ``hookClientConfig`` in
``k8s.io/apiserver/pkg/util/webhook/client.go``, ``Request.URL`` in ``k8s.io/client-go/rest/request.go``, and Go's
``net/url`` and ``path``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import Denied, Failed, Outcome, OutcomeDecision
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.durations import GoDuration
from pratique.apimachinery.errors import CallError, CallTimeoutError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.urls import parse_url
from pratique.configuration.admissionregistration import ServiceReference, Webhook
from pratique.https.clients import HttpsClients, SessionKey
from pratique.https.credentials import Credentials
from pratique.https.requests import HttpRequest, clean_path, response_body, send_with_retries
from pratique.processes.review_threads import estimate_values, work_on_review
from pratique_frontdoor.webhooks.answers import StatusDocument, denial, read_answer, to_outcome
from pratique_frontdoor.webhooks.clients import WebhookCredentials
from pratique_frontdoor.webhooks.reviews import SentReview, build_review

if TYPE_CHECKING:
    from pratique_frontdoor.transports.grpc import GrpcTransport


_HTTPS_PORT = 443
_PORT = pattern(r":[0-9]+$")


class WebhookUrl(msgspec.Struct, frozen=True):
    """The URL of a webhook."""

    authority: str
    """``host`` or ``host:port``, as in the URL and in the Host header."""
    target: str
    """``host:port``, by which credentials are chosen."""
    path: str
    """The path, cleaned and escaped; it starts with a slash."""
    is_service: bool = False
    """Whether the host is a service of the cluster: ``<name>.<namespace>.svc``."""

    def __str__(self) -> str:
        return f"https://{self.authority}{self.path}"

    def with_timeout(self, seconds: int) -> str:
        """Return the URL to call, with the timeout of the call."""
        return f"{self}?timeout={GoDuration.of_seconds(seconds)}"


def webhook_url(webhook: Webhook) -> WebhookUrl:
    """Return the URL of a webhook.

    Raises:
        CallError: its client configuration has neither a service nor a URL.
    """
    config = webhook.client_config
    if config.service is not None:
        return _service_url(config.service)
    if not config.url:
        raise CallError(
            f"could not get REST client: failed calling webhook {statuses.go_quoted(webhook.name)}: "
            "webhook configuration must have either service or URL",
            code=500,
        )
    url = parse_url(config.url)
    authority = url.host if url.host.isascii() else url.host.encode("idna").decode()
    target = authority if _PORT.search(authority) else f"{authority}:{_HTTPS_PORT}"
    return WebhookUrl(authority, target, clean_path(unquote(url.path)))


def _service_url(service: ServiceReference) -> WebhookUrl:
    authority = f"{service.name}.{service.namespace}.svc:{service.port or _HTTPS_PORT}"
    return WebhookUrl(authority, authority, clean_path(service.path or ""), is_service=True)


_HEADERS = (
    ("Accept", "application/json, */*"),
    ("Content-Type", "application/json"),
    ("User-Agent", "kube-apiserver-admission"),
    ("Accept-Encoding", "gzip"),
)
"""The headers of kube-apiserver; webhooks may check them."""

_CLOCK_DIGITS = 6
"""Digits of microseconds: smaller differences are floating-point rounding, and must not add a second."""


class _WebhookConnection(msgspec.Struct, frozen=True):
    """The webhook's URL, credentials and kind of HTTPS client."""

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
    """Calls one webhook. :meth:`mutate` and :meth:`validate` take exactly one ``Call`` each."""

    def __init__(self, webhook: Webhook, clients: HttpsClients, credentials: WebhookCredentials) -> None:
        """Do not connect yet: an invalid client configuration fails the calls."""
        self._webhook = webhook
        self._clients = clients
        self._credentials = credentials
        self._connection: _WebhookConnection | None = None

    @property
    def endpoint(self) -> str:
        """The webhook's URL; empty if its configuration has none."""
        try:
            return str(webhook_url(self._webhook))
        except CallError:
            return ""

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Call the webhook as a mutating one.

        Raises:
            CallError: there is no usable answer; the message is what follows ``failed calling webhook "…": ``.
        """
        return [await self._ask(Phase.MUTATE, review, calls, deadline)]

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Call the webhook as a validating one.

        Raises:
            CallError: there is no usable answer; the message is what follows ``failed calling webhook "…": ``.
        """
        return [await self._ask(Phase.VALIDATE, review, calls, deadline)]

    async def close(self) -> None:
        """Close connections that no other webhook uses."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._clients.release(connection.kind)

    async def _ask(self, phase: Phase, review: Review, calls: Sequence[Call], deadline: Deadline) -> Outcome:
        (call,) = calls
        sent = build_review(review, self._webhook.admission_review_versions)
        connection = self._connect()
        body = await self._answered(connection, sent, deadline.sooner(call.timeout_seconds))

        def outcome() -> Outcome:
            return to_outcome(call.name, read_answer(body, sent, phase), review)

        return await work_on_review(estimate_values(body), outcome)

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
            self._clients.acquire(connection.kind)
            self._connection = connection
        return self._connection


FAILURE_PREFIX = "failed to call webhook: "
"""How the API server starts the reason of a failed call."""


class GrpcWebhookTransport(msgspec.Struct, frozen=True):
    """Calls through another transport, and words denials and failures as those of a webhook."""

    through: GrpcTransport

    @property
    def endpoint(self) -> str:
        """Where it calls."""
        return self.through.endpoint

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Call one mutating webhook."""
        return [
            _as_webhook_outcome(outcome) for outcome in await self.through.mutate(review, calls, deadline)
        ]

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Call one validating webhook."""
        return [
            _as_webhook_outcome(outcome) for outcome in await self.through.validate(review, calls, deadline)
        ]

    async def close(self) -> None:
        """Close the connection."""
        await self.through.close()


def _as_webhook_outcome(outcome: Outcome) -> Outcome:
    return msgspec.structs.replace(
        outcome, decision=_as_webhook_decision(outcome.controller, outcome.decision)
    )


def _as_webhook_decision(webhook: str, decision: OutcomeDecision) -> OutcomeDecision:
    match decision:
        case Denied(status):
            given = StatusDocument(message=status.message, reason=status.reason, code=status.code)
            return Denied(msgspec.structs.replace(denial(webhook, given), details=status.details))
        case Failed(kind, message):
            return Failed(kind, FAILURE_PREFIX + message)
        case _:
            return decision
