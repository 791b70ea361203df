"""NodeRestriction: a node changes itself, its own Pods, and what belongs to them, and nothing else.

Source: ``plugin/pkg/admission/noderestriction/admission.go``. It only refuses, and does so in the mutating phase.
The package has a file for each kind of thing that nodes write.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.rules import rule
from pratique.controllers.node_restriction.requests import NodeRestrictionFeatureGates


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What an API server takes from its own flags."""

    feature_gates: NodeRestrictionFeatureGates = NodeRestrictionFeatureGates()


def _build(settings: Settings) -> Handlers:
    # Here, because most chains have no nodes to restrict, and need not wait for what is known of them.
    from pratique.controllers.node_restriction.checks import mutate  # noqa: PLC0415

    return Handlers(mutate=functools.partial(mutate, settings.feature_gates))


_OPERATIONS = ("CREATE", "UPDATE", "DELETE")

CONTROLLER = Controller(
    name="NodeRestriction",
    summary="Keeps nodes to themselves, the Pods that they run, and what belongs to those.",
    phases=MUTATE,
    rules=(
        rule(
            *("pods/*", "nodes/*", "persistentvolumeclaims/*", "serviceaccounts/token"),
            operations=_OPERATIONS,
        ),
        rule("leases", operations=_OPERATIONS, group="coordination.k8s.io"),
        rule("csinodes", operations=_OPERATIONS, group="storage.k8s.io"),
        rule("resourceslices", operations=("CREATE", "DELETE"), group="resource.k8s.io"),
        rule("certificatesigningrequests", operations=("CREATE",), group="certificates.k8s.io"),
    ),
    build=_build,
    settings=Settings,
    looks_up=("pods", "nodes", "persistentvolumeclaims", "persistentvolumes", "csidrivers"),
    denies_in_mutate=True,
    trusted=True,
)
