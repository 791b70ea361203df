"""Backends: the servers behind webhooks, as far as they run in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pratique.configurations.urls import parse_url

if TYPE_CHECKING:
    from pratique.configurations.webhooks import ClientConfig

_DOMAINS = (["svc"], ["svc", "cluster", "local"])
"""What follows name and namespace in the host of a Service, in its short and its full form."""


class Backend(NamedTuple):
    """A Service of the cluster. Webhooks of several configurations may share one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Service {self.namespace}/{self.name}"


def backend_of(config: ClientConfig) -> Backend | None:
    """The Service that a webhook is called at, by reference or by URL; None where it is elsewhere."""
    if config.service is not None:
        return Backend(config.service.namespace, config.service.name)
    name, *rest = server_name(config).rstrip(".").split(".")
    return Backend(rest[0], name) if rest and rest[1:] in _DOMAINS else None


def server_name(config: ClientConfig) -> str:
    """The DNS name that the certificate of a webhook's server has to bear; empty where there is none."""
    if config.service is not None:
        return f"{config.service.name}.{config.service.namespace}.svc"
    return parse_url(config.url).host.partition(":")[0] if config.url else ""
