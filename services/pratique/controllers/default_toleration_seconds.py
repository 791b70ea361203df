"""DefaultTolerationSeconds: limits how long a Pod stays on a node that is not ready or unreachable.

Source: ``plugin/pkg/admission/defaulttolerationseconds/admission.go``.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Edits, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.pods import pod_spec

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
ALPHA_KEYS = ("node.alpha.kubernetes.io/notReady", "node.alpha.kubernetes.io/unreachable")
"""The keys of the two taints in 1.6 to 1.8."""

_PATH = ("spec", "tolerations")
_DEFAULT_SECONDS = 300
"""Five minutes, the default of both flags."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """How many seconds a Pod tolerates each taint (flags of the API server), and which release to follow."""

    default_not_ready_toleration_seconds: int = _DEFAULT_SECONDS
    default_unreachable_toleration_seconds: int = _DEFAULT_SECONDS
    alpha_taints: bool = False
    """Tolerate only the taints' keys of 1.6 to 1.8."""


def mutate(settings: Settings, review: Review) -> Answer:
    """Add the tolerations that the Pod does not have yet in any form."""
    if not pod_spec.is_pod(review.object):
        return deny(status=statuses.bad_request(f"expected *api.Pod but got {_go_type(review.object)}"))
    tolerations = member(review.object, *_PATH)
    present = tolerations if isinstance(tolerations, list) else ()
    edits = Edits(review.object)
    not_ready, unreachable = ALPHA_KEYS if settings.alpha_taints else (NOT_READY, UNREACHABLE)
    for key, seconds in (
        (not_ready, settings.default_not_ready_toleration_seconds),
        (unreachable, settings.default_unreachable_toleration_seconds),
    ):
        if not any(_tolerates(toleration, key) for toleration in present):
            edits.append(_PATH, _toleration(key, seconds))
    return edits.answer()


def _tolerates(toleration: JSON, key: str) -> bool:
    """Whether a toleration covers the key and ``NoExecute``; an empty key or effect matches any."""
    if not isinstance(toleration, dict):
        return False
    return (toleration.get("key") or key) == key and (toleration.get("effect") or "NoExecute") == "NoExecute"


def _toleration(key: str, seconds: int) -> JSONObject:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


def _go_type(document: JSON) -> str:
    """The Go type that an API server would decode the object into."""
    kind = member(document, "kind")
    return f"*core.{kind}" if isinstance(kind, str) else "<nil>"


def _build(settings: Settings) -> Handlers:
    return Handlers(mutate=functools.partial(mutate, settings))


CONTROLLER = Controller(
    name="DefaultTolerationSeconds",
    summary="Lets Pods stay five minutes on a node that is not ready or unreachable, unless they set another time.",
    phases=MUTATE,
    rules=(rule("pods"),),
    build=_build,
    settings=Settings,
    default=True,
    trusted=True,
)
