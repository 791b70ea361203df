"""What a chain needs of a live cluster, read once: the objects that it looks up, and the policies and webhooks.

The services follow a cluster (:mod:`pratique.cluster.live`); a review offline and a file for later need it once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import JSONObject, encode, member
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists
from pratique.cluster.api_collections import (
    At,
    accepted_for,
    collection_path,
    resources_named,
    types_of,
    without_managed_fields,
)
from pratique.cluster.api_resources import CRD_GROUP, CRD_RESOURCE
from pratique.cluster.api_server import ApiServer, ApiServerError, connect
from pratique.cluster.store import ObjectStore

_POLICY_GROUP = "admissionregistration.k8s.io"
_POLICY_RESOURCES = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)
_NOT_FOUND, _EXPIRED = 404, 410
_ATTEMPTS = 3
"""How often a list is begun again because the cluster changed too much between two of its pages."""


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a cluster, as far as a chain needs it."""

    objects: tuple[JSONObject, ...]
    """What controllers look up, the parameters of policies, and CustomResourceDefinitions."""
    configurations: tuple[JSONObject, ...]
    """Policies, their bindings, and webhook configurations."""


def read_snapshot(kubeconfig: Path | None, context: str, looked_up: Iterable[str]) -> Snapshot:
    """Read a snapshot of a kubeconfig's cluster; None means the kubeconfig that kubectl takes.

    Args:
        kubeconfig: The file.
        context: One of its contexts; empty for the current one.
        looked_up: The names of the resources that the controllers look up.

    Raises:
        ConfigurationError: the kubeconfig cannot be used, the API server does not answer, or does not list
            a resource.
    """
    return asyncio.run(_read(kubeconfig or default_kubeconfig(), context, looked_up))


def as_documents(objects: Iterable[JSONObject]) -> Iterator[SourceDocument]:
    """Yield objects as documents of a file named ``the live cluster``, for what loads files."""
    text = encode({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    return unwrap_lists(read_text(text, "the live cluster"))


def default_kubeconfig() -> Path:
    """Return the kubeconfig that kubectl takes: the first of ``KUBECONFIG`` that exists, or ``~/.kube/config``.

    Raises:
        ConfigurationError: there is none.
    """
    for name in (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep):
        path = Path(name).expanduser()
        if path.is_file():
            return path
    raise ConfigurationError("there is no kubeconfig: give --kubeconfig FILE, or set KUBECONFIG")


async def _read(kubeconfig: Path, context: str, looked_up: Iterable[str]) -> Snapshot:
    server = await connect(kubeconfig, context)
    try:
        definitions = await _list(server, (CRD_GROUP, CRD_RESOURCE), ObjectStore())
        try:
            store = ObjectStore(definitions)
        except InputError as error:
            raise ConfigurationError(f"the live cluster: {error}") from None
        configurations: list[JSONObject] = []
        for resource in _POLICY_RESOURCES:
            configurations += await _list(server, (_POLICY_GROUP, resource), store)
        wanted = {*resources_named(looked_up, store), *_parameters(configurations, store)}
        objects = list(definitions)
        for at in sorted(wanted - {(CRD_GROUP, CRD_RESOURCE)}):
            objects += await _list(server, at, store)
        return Snapshot(tuple(objects), tuple(configurations))
    finally:
        await server.close()


def _parameters(configurations: Iterable[JSONObject], store: ObjectStore) -> Iterator[At]:
    """Yield the collections that the parameters of policies are in."""
    kinds = [member(document, "spec", "paramKind") or {} for document in configurations]
    wanted = {(kind.get("apiVersion"), kind.get("kind")) for kind in kinds if isinstance(kind, dict)}
    for type_ in store.resources:
        if not type_.subresource and (type_.kind.api_version, type_.kind.kind) in wanted:
            yield type_.resource.group, type_.resource.resource


async def _list(server: ApiServer, at: At, store: ObjectStore) -> list[JSONObject]:
    """List a collection in the first version that is served; it is empty if none is."""
    for type_ in types_of(at, store):
        for attempt in range(_ATTEMPTS):
            try:
                found, _ = await server.list(collection_path(type_), accepted_for(at))
            except ApiServerError as error:
                if error.code == _NOT_FOUND:
                    break
                if error.code != _EXPIRED or attempt == _ATTEMPTS - 1:
                    name = ".".join(filter(None, reversed(at)))
                    raise ConfigurationError(
                        f"{name} of the live cluster cannot be listed: {error}"
                    ) from None
            else:
                return [without_managed_fields(document, type_) for document in found]
    return []
