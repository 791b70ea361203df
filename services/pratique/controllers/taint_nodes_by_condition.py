"""TaintNodesByCondition: a new node is not ready, so Pods are not scheduled on it yet.

Source: ``plugin/pkg/admission/nodetaint/admission.go``. It only adds the taint; a controller of the cluster removes it.
"""

from __future__ import annotations

from pratique.admission.controllers import MUTATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import list_at, member
from pratique.pods.tolerations import NO_SCHEDULE

NOT_READY = "node.kubernetes.io/not-ready"
"""The key of the taint: ``TaintNodeNotReady``."""

_TAINTS = ("spec", "taints")


def mutate(review: Review) -> Answer:
    """Add the taint, unless the node has one of the same key and effect."""
    node = review.object
    if not isinstance(node, dict) or node.get("kind", "Node") != "Node":
        return deny(f"unexpected type {go_type(node)}")
    wanted = (NOT_READY, NO_SCHEDULE)
    if any((member(taint, "key"), member(taint, "effect")) == wanted for taint in list_at(node, *_TAINTS)):
        return allow()
    edits = Edits(node)
    edits.append(_TAINTS, {"key": NOT_READY, "effect": NO_SCHEDULE})
    return edits.answer()


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=mutate)


CONTROLLER = Controller(
    name="TaintNodesByCondition",
    summary="Taints new nodes as not ready.",
    phases=MUTATE,
    rules=(rule("nodes", operations=("CREATE",)),),
    build=_build,
    default=True,
    trusted=True,
)
