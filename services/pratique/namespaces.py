"""Namespaces as an API server has them when nobody wrote more of them than a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import names, statuses
from pratique.errors import RefusalError
from pratique.field_errors import ROOT, invalid
from pratique.json_values import member

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.reviews import Review

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label by which every Namespace can be selected by its name."""


def with_defaults(namespace: JSONObject) -> JSONObject:
    """A Namespace as the API server reads it: labelled with its name, and Active unless it says otherwise.

    Source: ``pkg/apis/core/v1/defaults.go`` ``SetDefaults_Namespace`` and ``SetDefaults_NamespaceStatus``.
    """
    changed = dict(namespace)
    name = member(namespace, "metadata", "name")
    labels = member(namespace, "metadata", "labels") or {}
    if name and isinstance(labels, dict):
        labels = {**labels, NAME_LABEL: name}
        changed["metadata"] = {**namespace["metadata"], "labels": labels}
    status = namespace.get("status") or {}
    if isinstance(status, dict) and not status.get("phase"):
        changed["status"] = {**status, "phase": "Active"}
    return changed


def is_inside(review: Review) -> bool:
    """Tell whether what is reviewed is in a namespace; a Namespace itself is in none.

    An API server gives requests about a Namespace its own name as their namespace.
    """
    is_namespace = (review.kind.group, review.kind.kind) == ("", "Namespace")
    return bool(review.namespace) and not is_namespace


def check_name(name: str) -> None:
    """See that a Namespace can have this name.

    Source: ``pkg/apis/core/validation/validation.go`` ``ValidateNamespaceName``.

    Raises:
        RefusalError: it cannot; 422.
    """
    path = ROOT / "metadata" / "name"
    errors = [invalid(path, name, message) for message in names.check_dns1123_label(name)]
    if errors:
        raise RefusalError(statuses.invalid("", "Namespace", name, errors))


def assumed_namespace(name: str) -> JSONObject:
    """The Namespace that stands for one nobody described: unlabelled and Active."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name},
        "status": {"phase": "Active"},
    }


def assumed_service_account(namespace: str) -> JSONObject:
    """The ``default`` ServiceAccount that stands in every Namespace nobody described."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
    }
