"""NodeRestriction: a node may change only itself, its own Pods, and what belongs to them.

Source: ``plugin/pkg/admission/noderestriction/admission.go``. It only denies, and does so in the mutating phase. The
settings are here; :mod:`.checks` decides.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.rules import rule


class NodeRestrictionFeatureGates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """The feature gates of an API server that NodeRestriction reads, as of 1.36."""

    recover_volume_expansion_failure: bool = True
    """Nodes may report the progress of a volume's expansion."""
    service_account_node_audience_restriction: bool | None = None
    """Nodes get tokens only for audiences that the Pod uses, or that RBAC grants them. None: only if the cluster's
    grants are known."""
    allow_insecure_kubelet_certificate_signing_requests: bool = False
    """Nodes may request certificates of other nodes."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Settings that an API server takes from its flags."""

    feature_gates: NodeRestrictionFeatureGates = NodeRestrictionFeatureGates()


def _build(settings: Settings) -> Handlers:
    # Imported late: most chains have no nodes to restrict, and need neither RBAC nor X.509.
    from pratique.controllers.node_restriction.checks import mutate  # noqa: PLC0415

    return Handlers(mutate=functools.partial(mutate, settings.feature_gates))


_OPERATIONS = ("CREATE", "UPDATE", "DELETE")

CONTROLLER = Controller(
    name="NodeRestriction",
    summary="Lets nodes change only themselves, the Pods that they run, and what belongs to those.",
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
    may_look_up=("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    denies_in_mutate=True,
    trusted=True,
)
