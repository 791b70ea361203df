"""PodTopologyLabels: labels a Pod with the zone and region of the node that it is bound to.

Source: ``plugin/pkg/admission/podtopologylabels/admission.go``. The API server copies a Binding's labels to its Pod.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import JSON, mapping_at, member
from pratique.pods import pod_spec

TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
"""The labels that are copied: ``defaultConfig``."""


class PodTopologyFeatureGates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """The feature gate of an API server that affects this controller."""

    pod_topology_labels_admission: bool = True
    """Label Pods; on by default since 1.35."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Settings that an API server takes from its flags."""

    feature_gates: PodTopologyFeatureGates = PodTopologyFeatureGates()
    """As in the flag ``--feature-gates`` of an API server."""


def mutate(settings: Settings, review: Review) -> Answer:
    """Label a Binding, or a Pod that is created on a node."""
    if not settings.feature_gates.pod_topology_labels_admission:
        return allow()
    return _label_binding(review) if review.subresource else _label_pod(review)


def _label_binding(review: Review) -> Answer:
    binding = review.object
    if not isinstance(binding, dict) or binding.get("kind", "Binding") != "Binding":
        return deny(status=statuses.plain_error(f"expected Binding but got {review.kind.kind}"))
    # A Binding without a kind binds to a node too, but Kubernetes does not label it.
    if member(binding, "target", "kind") != "Node":
        return allow()
    return _copy_labels(review, member(binding, "target", "name"))


def _label_pod(review: Review) -> Answer:
    if not pod_spec.is_pod(review.object):
        return deny(status=statuses.plain_error(f"expected Pod but got {go_type(review.object)}"))
    return _copy_labels(review, member(review.object, "spec", "nodeName"))


def _copy_labels(review: Review, node_name: JSON) -> Answer:
    """Copy the labels of a node, if it exists, over those of the reviewed object."""
    if not isinstance(node_name, str) or not node_name:
        return allow()
    labels = mapping_at(review.cluster.get("", "nodes", node_name), "metadata", "labels")
    edits = Edits(review.object)
    for key in TOPOLOGY_LABELS:
        if key in labels:
            edits.set(("metadata", "labels", key), labels[key])
    return edits.answer()


def _build(settings: Settings) -> Handlers:
    return Handlers(mutate=functools.partial(mutate, settings))


CONTROLLER = Controller(
    name="PodTopologyLabels",
    summary="Labels Pods with the zone and region of the node that they are bound to.",
    phases=MUTATE,
    rules=(rule("pods", "pods/binding", operations=("CREATE",)),),
    build=_build,
    settings=Settings,
    default=True,
    looks_up=("nodes",),
    trusted=True,
)
