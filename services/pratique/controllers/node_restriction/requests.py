"""Requests of nodes, and how a check refuses one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.cluster.authorization import RbacAuthorizer
from pratique.cluster.rbac import RBAC_GROUP


class NodeRestrictionFeatureGates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """The feature gates of an API server that matter here, as of 1.36."""

    recover_volume_expansion_failure: bool = True
    """Nodes may write how far the expansion of a volume has come."""
    service_account_node_audience_restriction: bool | None = None
    """Nodes get tokens only for audiences that the Pod uses, or that they are granted. None: where the cluster says
    what anybody is granted."""
    allow_insecure_kubelet_certificate_signing_requests: bool = False
    """Nodes may ask for certificates of other nodes."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeRequest:
    """What a node asks for."""

    node: str
    review: Review
    gates: NodeRestrictionFeatureGates

    @property
    def quoted(self) -> str:
        """The node's name, as most messages show it."""
        return go_quoted(self.node)

    @property
    def restricts_audiences(self) -> bool:
        """True where the audience of a token is looked at."""
        gate = self.gates.service_account_node_audience_restriction
        return _grants_are_known(self.review) if gate is None else gate

    @property
    def object_name(self) -> str:
        """The name of what the node writes; that of the object itself where it is new."""
        return self.review.name or str(member(self.review.object, "metadata", "name") or "")


Denial: TypeAlias = str | Status
"""What a check says: the text of a Forbidden, or another refusal whole."""

NodeCheck: TypeAlias = Callable[[NodeRequest], Iterator[Denial]]
"""Looks at a request; the first thing that it has to say counts, and nothing is looked at after that."""


def is_kind(document: JSON, kind: str) -> bool:
    """Tell whether a document is of a kind; one that does not say counts as one."""
    return isinstance(document, dict) and document.get("kind", kind) == kind


def unexpected_type(document: JSON) -> str:
    """Say that something else stands there than what belongs there."""
    return f"unexpected type {go_type(document)}"


def find_pod(request: NodeRequest, name: str) -> JSONObject | Status:
    """Look up a Pod in the namespace of the request."""
    pod = request.review.cluster.get("", "pods", name, request.review.namespace)
    return statuses.not_found("", "pod", name) if pod is None else pod


def node_of_pod(pod: JSON) -> str:
    """The node that a Pod is bound to; empty where it is not."""
    return str(member(pod, "spec", "nodeName") or "")


def object_uid(document: JSON) -> str:
    """The uid of an object; empty where it has none."""
    return str(member(document, "metadata", "uid") or "")


def _grants_are_known(review: Review) -> bool:
    """Tell whether it is known what anybody is granted: the cluster has bindings, or somebody else is asked."""
    bindings = ("clusterrolebindings", "rolebindings")
    asks_cluster = isinstance(review.authorizer, RbacAuthorizer)
    return not asks_cluster or any(review.cluster.list(RBAC_GROUP, resource) for resource in bindings)
