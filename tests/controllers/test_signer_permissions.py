"""What CertificateApproval, CertificateSigning and ClusterTrustBundleAttest have alike: a verb on signers."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from pratique.admission.controllers import Controller
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers import certificate_approval, certificate_signing, cluster_trust_bundle_attest
from support.admissions import admit
from support.signers import (
    GRANTS,
    SIGNER,
    FailingAuthorizer,
    certificates_review,
    permission,
    signing_request,
    trust_bundle,
)


@dataclasses.dataclass(frozen=True)
class Guarded:
    """A request that a controller asks for the permission of."""

    controller: Controller
    verb: str
    resource: str
    new: JSONObject
    old: JSONObject | None

    def review(self, *cluster: JSONObject, **fields: JSON) -> Review:
        """The request, of ann."""
        return certificates_review(self.resource, self.new, self.old, *cluster, **fields)


GUARDED = {
    "approve": Guarded(
        certificate_approval.CONTROLLER,
        "approve",
        "certificatesigningrequests/approval",
        signing_request(conditions=[{"type": "Approved", "status": "True"}]),
        signing_request(),
    ),
    "sign": Guarded(
        certificate_signing.CONTROLLER,
        "sign",
        "certificatesigningrequests/status",
        signing_request(certificate="ZGF0YQ=="),
        signing_request(),
    ),
    "publish": Guarded(
        cluster_trust_bundle_attest.CONTROLLER, "attest", "clustertrustbundles", trust_bundle(), None
    ),
    "publish anew": Guarded(
        cluster_trust_bundle_attest.CONTROLLER,
        "attest",
        "clustertrustbundles",
        trust_bundle(),
        trust_bundle(bundle="other"),
    ),
}
every = pytest.mark.parametrize("guarded", GUARDED.values(), ids=GUARDED)


@every
@pytest.mark.parametrize(("granted", "allowed"), GRANTS.items())
def test_a_role_grants_a_signer_by_its_name_or_its_domain(
    guarded: Guarded, granted: str, *, allowed: bool
) -> None:
    review = guarded.review(*permission(guarded.verb, granted))
    assert admit(guarded.controller, review).allowed is allowed


@every
def test_a_role_without_names_grants_every_signer(guarded: Guarded) -> None:
    assert admit(guarded.controller, guarded.review(*permission(guarded.verb))).allowed


@every
@pytest.mark.parametrize("verb", ["approve", "sign", "attest", "create", "update", "Sign"])
def test_no_other_verb_will_do(guarded: Guarded, verb: str) -> None:
    review = guarded.review(*permission(verb))
    assert admit(guarded.controller, review).allowed is (verb == guarded.verb)


@every
@pytest.mark.parametrize(
    "changes",
    [
        {"user": "bob"},
        {"groups": [""]},
        {"resources": ["certificatesigningrequests/approval"]},
        {"resources": ["signers/approval"]},
    ],
    ids=["of somebody else", "in another group", "on what is approved", "on a part of signers"],
)
def test_no_other_permission_will_do(guarded: Guarded, changes: JSONObject) -> None:
    assert not admit(guarded.controller, guarded.review(*permission(guarded.verb, **changes))).allowed


@every
def test_superusers_may_do_everything(guarded: Guarded) -> None:
    user = {"username": "root", "groups": ["system:masters"]}
    assert admit(guarded.controller, guarded.review(userInfo=user)).allowed


@every
def test_a_failing_authorizer_allows_nothing(guarded: Guarded) -> None:
    review = msgspec.structs.replace(guarded.review(), authorizer=FailingAuthorizer())
    assert not admit(guarded.controller, review).allowed


@pytest.mark.parametrize("name", ["approve", "sign"])
def test_the_stored_signer_counts_and_not_the_one_that_the_update_names(name: str) -> None:
    guarded, grant = GUARDED[name], permission(GUARDED[name].verb, SIGNER)
    theirs = signing_request("example.com/others")
    elsewhere = dataclasses.replace(guarded, old=theirs)
    renamed = dataclasses.replace(guarded, new={**guarded.new, "spec": theirs["spec"]})
    assert not admit(guarded.controller, elsewhere.review(*grant)).allowed
    assert admit(guarded.controller, renamed.review(*grant)).allowed
