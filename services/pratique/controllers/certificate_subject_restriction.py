"""CertificateSubjectRestriction: nobody gets a client certificate for the group system:masters.

Source: ``plugin/pkg/admission/certificates/subjectrestriction/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.go_formats import decode_base64, go_type
from pratique.apimachinery.json_values import member
from pratique.apimachinery.kinds import is_kind
from pratique.cluster.authorization import SUPERUSERS
from pratique.pods.certificate_requests import read_subject

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
"""The signer of certificates that an API server accepts from clients: ``KubeAPIServerClientSignerName``."""


def validate(review: Review) -> Answer:
    """Deny a request to the signer of client certificates whose organizations include the superusers' group."""
    if not is_kind(review.object, "CertificateSigningRequest"):
        return deny(f"expected type CertificateSigningRequest, got: {go_type(review.object)}")
    if member(review.object, "spec", "signerName") != CLIENT_SIGNER:
        return allow()
    try:
        subject = read_subject(decode_base64(str(member(review.object, "spec", "request") or "")))
    except (ValueError, InputError) as error:
        return deny(f"failed to parse CSR: {error}")
    if SUPERUSERS in subject.organizations:
        return deny(f"use of {CLIENT_SIGNER} signer with {SUPERUSERS} group is not allowed")
    return allow()


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="CertificateSubjectRestriction",
    summary="Denies requests for client certificates in the group system:masters.",
    phases=VALIDATE,
    rules=(rule("certificatesigningrequests", operations=("CREATE",), group="certificates.k8s.io"),),
    build=_build,
    default=True,
    trusted=True,
)
