"""CertificateApproval."""

from __future__ import annotations

import dataclasses

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.certificate_approval import CONTROLLER
from support.admissions import admit, forbidden_text
from support.signers import (
    GRANTS,
    SIGNER,
    FailingAuthorizer,
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


@pytest.mark.parametrize(("granted", "allowed"), GRANTS.items())
def test_a_role_grants_a_signer_by_its_name_or_its_domain(granted: str, *, allowed: bool) -> None:
    review = approval(approved(), signing_request(), *permission("approve", granted))
    assert admit(CONTROLLER, review).allowed is allowed


def test_a_role_without_names_grants_every_signer() -> None:
    assert admit(CONTROLLER, approval(approved(), signing_request(), *permission("approve"))).allowed


@pytest.mark.parametrize(
    "grant",
    [
        permission("sign"),
        permission("attest"),
        permission("approve", user="bob"),
        permission("approve", groups=[""]),
        permission("approve", resources=["certificatesigningrequests/approval"]),
        permission("approve", resources=["signers/approval"]),
    ],
)
def test_no_other_permission_will_do(grant: tuple[JSONObject, JSONObject]) -> None:
    assert not admit(CONTROLLER, approval(approved(), signing_request(), *grant)).allowed


def test_the_stored_signer_counts_and_not_the_one_that_the_update_names() -> None:
    mine, theirs = signing_request(SIGNER), signing_request("example.com/others")
    grant = permission("approve", SIGNER)
    assert not admit(CONTROLLER, approval(mine, theirs, *grant)).allowed
    assert admit(CONTROLLER, approval(theirs, mine, *grant)).allowed


def test_superusers_may_approve_everything() -> None:
    user = {"username": "root", "groups": ["system:masters"]}
    assert admit(CONTROLLER, approval(approved(), signing_request(), userInfo=user)).allowed


def test_a_failing_authorizer_allows_nothing() -> None:
    review = dataclasses.replace(approval(approved(), signing_request()), authorizer=FailingAuthorizer())
    assert not admit(CONTROLLER, review).allowed


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
