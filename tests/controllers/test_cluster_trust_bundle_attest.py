"""ClusterTrustBundleAttest."""

from __future__ import annotations

import msgspec
import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.cluster_trust_bundle_attest import CONTROLLER
from support.admissions import admit, forbidden_text
from support.signers import SIGNER, FailingAuthorizer, certificates_review, permission, trust_bundle

SUBJECT = 'clustertrustbundles.certificates.k8s.io "web"'
REFUSAL = f'user not permitted to attest for signerName "{SIGNER}"'


def review(new: JSON, old: JSON = None, *cluster: JSONObject, **fields: JSON) -> Review:
    return certificates_review("clustertrustbundles", new, old, *cluster, **fields)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (trust_bundle(), None),
        (trust_bundle(), trust_bundle(bundle="other")),
        (trust_bundle(), trust_bundle(None)),
        (trust_bundle(), trust_bundle("example.com/others")),
        (trust_bundle(labels={"a": "b"}), trust_bundle()),
        (trust_bundle(annotations={"a": "b"}, finalizers=["x"]), trust_bundle()),
    ],
)
def test_who_may_not_attest_for_a_signer_may_not_publish_in_its_name(new: JSONObject, old: JSON) -> None:
    assert forbidden_text(admit(CONTROLLER, review(new, old)), SUBJECT) == REFUSAL
    assert admit(CONTROLLER, review(new, old, *permission("attest", SIGNER))).allowed


@pytest.mark.parametrize("old", [None, trust_bundle(), trust_bundle(None)])
@pytest.mark.parametrize("signer", [None, ""])
def test_a_bundle_without_a_signer_needs_no_permission(signer: str | None, old: JSON) -> None:
    assert admit(CONTROLLER, review(trust_bundle(signer), old)).allowed


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({}, {}),
        ({"ownerReferences": [{"uid": "7"}]}, {}),
        ({}, {"finalizers": ["example.com/wait"]}),
        ({"managedFields": [{"manager": "me"}]}, {"selfLink": "/x"}),
        ({"labels": {}}, {"labels": None, "creationTimestamp": None}),
    ],
)
def test_an_update_of_owners_finalizers_or_nothing_needs_no_permission(
    new: JSONObject, old: JSONObject
) -> None:
    assert admit(CONTROLLER, review(trust_bundle(**new), trust_bundle(**old))).allowed


def test_the_new_signer_counts() -> None:
    grant = permission("attest", SIGNER)
    assert not admit(CONTROLLER, review(trust_bundle("example.com/x"), trust_bundle(), *grant)).allowed


def test_a_failing_authorizer_allows_only_what_it_is_not_asked_about() -> None:
    failing = FailingAuthorizer()
    changing = msgspec.structs.replace(review(trust_bundle()), authorizer=failing)
    idle = msgspec.structs.replace(review(trust_bundle(), trust_bundle()), authorizer=failing)
    assert not admit(CONTROLLER, changing).allowed
    assert admit(CONTROLLER, idle).allowed


@pytest.mark.parametrize(
    ("old", "named"), [(None, "<nil>"), (trust_bundle(), "*certificates.ClusterTrustBundle")]
)
def test_another_type_is_refused_by_the_name_of_the_stored_one(old: JSON, named: str) -> None:
    other = trust_bundle() | {"kind": "ClusterTrustBundleList"}
    found = admit(CONTROLLER, review(other, old, *permission("attest")))
    assert forbidden_text(found, SUBJECT) == f"expected type ClusterTrustBundle, got: {named}"


def test_deletions_and_other_resources_are_ignored() -> None:
    assert admit(CONTROLLER, review(None, trust_bundle(), operation="DELETE")).allowed
    assert admit(CONTROLLER, certificates_review("certificatesigningrequests", trust_bundle())).allowed
