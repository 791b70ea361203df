"""DefaultIngressClass: gives an Ingress that names no class the one marked as default.

Source: ``plugin/pkg/admission/network/defaultingressclass/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import MUTATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import mapping_at, member
from pratique.apimachinery.names import creation_time_of, name_of

DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"
"""Marks a default class if it is ``"true"``."""
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
"""Named the class of an Ingress before ``ingressClassName``; an Ingress that has it, even empty, gets no default."""

_GROUP = "networking.k8s.io"
_CLASS_NAME = ("spec", "ingressClassName")


def mutate(review: Review) -> Answer:
    """Set the class of an Ingress that names none."""
    ingress = review.object
    if not isinstance(ingress, dict) or ingress.get("kind", "Ingress") != "Ingress":
        return deny(status=statuses.internal_error(f"Expected Ingress resource, got: {review.kind}"))
    if member(ingress, *_CLASS_NAME) is not None or CLASS_ANNOTATION in mapping_at(
        ingress, "metadata", "annotations"
    ):
        return allow()
    defaults = [
        ingress_class
        for ingress_class in review.cluster.list(_GROUP, "ingressclasses")
        if member(ingress_class, "metadata", "annotations", DEFAULT_CLASS_ANNOTATION) == "true"
    ]
    if not defaults:
        return allow()
    edits = Edits(ingress)
    # The list is sorted by name, and max() takes the first of the newest.
    edits.set(_CLASS_NAME, name_of(max(defaults, key=creation_time_of)))
    return edits.answer()


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=mutate)


CONTROLLER = Controller(
    name="DefaultIngressClass",
    summary="Gives an Ingress that names no IngressClass the default one.",
    phases=MUTATE,
    rules=(rule("ingresses", group=_GROUP, operations=("CREATE",)),),
    build=_build,
    default=True,
    looks_up=("ingressclasses",),
    trusted=True,
)
