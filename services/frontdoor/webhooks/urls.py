"""Webhook URLs: where the requests to a webhook go.

Sources: ``hookClientConfig`` in ``k8s.io/apiserver/pkg/util/webhook/client.go``, ``Request.URL`` in
``k8s.io/client-go/rest/request.go``, and Go's ``net/url`` and ``path``.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pratique.apimachinery import statuses
from pratique.apimachinery.durations import GoDuration
from pratique.apimachinery.errors import CallError
from pratique.apimachinery.urls import parse_url
from pratique.https.exchanges import clean_path

if TYPE_CHECKING:
    from pratique.configuration.webhooks import ServiceReference, Webhook

_HTTPS_PORT = 443
_PORT = re.compile(r":[0-9]+$")


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookUrl:
    """Where a webhook is."""

    authority: str
    """``host`` or ``host:port``, as it stands in the URL and in the Host header."""
    target: str
    """``host:port``, by which credentials are chosen."""
    path: str
    """Cleaned and escaped; begins with a slash."""
    is_service: bool = False
    """True where the host is a service of the cluster: ``<name>.<namespace>.svc``."""

    def __str__(self) -> str:
        return f"https://{self.authority}{self.path}"

    def with_timeout(self, seconds: int) -> str:
        """The URL to call, which tells the webhook how long it may take."""
        return f"{self}?timeout={GoDuration.of_seconds(seconds)}"


def webhook_url(webhook: Webhook) -> WebhookUrl:
    """Say where a webhook is.

    Raises:
        CallError: its client configuration names neither a service nor a URL.
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
