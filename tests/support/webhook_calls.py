"""Calling a webhook as the front door does, for tests: one call, on an event loop of its own."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import CallError
from pratique.configuration.admissionregistration import ClientConfig, ServiceReference, Webhook
from pratique.https.clients import HttpsClients
from pratique.https.service_resolvers import ServiceResolver, resolve_by_dns
from pratique_frontdoor.webhooks.clients import WebhookCredentials
from pratique_frontdoor.webhooks.transports import HttpsTransport
from support.webhook_servers import authority

NAME = "test.example.com"
"""The name of every webhook here."""


def webhook_at(url: str, *, ca_bundle: bytes | None = None, versions: tuple[str, ...] = ("v1",)) -> Webhook:
    """A webhook at a URL; without a bundle it trusts the authority of the test servers."""
    trusted = authority().pem if ca_bundle is None else ca_bundle
    return Webhook(
        name=NAME,
        client_config=ClientConfig(url=url, ca_bundle=trusted),
        admission_review_versions=versions,
    )


def webhook_of_service(service: ServiceReference) -> Webhook:
    """A webhook that is a service of the cluster."""
    return Webhook(
        name=NAME,
        client_config=ClientConfig(service=service, ca_bundle=authority().pem),
        admission_review_versions=("v1",),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Caller:
    """Calls webhooks, each time with connections of its own."""

    review: Review
    phase: Phase = Phase.MUTATE
    timeout_seconds: float | None = 5.0
    deadline_seconds: float = 30.0
    credentials: WebhookCredentials = dataclasses.field(
        default_factory=lambda: WebhookCredentials(environment={})
    )
    resolve: ServiceResolver = resolve_by_dns

    def ask(self, webhook: Webhook, *, times: int = 1) -> Outcome:
        """Call a webhook and give its last answer."""
        return asyncio.run(self._ask(webhook, times))

    def failure(self, webhook: Webhook) -> str:
        """Call a webhook that cannot be called, and give the reason."""
        return str(self.error(webhook))

    def error(self, webhook: Webhook) -> CallError:
        """Call a webhook that cannot be called."""
        with pytest.raises(CallError) as raised:
            self.ask(webhook)
        return raised.value

    async def _ask(self, webhook: Webhook, times: int) -> Outcome:
        transport = HttpsTransport(webhook, HttpsClients(self.resolve), self.credentials)
        send = transport.mutate if self.phase is Phase.MUTATE else transport.validate
        try:
            for _ in range(times):
                (outcome,) = await send(
                    self.review,
                    [Call(webhook.name, self.timeout_seconds)],
                    Deadline.after(self.deadline_seconds),
                )
            return outcome
        finally:
            await transport.close()
