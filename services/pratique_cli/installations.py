"""Reading a live installation of Pratique from an API server: its webhooks, and what serves them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import JSONObject, decode, list_at, member
from pratique.cluster.snapshots import default_kubeconfig
from pratique.cluster.store import ObjectStore
from pratique.configuration.admissionregistration import (
    WebhookConfiguration,
    WebhookConfigurationKind,
    apply_webhook_defaults,
    decode_webhook_configuration,
)
from pratique.configuration.loading import Configurations

if TYPE_CHECKING:
    import aiohttp
    from kubernetes_asyncio.client import ApiClient

REQUEST_SECONDS = 15
MAX_LIST_BYTES = 64 << 20
_OK = 200


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
    async with await _client(kubeconfig, context) as client:
        objects = {listed.kind: await _list(client, listed, namespace) for listed in _LISTED}
    if namespace not in {member(found, "metadata", "name") for found in objects["Namespace"]}:
        raise ConfigurationError(
            f"the cluster has no namespace {namespace!r}; name Pratique's by --namespace"
        )
    mutating, validating = (
        tuple(found for document in objects[kind.value] if (found := _calling(document, namespace)).webhooks)
        for kind in (WebhookConfigurationKind.MUTATING, WebhookConfigurationKind.VALIDATING)
    )
    return Installation(namespace, Configurations(mutating=mutating, validating=validating), objects)


async def _client(kubeconfig: Path | None, context: str | None) -> ApiClient:
    try:
        from kubernetes_asyncio import config  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name != "kubernetes_asyncio":
            raise
        problem = (
            "a live cluster needs kubernetes-asyncio, which is not installed: pip install 'pratique[cluster]'"
        )
        raise ConfigurationError(problem) from None
    file = str(kubeconfig or default_kubeconfig())
    try:
        return await config.new_client_from_config(file, context, persist_config=False)
    except config.ConfigException as error:
        raise ConfigurationError(f"{file}: {error}") from None
    except Exception as error:  # noqa: BLE001 - whatever a malformed file causes; its text may hold credentials
        problem = f"{file}: is not a usable kubeconfig ({type(error).__name__})"
        raise ConfigurationError(problem) from None


async def _list(client: ApiClient, listed: _Listed, namespace: str) -> Sequence[JSONObject]:
    import aiohttp  # noqa: PLC0415 - only with a live cluster

    host = client.configuration.host
    try:
        answer: Any = await client.call_api(
            listed.path.format(namespace=namespace),
            "GET",
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=REQUEST_SECONDS,
        )
        raw = await _bounded(answer)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {REQUEST_SECONDS} s"
        raise ConfigurationError(f"the API server {host} cannot be reached: {reason}") from None
    if answer.status != _OK:
        problem = f"the API server {host} refuses to list {listed.kind} with code {answer.status}"
        raise ConfigurationError(f"{problem}; the user of the kubeconfig needs the verb list")
    try:
        items = list_at(decode(raw), "items")
    except (InputError, ValueError):
        problem = f"the API server {host} does not answer with a list of {listed.kind}"
        raise ConfigurationError(problem) from None
    # the items of a list name neither
    return [{**item, "apiVersion": listed.api_version, "kind": listed.kind} for item in items]


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for chunk in answer.content.iter_any():
        raw += chunk
        if len(raw) > MAX_LIST_BYTES:
            raise OSError(f"its answer is longer than {MAX_LIST_BYTES} bytes")
    return bytes(raw)


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
