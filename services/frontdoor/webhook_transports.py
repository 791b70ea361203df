"""Webhook transports: how each configured webhook is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontdoor.transports import Transport
    from frontdoor.webhook_credentials import WebhookCredentials
    from pratique.configurations.webhooks import Webhook
    from pratique.definitions import Phase
    from pratique.https.https_clients import HttpsClients


class WebhookTransports:
    """The transports of one configuration, closed together when another takes its place."""

    def __init__(self, clients: HttpsClients, credentials: Mapping[Phase, WebhookCredentials]) -> None:
        """``clients`` outlive this; ``credentials`` are shown to webhooks that ask for some."""
        self._clients = clients
        self._credentials = credentials
        self._grpc: dict[tuple[str, bytes], Transport] = {}
        self._https: list[Transport] = []

    def reach(self, webhook: Webhook, phase: Phase) -> Transport:
        """Give the way to reach a webhook. Nothing connects before the first call."""
        url = webhook.client_config.url or ""
        if url.startswith(("grpc://", "grpcs://")):
            # Webhooks of one service share a connection.
            key = (url, webhook.client_config.ca_bundle)
            return self._grpc.get(key) or self._grpc.setdefault(key, _grpc_transport(*key))
        return self._https_transport(webhook, phase)

    def _https_transport(self, webhook: Webhook, phase: Phase) -> Transport:
        from frontdoor.transports.https import HttpsTransport  # noqa: PLC0415  # not needed without webhooks

        transport = HttpsTransport(webhook, self._clients, self._credentials[phase])
        self._https.append(transport)
        return transport

    async def close(self) -> None:
        """Let go of all connections that nobody else uses."""
        for transport in (*self._grpc.values(), *self._https):
            await transport.close()


def _grpc_transport(url: str, ca_bundle: bytes) -> Transport:
    import grpc  # noqa: PLC0415  # an eighth of a second that a review without gRPC webhooks need not wait

    from frontdoor.transports.grpc import GrpcTransport  # noqa: PLC0415  # likewise
    from frontdoor.transports.grpc_webhooks import FAILURE_PREFIX, GrpcWebhookTransport  # noqa: PLC0415  # likewise
    from frontdoor.transports.targets import grpc_target  # noqa: PLC0415  # likewise

    parts = urlsplit(url)
    credentials = (
        grpc.ssl_channel_credentials(root_certificates=ca_bundle or None) if parts.scheme == "grpcs" else None
    )
    target = grpc_target([parts.netloc])
    return GrpcWebhookTransport(
        GrpcTransport(
            target,
            endpoint=url,
            credentials=credentials,
            failure_prefix=FAILURE_PREFIX,
            health_checked=False,
        )
    )
