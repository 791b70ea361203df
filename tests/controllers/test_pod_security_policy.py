"""PodSecurityPolicy: which policies are tried, who may use them, and what they change."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import event, given

from pratique.admission.controllers import Phase
from pratique.admission.results import Allow
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import AuthorizationAttributes, Authorizer, RbacAuthorizer
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.controllers.pod_security_policy import CONTROLLER
from pratique.controllers.pod_security_policy.admission import AUDIT_PREFIX, POLICY_ANNOTATION
from pratique.hosting.catalogue import configure_controller
from support import vector_cases
from support.admissions import Admission, admit, answer_of, forbidden_text, pod_review, review_of
from support.expectations import check
from support.pod_security_policies import (
    EARLY,
    Deciding,
    allowing,
    of_early_releases_alone,
    pod_with_context,
    policy,
)
from support.strategies.pod_security_policies import confined_pods, policies

CASES = vector_cases.plugin("PodSecurityPolicy")
PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}


LASTING = [case for case in CASES if not of_early_releases_alone(case)]


def stand_in(decisions: JSONObject) -> Deciding:
    """The authorizer of a case: it allows by default, or exactly what is listed."""
    if decisions["default"] == "allow":
        return allowing()
    return Deciding(lambda asked: grant_of(asked) in decisions["allow"])


def grant_of(asked: AuthorizationAttributes) -> JSONObject:
    return {
        "user": asked.user.username,
        "verb": asked.verb,
        "apiGroup": asked.group,
        "resource": asked.resource,
        "namespace": asked.namespace,
        "name": asked.name,
    }


def run_case(case: JSONObject, configuration: JSON) -> None:
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    review = msgspec.structs.replace(review, authorizer=stand_in(case["external"]["authorizer"]))
    phases = [PHASES[phase] for phase in case["phases"]]
    check(admit(CONTROLLER, review, configuration, phases), case["expected"])
    expected = case["expected"].get("auditAnnotations", {})
    assert expected.items() <= audit_annotations(review, phases, configuration).items()


def audit_annotations(review: Review, phases: Sequence[Phase], configuration: JSON = None) -> dict[str, str]:
    """The audit annotations of both phases, each for the Pod as it was sent."""
    handlers = configure_controller(CONTROLLER, configuration).handlers
    noted: dict[str, str] = {}
    for phase, half in ((Phase.MUTATE, handlers.mutate), (Phase.VALIDATE, handlers.validate)):
        assert half is not None
        if phase in phases:
            noted |= answer_of(half, review).audit_annotations
    return noted


@pytest.mark.parametrize("case", CASES, ids=vector_cases.source)
def test_it_answers_as_kubernetes_1_10_does(case: JSONObject) -> None:
    run_case(case, EARLY)


@pytest.mark.parametrize("case", LASTING, ids=vector_cases.source)
def test_the_last_release_answers_the_same(case: JSONObject) -> None:
    run_case(case, None)


def test_few_cases_apply_to_early_releases_only() -> None:
    assert len(LASTING) > 0.9 * len(CASES)


def review(
    reviewed: JSON,
    *cluster: JSONObject,
    old: JSON = None,
    authorizer: Authorizer | None = None,
    subresource: str = "",
) -> Review:
    operation = "CREATE" if old is None else "UPDATE"
    made = pod_review(reviewed, operation=operation, old=old, subresource=subresource)
    return msgspec.structs.replace(
        made,
        cluster=ObjectStore(cluster),
        authorizer=authorizer or allowing(),
        user=UserInfo("alice", groups=("system:authenticated",)),
    )


def chosen(found: Admission) -> JSON:
    assert found.allowed, found.status
    return found.object["metadata"].get("annotations", {}).get(POLICY_ANNOTATION)


USER_1 = {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 1}]}
USER_2 = {"rule": "MustRunAs", "ranges": [{"min": 2, "max": 2}]}
PRIVILEGED = "Invalid value: true: Privileged containers are not allowed"


def test_policies_are_tried_in_the_order_of_their_names() -> None:
    found = admit(
        CONTROLLER, review(pod_with_context(), policy("b", runAsUser=USER_2), policy("a", runAsUser=USER_1))
    )
    assert chosen(found) == "a"
    assert found.object["spec"]["containers"][0]["securityContext"] == {"runAsUser": 1}


def test_a_policy_that_changes_nothing_takes_precedence() -> None:
    found = admit(
        CONTROLLER, review(pod_with_context(), policy("a", runAsUser=USER_1), policy("b"), policy("c"))
    )
    assert chosen(found) == "b"
    assert [operation["path"] for operation in found.operations] == ["/metadata/annotations"]


def test_one_policy_must_admit_all_containers() -> None:
    two = pod_with_context(
        container={"runAsUser": 1}, initContainers=[{"name": "i", "securityContext": {"runAsUser": 2}}]
    )
    found = admit(CONTROLLER, review(two, policy("a", runAsUser=USER_1), policy("b", runAsUser=USER_2)))
    assert forbidden_text(found) == (
        "PodSecurityPolicy: unable to admit pod: ["
        "spec.initContainers[0].securityContext.runAsUser: Invalid value: 2: must be in the ranges: [{1 1}] "
        "spec.containers[0].securityContext.runAsUser: Invalid value: 1: must be in the ranges: [{2 2}]]"
    )


def test_the_policy_of_the_mutating_phase_is_tried_first_in_validation() -> None:
    hinted = pod_with_context(annotations={POLICY_ANNOTATION: "b"})
    asked = allowing()
    reviewed = review(hinted, policy("a"), policy("b"), policy("c"), authorizer=asked)
    assert audit_annotations(reviewed, [Phase.VALIDATE]) == {f"{AUDIT_PREFIX}/validate-policy": "b"}
    assert {attributes.name for attributes in asked.asked} == {"b"}


def test_the_mutating_phase_ignores_the_annotation() -> None:
    hinted = pod_with_context(annotations={POLICY_ANNOTATION: "b"})
    reviewed = review(hinted, policy("a"), policy("b"))
    assert audit_annotations(reviewed, [Phase.MUTATE]) == {f"{AUDIT_PREFIX}/admit-policy": "a"}
    assert chosen(admit(CONTROLLER, reviewed)) == "a"


def test_an_update_is_never_changed() -> None:
    old = pod_with_context(annotations={POLICY_ANNOTATION: "a"})
    new = pod_with_context(annotations={POLICY_ANNOTATION: "a"}, container={"privileged": False})
    found = admit(CONTROLLER, review(new, policy("a", runAsUser=USER_1), old=old), phases=[Phase.MUTATE])
    assert (found.allowed, found.operations) == (True, ())


def test_an_update_that_needs_changes_is_denied_without_a_reason() -> None:
    new = pod_with_context(container={"privileged": False})
    found = admit(CONTROLLER, review(new, policy("a", runAsUser=USER_1), old=pod_with_context()))
    assert forbidden_text(found) == "PodSecurityPolicy: unable to validate pod: []"


@pytest.mark.parametrize(
    "garbage",
    [
        {"ownerReferences": [{"uid": "1"}]},
        {"finalizers": ["foregroundDeletion"]},
        {"managedFields": [{"manager": "gc"}]},
        {"annotations": {}},
    ],
)
def test_updates_by_garbage_collection_are_admitted(garbage: JSONObject) -> None:
    old = pod_with_context(container={"privileged": True})
    new = {**old, "metadata": {**old["metadata"], **garbage}}
    assert admit(CONTROLLER, review(new, policy(), old=old)).allowed
    assert not admit(CONTROLLER, review({**new, "extra": 1}, policy(), old=old)).allowed


@pytest.mark.parametrize("subresource", ["status", "ephemeralcontainers", "resize"])
def test_subresources_are_ignored(subresource: str) -> None:
    reviewed = review(
        pod_with_context(container={"privileged": True}), old=pod_with_context(), subresource=subresource
    )
    assert admit(CONTROLLER, reviewed).allowed


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize(("release", "prefix"), [("", "PodSecurityPolicy: "), ("1.10", "")])
def test_without_policies_no_pod_is_admitted(phase: Phase, release: str, prefix: str) -> None:
    found = admit(CONTROLLER, review(pod_with_context()), {"release": release}, [phase])
    assert forbidden_text(found) == f"{prefix}no providers available to validate pod request"


def test_without_cluster_files_there_are_no_policies() -> None:
    found = admit(CONTROLLER, msgspec.structs.replace(review(pod_with_context()), cluster=ANY_NAMESPACE))
    assert forbidden_text(found) == "PodSecurityPolicy: no providers available to validate pod request"


@pytest.mark.parametrize(
    ("phase", "release", "text"),
    [
        (Phase.MUTATE, "", "PodSecurityPolicy: unable to admit pod: "),
        (Phase.VALIDATE, "", "PodSecurityPolicy: unable to validate pod: "),
        (Phase.MUTATE, "1.10", "unable to validate against any pod security policy: "),
        (Phase.VALIDATE, "1.10", "unable to validate against any pod security policy: "),
    ],
)
def test_a_denial_lists_the_errors_of_every_policy(phase: Phase, release: str, text: str) -> None:
    privileged = pod_with_context(container={"privileged": True})
    found = admit(CONTROLLER, review(privileged, policy("b"), policy("a")), {"release": release}, [phase])
    fault = f"spec.containers[0].securityContext.privileged: {PRIVILEGED}"
    assert forbidden_text(found) == f"{text}[{fault} {fault}]"


def test_policies_that_may_not_be_used_are_not_mentioned() -> None:
    privileged = pod_with_context(container={"privileged": True}, hostPID=True)
    cluster = (
        policy("a", privileged=True),
        policy("b", hostPID=True),
        policy("c", privileged=True, hostPID=True),
    )
    found = admit(CONTROLLER, review(privileged, *cluster, authorizer=allowing("a")))
    assert forbidden_text(found) == (
        "PodSecurityPolicy: unable to admit pod: "
        "[spec.securityContext.hostPID: Invalid value: true: Host PID is not allowed to be used]"
    )
    nobody = Deciding(lambda _: False)
    found = admit(CONTROLLER, review(privileged, *cluster, authorizer=nobody))
    assert forbidden_text(found) == "PodSecurityPolicy: unable to admit pod: []"


def test_the_account_comes_before_the_user_and_the_new_group_before_the_old() -> None:
    nobody = Deciding(lambda _: False)
    reviewed = review(pod_with_context(serviceAccountName="cart"), policy("a"), authorizer=nobody)
    assert not admit(CONTROLLER, reviewed, phases=[Phase.MUTATE]).allowed
    assert [(attributes.user.username, attributes.group) for attributes in nobody.asked] == [
        ("system:serviceaccount:shop:cart", "policy"),
        ("system:serviceaccount:shop:cart", "extensions"),
        ("alice", "policy"),
        ("alice", "extensions"),
    ]
    first = nobody.asked[0]
    assert (first.verb, first.resource, first.name, first.namespace) == (
        "use",
        "podsecuritypolicies",
        "a",
        "shop",
    )
    assert first.user.groups == ("system:serviceaccounts", "system:serviceaccounts:shop")


def test_without_an_account_only_the_user_counts() -> None:
    asked = allowing()
    assert admit(CONTROLLER, review(pod_with_context(), policy("a"), authorizer=asked)).allowed
    assert {attributes.user.username for attributes in asked.asked} == {"alice"}


def role(kind: str, name: str, *, group: str = "policy", names: JSON = None) -> JSONObject:
    rule = {"apiGroups": [group], "resources": ["podsecuritypolicies"], "verbs": ["use"]}
    metadata = {"name": name} | ({"namespace": "shop"} if kind == "Role" else {})
    named = {} if names is None else {"resourceNames": names}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [{**rule, **named}],
    }


def binding(role: JSONObject, place: str, subject: JSONObject) -> JSONObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{role['metadata']['name']}-{subject['name']}", "namespace": place},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        },
        "subjects": [subject],
    }


ONE = role("Role", "one", names=["b"])
ALL = role("ClusterRole", "all", group="extensions")
ACCOUNT = {"kind": "ServiceAccount", "name": "cart", "namespace": "shop"}
ALICE = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
ACCOUNTS = {"kind": "Group", "name": "system:serviceaccounts:shop", "apiGroup": "rbac.authorization.k8s.io"}


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        ([], None),
        ([ONE, binding(ONE, "shop", ACCOUNT)], "b"),
        ([ONE, binding(ONE, "shop", ALICE)], "b"),
        ([ALL, binding(ALL, "shop", ACCOUNTS)], "a"),
        ([ALL, binding(ALL, "other", ALICE)], None),
    ],
)
def test_roles_grant_the_use_of_policies(objects: list[JSONObject], found: str | None) -> None:
    cluster = [policy("a"), policy("b"), *objects]
    reviewed = review(pod_with_context(serviceAccountName="cart"), *cluster)
    reviewed = msgspec.structs.replace(reviewed, authorizer=RbacAuthorizer(reviewed.cluster))
    admitted = admit(CONTROLLER, reviewed)
    assert (chosen(admitted) if admitted.allowed else None) == found


def test_grants_for_the_old_group_count_too() -> None:
    old = {**policy("old"), "apiVersion": "extensions/v1beta1"}
    assert chosen(admit(CONTROLLER, review(pod_with_context(), old))) == "old"


def test_an_invalid_policy_is_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    broken = policy("a", fsGroup={"rule": "Sometimes"}, runAsUser={"rule": "MustRunAs"})
    reviewed = review(pod_with_context(), broken, policy("b"))
    with caplog.at_level(logging.WARNING):
        assert chosen(admit(CONTROLLER, reviewed)) == "b"
    (record,) = caplog.records
    assert record.__dict__["reason"] == (
        "error creating provider for PSP a: [MustRunAsRange requires at least one range, "
        "Unrecognized FSGroup strategy type Sometimes]"
    )
    found = admit(CONTROLLER, review(pod_with_context(), broken))
    assert forbidden_text(found) == "PodSecurityPolicy: no providers available to validate pod request"


def test_a_changed_policy_is_read_again() -> None:
    handlers = configure_controller(CONTROLLER, None).handlers
    assert handlers.validate is not None
    store = ObjectStore([policy("a", privileged=True)])
    reviewed = msgspec.structs.replace(
        review(pod_with_context(container={"privileged": True})), cluster=store
    )
    assert isinstance(answer_of(handlers.validate, reviewed), Allow)
    store.put(policy("a"))
    assert not isinstance(answer_of(handlers.validate, reviewed), Allow)


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize(
    ("reviewed", "type_name"),
    [(None, "<nil>"), ({"apiVersion": "v1", "kind": "Service"}, "*core.Service"), ([], "<nil>")],
)
def test_an_object_other_than_a_pod_is_denied(reviewed: JSON, type_name: str, phase: Phase) -> None:
    found = admit(CONTROLLER, review(reviewed, policy()), phases=[phase])
    assert forbidden_text(found) == f"unexpected type {type_name}"


@pytest.mark.parametrize("phase", list(Phase))
def test_a_field_of_the_wrong_type_is_a_bad_request_without_its_value(phase: Phase) -> None:
    found = admit(
        CONTROLLER, review(pod_with_context(container={"privileged": "secret"}), policy()), phases=[phase]
    )
    assert found.status is not None
    assert (found.status.code, found.status.reason) == (400, "BadRequest")
    assert "$.spec.containers[0].securityContext.privileged" in found.status.message
    assert "secret" not in found.status.message


def test_an_unknown_release_is_rejected() -> None:
    with pytest.raises(
        ConfigurationError, match=r'release: Unsupported value: "1\.9": supported values: "1\.10"'
    ):
        configure_controller(CONTROLLER, {"release": "1.9"})


@given(confined_pods(), policies("a"))
def test_the_result_of_the_mutating_phase_passes_validation(reviewed: JSONObject, a: JSONObject) -> None:
    changed = admit(CONTROLLER, review(reviewed, a), phases=[Phase.MUTATE])
    event(f"admitted: {changed.allowed}")
    if changed.allowed:
        left = review(changed.object, a)
        assert admit(CONTROLLER, left, phases=[Phase.VALIDATE]).allowed


@given(confined_pods(), policies("a"), policies("b"))
def test_a_second_pass_changes_nothing(reviewed: JSONObject, a: JSONObject, b: JSONObject) -> None:
    once = admit(CONTROLLER, review(reviewed, a, b))
    if once.allowed:
        again = admit(CONTROLLER, review(once.object, a, b))
        assert again.allowed
        # An earlier policy that does not allow its own defaults may allow those of a later one.
        assert {operation["path"] for operation in again.operations} <= {
            "/metadata/annotations/kubernetes.io~1psp"
        }
        third = admit(CONTROLLER, review(again.object, a, b))
        assert (third.allowed, third.operations) == (True, ())


@given(confined_pods(), policies("a"), policies("b"))
def test_a_pod_that_one_policy_admits_unchanged_is_changed_by_none(
    reviewed: JSONObject, a: JSONObject, b: JSONObject
) -> None:
    alone = admit(CONTROLLER, review(reviewed, b))
    if not alone.allowed or changes(reviewed, alone):
        return
    event("admitted unchanged")
    both = admit(CONTROLLER, review(reviewed, a, b))
    assert both.allowed
    assert not changes(reviewed, both)


def changes(reviewed: JSONObject, found: Admission) -> bool:
    """Whether anything but the annotation that names the policy has changed."""
    before, after = (
        {
            **document,
            "metadata": {**document.get("metadata", {}), "annotations": other_annotations(document)},
        }
        for document in (reviewed, found.object)
    )
    return before != after


def other_annotations(document: JSONObject) -> JSONObject:
    annotations = member(document, "metadata", "annotations") or {}
    return {key: value for key, value in annotations.items() if key != POLICY_ANNOTATION}
