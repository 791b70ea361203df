"""CertificateSigning."""

from __future__ import annotations

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.certificate_signing import CONTROLLER
from support.admissions import admit, forbidden_text
from support.signers import (
    SIGNER,
    certificates_review,
    permission,
    signing_request,
)

SUBJECT = 'certificatesigningrequests.certificates.k8s.io "web"'
REFUSAL = f'user not permitted to sign requests with signerName "{SIGNER}"'
FAILED = [{"type": "Failed", "status": "True"}]


def signing(new: JSON, old: JSON, *cluster: JSONObject, **fields: JSON) -> Review:
    return certificates_review("certificatesigningrequests/status", new, old, *cluster, **fields)


def issued(certificate: JSON = "ZGF0YQ==") -> JSONObject:
    return signing_request(certificate=certificate)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (issued(), signing_request()),
        (signing_request(), issued()),
        (issued("ZGF0YQ=="), issued("b3RoZXI=")),
        (issued("not Base64"), issued()),
        (issued(""), signing_request()),
        (signing_request(conditions=FAILED), signing_request()),
        (signing_request(), signing_request(conditions=FAILED)),
        (signing_request(conditions=FAILED), signing_request(conditions=[FAILED[0] | {"message": "why"}])),
    ],
)
def test_who_may_not_sign_may_change_neither_certificate_nor_conditions(
    new: JSONObject, old: JSONObject
) -> None:
    assert forbidden_text(admit(CONTROLLER, signing(new, old)), SUBJECT) == REFUSAL
    assert admit(CONTROLLER, signing(new, old, *permission("sign", SIGNER))).allowed


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (signing_request(), signing_request()),
        (issued(), issued()),
        (issued("ZGF0\nYQ=="), issued("ZGF0YQ==")),
        (issued(None), signing_request()),
        (signing_request(conditions=[]), signing_request()),
        (signing_request(conditions=FAILED), signing_request(conditions=[FAILED[0] | {"message": ""}])),
        (issued() | {"metadata": {"name": "web", "labels": {"a": "b"}}}, issued()),
    ],
)
def test_an_update_that_changes_neither_needs_no_permission(new: JSONObject, old: JSONObject) -> None:
    assert admit(CONTROLLER, signing(new, old)).allowed


@pytest.mark.parametrize("wrong", ["new", "old"])
def test_another_type_is_refused(wrong: str) -> None:
    other = signing_request() | {"kind": "CertificateSigningRequestList"}
    pair = (other, signing_request()) if wrong == "new" else (signing_request(), other)
    found = admit(CONTROLLER, signing(*pair, *permission("sign")))
    assert forbidden_text(found, SUBJECT) == (
        "expected type CertificateSigningRequest, got: *certificates.CertificateSigningRequestList"
    )


@pytest.mark.parametrize(
    ("resource", "operation"),
    [
        ("certificatesigningrequests", "UPDATE"),
        ("certificatesigningrequests/approval", "UPDATE"),
        ("certificatesigningrequests/status", "CREATE"),
        ("certificatesigningrequests/status", "DELETE"),
    ],
)
def test_other_requests_are_ignored(resource: str, operation: str) -> None:
    review = certificates_review(resource, issued(), signing_request(), operation=operation)
    assert admit(CONTROLLER, review).allowed
