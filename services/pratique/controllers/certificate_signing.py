"""CertificateSigning: only users who may sign for a signer may issue certificates, or fail requests, in its name.

Source: ``plugin/pkg/admission/certificates/signing/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.diff import identical, semantically_equal
from pratique.apimachinery.go_formats import decode_base64, go_type
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.kinds import is_kind
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.authorization import is_authorized_for_signer


def validate(review: Review) -> Answer:
    """If the certificate or the conditions change, check that the user may sign for the signer.

    The stored signer counts: an update must not choose a signer that the user may sign for.
    """
    for document in (review.old_object, review.object):
        if not is_kind(document, "CertificateSigningRequest"):
            return deny(f"expected type CertificateSigningRequest, got: {go_type(document)}")
    if not _status_changed(review.object, review.old_object):
        return allow()
    signer = str(member(review.old_object, "spec", "signerName") or "")
    if is_authorized_for_signer(review.authorizer, review.user, "sign", signer):
        return allow()
    return deny(f"user not permitted to sign requests with signerName {go_quoted(signer)}")


def _status_changed(new: JSON, old: JSON) -> bool:
    certificates = [_certificate(member(document, "status", "certificate")) for document in (new, old)]
    conditions = [member(document, "status", "conditions") for document in (new, old)]
    return not identical(*certificates) or not semantically_equal(*conditions)


def _certificate(encoded: JSON) -> JSON:
    """A certificate in one spelling, because Base64 has several. An empty one is not a missing one, as in Go."""
    if not isinstance(encoded, str):
        return encoded
    try:
        return decode_base64(encoded).hex()
    except ValueError:
        return encoded


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="CertificateSigning",
    summary="Requires the right to sign for a signer to issue certificates or set conditions in its name.",
    phases=VALIDATE,
    rules=(rule("certificatesigningrequests/status", operations=("UPDATE",), group="certificates.k8s.io"),),
    build=_build,
    default=True,
    looks_up=("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    trusted=True,
)
