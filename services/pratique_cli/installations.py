"""Reading a live installation of Pratique from an API server: its webhooks, and what serves them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.cluster.api_server import ApiServer, ApiServerError, connect
from pratique.cluster.snapshots import default_kubeconfig
from pratique.cluster.store import ObjectStore
from pratique.configuration.admissionregistration import (
    WebhookConfiguration,
    WebhookConfigurationKind,
    apply_webhook_defaults,
    decode_webhook_configuration,
)
from pratique.configuration.loading import Configurations


class _Listed(NamedTuple):
    """A kind that is listed, and the path of its list."""

    api_version: str
    kind: str
    path: str


_LISTED = (
    _Listed("v1", "Namespace", "/api/v1/namespaces"),
    *(
        _Listed(
            "admissionregistration.k8s.io/v1",
            kind.value,
            f"/apis/admissionregistration.k8s.io/v1/{kind.value.lower()}s",
        )
        for kind in WebhookConfigurationKind
    ),
    _Listed("apps/v1", "Deployment", "/apis/apps/v1/namespaces/{namespace}/deployments"),
    _Listed(
        "policy/v1", "PodDisruptionBudget", "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    ),
    _Listed("v1", "Service", "/api/v1/namespaces/{namespace}/services"),
    _Listed(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
    ),
    _Listed("v1", "ConfigMap", "/api/v1/namespaces/{namespace}/configmaps"),  # the flags of the services
    _Listed("v1", "Pod", "/api/v1/namespaces/{namespace}/pods"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Installation:
    """What an API server knows about the Pratique of one namespace."""

    namespace: str
    configurations: Configurations
    """The webhooks that call a Service of the namespace; those of others are left out."""
    objects: Mapping[str, Sequence[JSONObject]] = dataclasses.field(repr=False)
    """The objects by their kinds; except Namespaces, those of the namespace alone."""

    def cluster(self) -> ObjectStore:
        """The objects as a cluster for lint rules."""
        kinds = ("Namespace", "Service", "Deployment", "ConfigMap")
        return ObjectStore(document for kind in kinds for document in self.objects[kind])


async def read_installation(kubeconfig: Path | None, context: str | None, namespace: str) -> Installation:
    """Read the installation of a namespace. Nothing is written, and no Secret is read.

    Args:
        kubeconfig: The file; None means what kubectl takes: ``KUBECONFIG``, or ``~/.kube/config``.
        context: A context of it; None means the current one.
        namespace: The namespace that Pratique runs in.

    Raises:
        ConfigurationError: the extra ``cluster`` is not installed, the kubeconfig cannot be used, the API server
            cannot be reached or refuses, or there is no such namespace.
    """
    server = await connect(kubeconfig or default_kubeconfig(), context or "")
    try:
        objects = {listed.kind: await _list(server, listed, namespace) for listed in _LISTED}
    finally:
        await server.close()
    if namespace not in {member(found, "metadata", "name") for found in objects["Namespace"]}:
        raise ConfigurationError(
            f"the cluster has no namespace {namespace!r}; name Pratique's by --namespace"
        )
    mutating, validating = (
        tuple(found for document in objects[kind.value] if (found := _calling(document, namespace)).webhooks)
        for kind in (WebhookConfigurationKind.MUTATING, WebhookConfigurationKind.VALIDATING)
    )
    return Installation(namespace, Configurations(mutating=mutating, validating=validating), objects)


async def _list(server: ApiServer, listed: _Listed, namespace: str) -> Sequence[JSONObject]:
    try:
        items, _ = await server.list(listed.path.format(namespace=namespace))
    except ApiServerError as error:
        if not error.code:
            raise ConfigurationError(f"the API server {server.host} cannot be reached: {error}") from None
        problem = f"the API server {server.host} refuses to list {listed.kind} with code {error.code}"
        raise ConfigurationError(f"{problem}; the user of the kubeconfig needs the verb list") from None
    # the items of a list name neither
    return [{**item, "apiVersion": listed.api_version, "kind": listed.kind} for item in items]


def _calling(document: JSONObject, namespace: str) -> WebhookConfiguration:
    """A configuration with those webhooks alone that call a Service of the namespace."""
    try:
        decoded = apply_webhook_defaults(decode_webhook_configuration(document))
    except ValueError as error:
        named = f"{document['kind']} {member(document, 'metadata', 'name')}"
        raise ConfigurationError(f"{named} cannot be read: {error}") from None
    webhooks = tuple(
        webhook
        for webhook in decoded.webhooks
        if webhook.client_config.service is not None and webhook.client_config.service.namespace == namespace
    )
    return WebhookConfiguration(WebhookConfigurationKind(decoded.kind), decoded.metadata.name, webhooks)
