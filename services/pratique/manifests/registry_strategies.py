"""What an API server gives and takes away when it stores an object: names, uids, and the status of a manifest.

What an API server makes up at random is derived here, so that the same review is always decided alike. What else the
strategy of each kind does is in :mod:`pratique.registry.strategies`.

Sources: ``create`` in ``k8s.io/apiserver/pkg/registry/generic/registry/store.go``, ``pkg/registry/rest/meta.go``, and
``PrepareForCreate`` and ``PrepareForUpdate`` in ``pkg/registry/*/*/strategy.go``.
"""

from __future__ import annotations

import uuid

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.names import RANDOM_ALPHABET, uuid5
from pratique.cluster.api_resources import ApiResources

# The name space of the uids made here; any fixed UUID would do.
_UID_NAMESPACE = uuid.UUID("0b7d5d0e-3c55-4c5c-8f0e-5f6a1f0e7a52").bytes

_GENERATED_LENGTH = 5
"""How many random characters an API server appends to a ``generateName``."""


def derived_uid(*parts: str) -> str:
    """A deterministic stand-in for the uid that an API server would generate."""
    return uuid5(_UID_NAMESPACE, "\n".join(parts).encode())


def safe_encoded(text: str) -> str:
    """Encode a text in an alphabet without vowels: ``rand.SafeEncodeString``."""
    return "".join(RANDOM_ALPHABET[byte % len(RANDOM_ALPHABET)] for byte in text.encode())


def name_of_created(review: Review, document: JSON) -> str:
    """The name of a created object; a deterministic one if the API server is yet to generate it."""
    name = review.name or member(document, "metadata", "name")
    if isinstance(name, str) and name:
        return name
    prefix = member(document, "metadata", "generateName")
    return f"{prefix or ''}{safe_encoded(derived_uid(review.uid))[:_GENERATED_LENGTH]}"


# A kubelet sets its Node's status on creation: nodeStrategy.
_STATUS_KEPT_ON_CREATE = frozenset({("", "nodes")})


def prepare_for_create(written: JSONObject, type_: ResourceType, resources: ApiResources) -> JSONObject:
    """The object that a CREATE stores: without its status, if that belongs to a subresource."""
    if _group_resource(type_) in _STATUS_KEPT_ON_CREATE or not _has_status(type_, resources):
        return written
    return _with_status_of(written, {})


def prepare_for_update(
    written: JSONObject, stored: JSONObject, type_: ResourceType, resources: ApiResources
) -> JSONObject:
    """The object that an UPDATE stores: with the stored status, if that belongs to a subresource."""
    return _with_status_of(written, stored) if _has_status(type_, resources) else written


def _with_status_of(written: JSONObject, other: JSONObject) -> JSONObject:
    if written.get("status") == other.get("status") and ("status" in written) == ("status" in other):
        return written
    kept = {key: value for key, value in written.items() if key != "status"}
    return {**kept, "status": other["status"]} if "status" in other else kept


def _has_status(type_: ResourceType, resources: ApiResources) -> bool:
    return not type_.subresource and resources.for_resource(type_.resource, "status") is not None


def _group_resource(type_: ResourceType) -> tuple[str, str]:
    return type_.resource.group, type_.resource.resource
