"""OwnerReferencesPermissionEnforcement."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision
from pratique.cluster.store import ObjectStore
from pratique.controllers.owner_references_permission_enforcement import CONTROLLER
from support import vector_cases
from support.admissions import admit, forbidden_text, review_of
from support.expectations import check
from support.pods import pod
from support.role_bindings import binding, role

OTHER_ERAS: dict[str, JSONObject] = {
    "OwnerReferencesPermissionEnforcement-004": {"checkCreations": True},
    "OwnerReferencesPermissionEnforcement-006": {"checkCreations": True},
}
"""Cases of releases before 1.11, which also asked about new objects."""


@dataclasses.dataclass(frozen=True)
class Refusing:
    """The authorizer of a case: it allows everything that its rules do not deny."""

    rules: Sequence[JSONObject]

    def authorize(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        facts = msgspec.structs.asdict(asked) | {"user": asked.user.username}
        return AuthorizationDecision(allowed=not any(rule.items() <= facts.items() for rule in self.rules))


def types_of(mapper: JSONObject) -> Iterator[ResourceType]:
    for name, mapped in mapper.items():
        api_version, _, kind = name.rpartition("/")
        group, _, version = api_version.rpartition("/")
        resource = GroupVersionResource(group, version, mapped["resource"])
        yield ResourceType(
            resource=resource, kind=GroupVersionKind(group, version, kind), namespaced=mapped["namespaced"]
        )


@pytest.mark.parametrize(
    "case", vector_cases.plugin("OwnerReferencesPermissionEnforcement"), ids=vector_cases.source
)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    decisions = case["external"]["authorizer"]
    assert decisions["default"] == "allow"
    resources = ApiResources(types_of(case["external"]["restMapper"]))
    review = review_of(case["request"], ObjectStore(case["cluster"], resources=resources))
    review = msgspec.structs.replace(review, authorizer=Refusing(decisions["deny"]))
    check(admit(CONTROLLER, review, OTHER_ERAS.get(case["id"])), case["expected"])


def owner(name: str = "cart", kind: str = "ReplicaSet", **fields: JSON) -> JSONObject:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name} | fields


def blocking(name: str = "cart", **fields: JSON) -> JSONObject:
    return owner(name, blockOwnerDeletion=True, **fields)


def pod_with_owners(*owners: JSONObject) -> JSONObject:
    return pod(metadata={"ownerReferences": list(owners)})


DELETER = (
    role("deleter", "shop", verbs=["delete"], resources=["pods"]),
    binding("deleters", "Role/deleter", "User/ann", namespace="shop"),
)


def finalizer(*names: str, resources: str = "replicasets", namespace: str = "shop") -> list[JSONObject]:
    rule = {"verbs": ["update"], "groups": ["apps"], "resources": [f"{resources}/finalizers"]}
    kind = "Role" if namespace else "ClusterRole"
    return [
        role("finalizer", namespace, **rule, names=list(names)),
        binding("finalizers", f"{kind}/finalizer", "User/ann", namespace=namespace),
    ]


def review(new: JSON, old: JSON = None, *cluster: JSONObject, **fields: JSON) -> Review:
    request: JSONObject = {
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "name": "web",
        "userInfo": {"username": "ann"},
        "object": new,
        "oldObject": old,
    }
    return review_of(request | fields, ObjectStore(cluster))


CANNOT_DELETE = "cannot set an ownerRef on a resource you can't delete: , <nil>"
CANNOT_FINALIZE = (
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
    ": , <nil>"
)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (pod_with_owners(owner()), pod_with_owners()),
        (pod_with_owners(), pod_with_owners(owner())),
        (pod_with_owners(owner()), pod_with_owners(owner("till"))),
        (pod_with_owners(owner(), owner("till")), pod_with_owners(owner("till"), owner())),
        (pod_with_owners(owner(controller=False)), pod_with_owners(owner())),
    ],
)
def test_a_user_who_may_not_delete_an_object_may_not_change_its_owners(
    new: JSONObject, old: JSONObject
) -> None:
    assert forbidden_text(admit(CONTROLLER, review(new, old))) == CANNOT_DELETE
    assert admit(CONTROLLER, review(new, old, *DELETER)).allowed


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (pod_with_owners(owner()), pod_with_owners(owner())),
        (pod_with_owners(blocking()), pod_with_owners(blocking())),
        (pod_with_owners(), {"metadata": {"ownerReferences": None}}),
        (pod_with_owners(owner(controller=None)), pod_with_owners(owner())),
        (pod_with_owners(owner(later="1")), pod_with_owners(owner())),
        ({"kind": "Scale"}, pod_with_owners(owner())),
        (pod_with_owners(owner()), {"kind": "Scale"}),
    ],
)
def test_requests_that_change_no_owner_are_admitted(new: JSONObject, old: JSONObject) -> None:
    assert admit(CONTROLLER, review(new, old)).allowed


def test_a_user_who_creates_an_object_may_set_its_owners() -> None:
    assert admit(CONTROLLER, review(pod_with_owners(owner()))).allowed
    before_1_11 = {"checkCreations": True}
    assert forbidden_text(admit(CONTROLLER, review(pod_with_owners(owner())), before_1_11)) == CANNOT_DELETE


def test_the_status_of_pods_is_ignored_but_other_subresources_are_checked() -> None:
    new, old = pod_with_owners(owner()), pod_with_owners()
    assert admit(CONTROLLER, review(new, old, subResource="status")).allowed
    assert not admit(CONTROLLER, review(new, old, *DELETER, subResource="ephemeralcontainers")).allowed


@pytest.mark.parametrize(
    ("old", "blocks"),
    [
        (None, True),
        (pod_with_owners(), True),
        (pod_with_owners(owner()), True),
        (pod_with_owners(owner(blockOwnerDeletion=False)), True),
        (pod_with_owners(blocking("till", uid="cart")), False),
        (pod_with_owners(blocking(uid="other")), True),
    ],
)
def test_a_user_who_may_not_finalize_an_owner_may_not_block_its_deletion(old: JSON, *, blocks: bool) -> None:
    found = admit(CONTROLLER, review(pod_with_owners(blocking()), old, *DELETER))
    assert found.allowed is not blocks
    if blocks:
        assert forbidden_text(found) == CANNOT_FINALIZE
    assert admit(CONTROLLER, review(pod_with_owners(blocking()), old, *DELETER, *finalizer("cart"))).allowed


def test_every_blocked_owner_is_checked() -> None:
    new = pod_with_owners(blocking(), owner("lamp"), blocking("till"))
    assert forbidden_text(admit(CONTROLLER, review(new, None, *finalizer("cart")))) == CANNOT_FINALIZE
    assert admit(CONTROLLER, review(new, None, *finalizer("cart", "till"))).allowed


@pytest.mark.parametrize(
    ("namespace", "resources", "allowed"),
    [
        ("", "machines", True),
        ("shop", "machines", False),
        ("shop", "*", False),
        ("", "*", True),
    ],
)
def test_a_cluster_scoped_owner_needs_a_cluster_wide_grant(
    namespace: str, resources: str, *, allowed: bool
) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "machines.apps"},
        "spec": {
            "group": "apps",
            "scope": "Cluster",
            "names": {"plural": "machines", "kind": "Machine"},
            "versions": [{"name": "v7", "served": True, "storage": True}],
        },
    }
    new = pod_with_owners(blocking(kind="Machine", apiVersion="apps/v7"))
    grants = finalizer(resources=resources, namespace=namespace)
    assert admit(CONTROLLER, review(new, None, definition, *grants)).allowed is allowed


@pytest.mark.parametrize(
    ("api_version", "kind", "text"),
    [
        ("apps/v1", "Cart", 'no matches for kind "Cart" in version "apps/v1"'),
        ("v1", "ReplicaSet", 'no matches for kind "ReplicaSet" in version "v1"'),
        (
            "extensions/v1beta1",
            "ReplicaSet",
            'no matches for kind "ReplicaSet" in version "extensions/v1beta1"',
        ),
        ("a/b/c", "ReplicaSet", "unexpected GroupVersion string: a/b/c"),
        ("", "ReplicaSet", 'no matches for kind "ReplicaSet" in version ""'),
        ("apps/", "Cart", 'no matches for kind "Cart" in version "apps/"'),
    ],
)
def test_an_owner_of_an_unknown_kind_cannot_be_blocked(api_version: str, kind: str, text: str) -> None:
    new = pod_with_owners(blocking(kind=kind, apiVersion=api_version))
    assert forbidden_text(admit(CONTROLLER, review(new, None, *finalizer()))) == (
        "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for"
        f" APIVersion {api_version} Kind {kind}: {text}"
    )


@pytest.mark.parametrize(("api_version", "kind"), [("apps/v1", "replicaset"), ("apps/", "ReplicaSet")])
def test_kinds_are_mapped_as_kubernetes_rest_mapper_does(api_version: str, kind: str) -> None:
    new = pod_with_owners(blocking(kind=kind, apiVersion=api_version))
    assert admit(CONTROLLER, review(new, None, *finalizer())).allowed


def test_a_user_who_may_finalize_everything_may_block_unknown_kinds() -> None:
    new = pod_with_owners(blocking(kind="Cart"))
    everything = role("all", "", verbs=["update"], groups=["*"], resources=["*/finalizers"])
    bound = binding("all", "ClusterRole/all", "User/ann")
    assert admit(CONTROLLER, review(new, None, everything, bound)).allowed
    here_only = binding("all", "ClusterRole/all", "User/ann", namespace="shop")
    assert "cannot find RESTMapping" in forbidden_text(
        admit(CONTROLLER, review(new, None, everything, here_only))
    )


def test_the_denial_contains_the_authorizers_reason_and_error() -> None:
    failing = msgspec.structs.replace(
        review(pod_with_owners(owner()), pod_with_owners()),
        authorizer=Answering(AuthorizationDecision(allowed=False, reason="no", error="lost")),
    )
    assert forbidden_text(admit(CONTROLLER, failing)).endswith("you can't delete: no, lost")


@dataclasses.dataclass(frozen=True)
class Answering:
    decision: AuthorizationDecision

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        return self.decision


def test_malformed_owner_references_are_a_bad_request() -> None:
    found = admit(CONTROLLER, review({"metadata": {"ownerReferences": ["secret"]}}))
    assert found.status is not None
    assert (found.status.code, found.status.reason) == (400, "BadRequest")
    assert "secret" not in found.status.message


REFERENCES = st.lists(
    st.fixed_dictionaries(
        {"apiVersion": st.just("apps/v1"), "kind": st.just("ReplicaSet"), "name": st.sampled_from("ab")},
        optional={"uid": st.sampled_from("12"), "blockOwnerDeletion": st.booleans()},
    ),
    max_size=3,
)
RIGHTS = st.sets(st.sampled_from(["delete", "a", "b"]))


def rights(held: set[str]) -> list[JSONObject]:
    return [*(DELETER if "delete" in held else ()), *(finalizer(*held) if held - {"delete"} else ())]


@given(REFERENCES, REFERENCES, RIGHTS)
def test_a_change_needs_delete_and_blocking_needs_finalizers(
    new: list[JSONObject], old: list[JSONObject], held: set[str]
) -> None:
    blocked = {reference.get("uid"): reference.get("blockOwnerDeletion") for reference in old}
    wanted = {"delete"} | {
        reference["name"]
        for reference in new
        if reference.get("blockOwnerDeletion") and not blocked.get(reference.get("uid"))
    }
    found = admit(CONTROLLER, review(pod_with_owners(*new), pod_with_owners(*old), *rights(held)))
    assert found.allowed is (new == old or wanted <= held)


@given(REFERENCES, REFERENCES, RIGHTS, RIGHTS)
def test_additional_rights_never_cause_a_denial(
    new: list[JSONObject], old: list[JSONObject], held: set[str], more: set[str]
) -> None:
    if admit(CONTROLLER, review(pod_with_owners(*new), pod_with_owners(*old), *rights(held))).allowed:
        assert admit(
            CONTROLLER, review(pod_with_owners(*new), pod_with_owners(*old), *rights(held | more))
        ).allowed
