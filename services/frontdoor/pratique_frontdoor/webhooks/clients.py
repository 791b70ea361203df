"""Transports and credentials of configured webhooks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pratique.admission.controllers import Phase
from pratique.configuration.admissionregistration import Webhook
from pratique.https.clients import HttpsClients, require_http_library
from pratique.https.credentials import ANONYMOUS, Credentials, TokenFile, user_credentials
from pratique.https.kubeconfigs import Kubeconfig
from pratique_frontdoor.transports import Transport

_HTTPS_PORT = ":443"
_API_SERVER = "kubernetes.default.svc:443"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a Pod finds its own credentials."""


class WebhookCredentials:
    """The credentials for every webhook, by host and port. Those of each user are created once."""

    def __init__(
        self,
        kubeconfig: Kubeconfig | None = None,
        *,
        service_account: Path = _SERVICE_ACCOUNT,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Without a kubeconfig the caller is anonymous, except to the API server of its own cluster."""
        self._kubeconfig = kubeconfig or Kubeconfig()
        self._service_account = service_account
        self._environment = environment
        self._ready: dict[str | None, Credentials] = {}

    def for_target(self, target: str) -> Credentials:
        """Return the credentials for ``host:port``; the host of a service is ``<name>.<namespace>.svc``.

        Raises:
            CallError: they are of an unsupported kind; the message starts with ``could not get REST client``.
        """
        name = user_name(self._kubeconfig, target, in_cluster=self._in_cluster)
        if name not in self._ready:
            self._ready[name] = self._make(name)
        return self._ready[name]

    @property
    def _in_cluster(self) -> bool:
        known = all(self._environment.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
        return known and (self._service_account / "token").is_file()

    def _make(self, name: str | None) -> Credentials:
        if name is None:
            return ANONYMOUS
        if name == _IN_CLUSTER:
            ca_file = self._service_account / "ca.crt"
            return Credentials(
                token_file=TokenFile(str(self._service_account / "token")),
                ca_bundle=ca_file.read_bytes() if ca_file.is_file() else b"",
            )
        return user_credentials(name, self._kubeconfig.users[name])


_IN_CLUSTER = "\0in-cluster"
"""Stands for the Pod's own credentials; no kubeconfig can have a user of that name."""


def user_name(kubeconfig: Kubeconfig, target: str, *, in_cluster: bool = False) -> str | None:
    """Choose the user for ``host:port``: its name in the kubeconfig, or None for an anonymous caller.

    The exact name comes first, then ``*.`` with a suffix of it, the longest first; on port 443 both again without the
    port; then ``*``; then the user of the current context. Source: ``clientConfig`` in
    ``k8s.io/apiserver/pkg/util/webhook/authentication.go``.
    """
    users = kubeconfig.users
    candidates = [
        *_name_patterns(target),
        *(_name_patterns(target.removesuffix(_HTTPS_PORT)) if target.endswith(_HTTPS_PORT) else ()),
    ]
    found = next((name for name in candidates if name in users), None)
    if found is not None:
        return found
    if in_cluster and target == _API_SERVER:
        return _IN_CLUSTER
    if "*" in users:
        return "*"
    context = kubeconfig.contexts.get(kubeconfig.current_context)
    return context.user if context is not None and context.user in users else None


def _name_patterns(target: str) -> Iterable[str]:
    yield target
    labels = target.split(".")
    for start in range(1, len(labels)):
        yield "*." + ".".join(labels[start:])


class WebhookTransports:
    """The transports of one configuration, closed together when another replaces it."""

    def __init__(self, clients: HttpsClients, credentials: Mapping[Phase, WebhookCredentials]) -> None:
        """``clients`` outlive this object; ``credentials`` are for webhooks that need some."""
        self._clients = clients
        self._credentials = credentials
        self._grpc: dict[tuple[str, bytes], Transport] = {}
        self._https: list[Transport] = []

    def reach(self, webhook: Webhook, phase: Phase) -> Transport:
        """Return the transport to a webhook. It connects on the first call."""
        url = webhook.client_config.url or ""
        if url.startswith(("grpc://", "grpcs://")):
            # Webhooks of one service share a connection.
            key = (url, webhook.client_config.ca_bundle)
            return self._grpc.get(key) or self._grpc.setdefault(key, _grpc_transport(*key))
        return self._https_transport(webhook, phase)

    def _https_transport(self, webhook: Webhook, phase: Phase) -> Transport:
        from pratique_frontdoor.webhooks.transports import HttpsTransport  # noqa: PLC0415  # only with webhooks

        require_http_library()
        transport = HttpsTransport(webhook, self._clients, self._credentials[phase])
        self._https.append(transport)
        return transport

    async def close(self) -> None:
        """Close all connections that nothing else uses."""
        for transport in (*self._grpc.values(), *self._https):
            await transport.close()


def _grpc_transport(url: str, ca_bundle: bytes) -> Transport:
    import grpc  # noqa: PLC0415  # takes an eighth of a second, only for gRPC webhooks

    from pratique_frontdoor.transports.channels import grpc_target  # noqa: PLC0415  # only for gRPC webhooks
    from pratique_frontdoor.transports.grpc import GrpcTransport  # noqa: PLC0415  # only for gRPC webhooks
    from pratique_frontdoor.webhooks.transports import FAILURE_PREFIX, GrpcWebhookTransport  # noqa: PLC0415  # only for gRPC webhooks

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
