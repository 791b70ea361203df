"""CertificateApproval: only users who may approve for a signer may approve or deny requests to it.

Source: ``plugin/pkg/admission/certificates/approval/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.go_formats import go_type
from pratique.apimachinery.json_values import member
from pratique.apimachinery.kinds import is_kind
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.authorization import is_authorized_for_signer


def validate(review: Review) -> Answer:
    """Check that the user may approve for the signer.

    The stored signer counts: an update must not choose a signer that the user may approve for.
    """
    if not is_kind(review.old_object, "CertificateSigningRequest"):
        return deny(f"expected type CertificateSigningRequest, got: {go_type(review.old_object)}")
    signer = str(member(review.old_object, "spec", "signerName") or "")
    if is_authorized_for_signer(review.authorizer, review.user, "approve", signer):
        return allow()
    return deny(f"user not permitted to approve requests with signerName {go_quoted(signer)}")


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="CertificateApproval",
    summary="Requires the right to approve for a signer to approve or deny requests to it.",
    phases=VALIDATE,
    rules=(rule("certificatesigningrequests/approval", operations=("UPDATE",), group="certificates.k8s.io"),),
    build=_build,
    default=True,
    looks_up=("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    trusted=True,
)
