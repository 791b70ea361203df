"""CertificateSubjectRestriction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.certificate_subject_restriction import CONTROLLER
from support.admissions import Admission, admit, forbidden_text
from support.signers import certificates_review, pem_request, signing_request

CLIENTS = "kubernetes.io/kube-apiserver-client"
SUBJECT = 'certificatesigningrequests.certificates.k8s.io "web"'
REFUSAL = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
NOT_PEM = "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"


def created(new: JSON, **fields: JSON) -> Admission:
    return admit(CONTROLLER, certificates_review("certificatesigningrequests", new, **fields))


@pytest.mark.parametrize(
    "groups", [["system:masters"], ["staff", "system:masters"], ["system:masters", "staff"]]
)
def test_nobody_gets_a_certificate_of_the_superusers_group(groups: list[str]) -> None:
    found = created(signing_request(CLIENTS, pem_request(*groups)))
    assert forbidden_text(found, SUBJECT) == REFUSAL


def test_superusers_get_none_either() -> None:
    user = {"username": "root", "groups": ["system:masters"]}
    assert not created(signing_request(CLIENTS, pem_request("system:masters")), userInfo=user).allowed


@pytest.mark.parametrize(
    "groups", [[], ["system:nodes"], ["system:admins"], ["System:Masters"], ["system:masters "]]
)
def test_other_groups_are_admitted(groups: list[str]) -> None:
    assert created(signing_request(CLIENTS, pem_request(*groups))).allowed


def test_a_user_may_be_called_as_the_group_is() -> None:
    assert created(signing_request(CLIENTS, pem_request(common_name="system:masters"))).allowed


@pytest.mark.parametrize(
    "signer",
    ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/legacy-unknown", "example.com/x", ""],
)
@pytest.mark.parametrize("request_", [pem_request("system:masters"), b"no request"])
def test_other_signers_decide_for_themselves(signer: str, request_: bytes) -> None:
    assert created(signing_request(signer, request_)).allowed


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("", NOT_PEM),
        (None, NOT_PEM),
        ("bm8gcmVxdWVzdA==", NOT_PEM),
        ("LS0t!", "failed to parse CSR: illegal base64 data at input byte 4"),
    ],
)
def test_what_is_no_certificate_request_is_refused(encoded: JSON, text: str) -> None:
    document = signing_request(CLIENTS)
    document["spec"]["request"] = encoded
    assert forbidden_text(created(document), SUBJECT) == text


def test_a_malformed_certificate_request_is_refused_without_quoting_it() -> None:
    lines = pem_request("system:masters").splitlines()
    cut = b"\n".join([lines[0], lines[1], lines[-1]])
    found = created(signing_request(CLIENTS, cut))
    assert forbidden_text(found, SUBJECT) == "failed to parse CSR: malformed certificate request"


def test_another_type_is_refused() -> None:
    other = signing_request(CLIENTS) | {"kind": "CertificateSigningRequestList"}
    assert forbidden_text(created(other), SUBJECT) == (
        "expected type CertificateSigningRequest, got: *certificates.CertificateSigningRequestList"
    )


@pytest.mark.parametrize(
    ("resource", "operation"),
    [
        ("certificatesigningrequests", "UPDATE"),
        ("certificatesigningrequests", "DELETE"),
        ("certificatesigningrequests/status", "CREATE"),
        ("clustertrustbundles", "CREATE"),
    ],
)
def test_other_requests_are_ignored(resource: str, operation: str) -> None:
    document = signing_request(CLIENTS, pem_request("system:masters"))
    review = certificates_review(resource, document, operation=operation)
    assert admit(CONTROLLER, review).allowed


@given(st.lists(st.sampled_from(["system:masters", "system:nodes", "staff", "m"]), max_size=6))
def test_exactly_the_requests_that_name_the_group_are_refused(groups: list[str]) -> None:
    document: JSONObject = signing_request(CLIENTS, pem_request(*groups))
    assert created(document).allowed is ("system:masters" not in groups)
