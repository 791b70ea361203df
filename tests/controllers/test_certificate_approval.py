"""CertificateApproval."""

from __future__ import annotations

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.certificate_approval import CONTROLLER
from support.admissions import admit, forbidden_text
from support.signers import (
    SIGNER,
    certificates_review,
    permission,
    signing_request,
)

SUBJECT = 'certificatesigningrequests.certificates.k8s.io "web"'
REFUSAL = f'user not permitted to approve requests with signerName "{SIGNER}"'


def approval(new: JSON, old: JSON, *cluster: JSONObject, **fields: JSON) -> Review:
    return certificates_review("certificatesigningrequests/approval", new, old, *cluster, **fields)


def approved(**status: JSON) -> JSONObject:
    return signing_request(conditions=[{"type": "Approved", "status": "True"}], **status)


def test_who_may_not_approve_for_a_signer_is_refused() -> None:
    assert forbidden_text(admit(CONTROLLER, approval(approved(), signing_request())), SUBJECT) == REFUSAL


def test_a_request_without_a_signer_is_asked_about_by_the_empty_name() -> None:
    nameless: JSONObject = {"kind": "CertificateSigningRequest"}
    review = approval(nameless, nameless, *permission("approve", "/*"))
    assert admit(CONTROLLER, review).allowed
    found = admit(CONTROLLER, approval(nameless, nameless))
    assert forbidden_text(found, SUBJECT).endswith('signerName ""')


def test_another_type_is_refused() -> None:
    other = signing_request() | {"kind": "CertificateSigningRequestList"}
    found = admit(CONTROLLER, approval(approved(), other, *permission("approve")))
    assert forbidden_text(found, SUBJECT) == (
        "expected type CertificateSigningRequest, got: *certificates.CertificateSigningRequestList"
    )


@pytest.mark.parametrize(
    ("resource", "operation"),
    [
        ("certificatesigningrequests", "CREATE"),
        ("certificatesigningrequests", "UPDATE"),
        ("certificatesigningrequests/status", "UPDATE"),
        ("certificatesigningrequests/approval", "CREATE"),
        ("certificatesigningrequests/approval", "DELETE"),
        ("clustertrustbundles/approval", "UPDATE"),
    ],
)
def test_other_requests_are_ignored(resource: str, operation: str) -> None:
    review = certificates_review(resource, approved(), signing_request(), operation=operation)
    assert admit(CONTROLLER, review).allowed
