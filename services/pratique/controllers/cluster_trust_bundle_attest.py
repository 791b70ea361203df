"""ClusterTrustBundleAttest: only users who may attest for a signer may publish trust bundles in its name.

Sources: ``plugin/pkg/admission/certificates/ctbattest/admission.go``, and ``pkg/registry/rbac/helpers.go``
``IsOnlyMutatingGCFields``.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.diff import semantically_equal
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import JSON, mapping_at, member
from pratique.apimachinery.kinds import is_kind
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.authorization import is_authorized_for_signer

_GC_FIELDS = frozenset({"ownerReferences", "finalizers", "selfLink", "managedFields"})
"""What may change without an attestation, so that owners can be deleted and stored objects rewritten."""


def validate(review: Review) -> Answer:
    """Check that the user may attest for the bundle's signer, if it has one and the update changes anything."""
    if not is_kind(review.object, "ClusterTrustBundle"):
        # Kubernetes names the type of the stored object, too.
        return deny(f"expected type ClusterTrustBundle, got: {go_type(review.old_object)}")
    signer = str(member(review.object, "spec", "signerName") or "")
    if not signer or (review.operation is Operation.UPDATE and _changes_only_gc_fields(review)):
        return allow()
    if is_authorized_for_signer(review.authorizer, review.user, "attest", signer):
        return allow()
    return deny(f"user not permitted to attest for signerName {go_quoted(signer)}")


def _changes_only_gc_fields(review: Review) -> bool:
    """Whether an update changes nothing but owners, finalizers and managed fields."""
    old = review.old_object
    return isinstance(old, dict) and semantically_equal(_compared(review.object), _compared(old))


def _compared(bundle: JSON) -> JSON:
    metadata = mapping_at(bundle, "metadata").items()
    kept = {name: value for name, value in metadata if name not in _GC_FIELDS}
    return {"metadata": kept, "spec": member(bundle, "spec")}


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="ClusterTrustBundleAttest",
    summary="Requires the right to attest for a signer to publish a ClusterTrustBundle in its name.",
    phases=VALIDATE,
    rules=(rule("clustertrustbundles", group="certificates.k8s.io"),),
    build=_build,
    default=True,
    looks_up=("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    trusted=True,
)
