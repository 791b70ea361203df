"""Bindings. The table of subjects is TestAppliesTo of rule_test.go."""

from __future__ import annotations

import pytest

from pratique.apimachinery.requests import UserInfo
from pratique.cluster.rbac import Bindings
from support.role_bindings import binding

ROBOT = "system:serviceaccount:kube-system:default"
EVERYBODY = ("Group/system:authenticated", "Group/system:unauthenticated")


def named(user: UserInfo, *subjects: str, namespace: str = "", version: str = "v1") -> list[str]:
    """The subjects by which a binding applies: at most one."""
    bound = binding("b", "ClusterRole/r", *subjects, namespace=namespace, version=version)
    grants = Bindings([bound], namespace).for_user(user)
    return [f"{grant.subject.kind}/{grant.subject.name}" for grant in grants]


@pytest.mark.parametrize(
    ("subjects", "user", "namespace", "by"),
    [
        (["User/foobar"], UserInfo("foobar"), "", ["User/foobar"]),
        (["User/barfoo", "User/foobar"], UserInfo("foobar"), "", ["User/foobar"]),
        (["User/barfoo", "User/foobar"], UserInfo("zimzam"), "", []),
        (["User/barfoo", "Group/foobar"], UserInfo("zimzam", groups=("foobar",)), "", ["Group/foobar"]),
        (["User/barfoo", "Group/foobar"], UserInfo("zimzam", groups=("foobar",)), "ns", ["Group/foobar"]),
        (["Group/foobar"], UserInfo("foobar"), "", []),
        (["User/foobar"], UserInfo("zimzam", groups=("foobar",)), "", []),
        (["ServiceAccount/kube-system/default"], UserInfo(ROBOT), "default", ["ServiceAccount/default"]),
        (["ServiceAccount/default"], UserInfo(ROBOT), "kube-system", ["ServiceAccount/default"]),
        (["ServiceAccount/default"], UserInfo(ROBOT), "default", []),
        (["ServiceAccount/default"], UserInfo(ROBOT), "", []),
        (["ServiceAccount/other/default"], UserInfo(ROBOT), "kube-system", []),
        ([f"User/{ROBOT}"], UserInfo(ROBOT), "", [f"User/{ROBOT}"]),
        (["User/*"], UserInfo("foobar", groups=("system:authenticated",)), "default", []),
        (EVERYBODY, UserInfo("foobar", groups=("system:authenticated",)), "default", [EVERYBODY[0]]),
        (EVERYBODY, UserInfo("foobar", groups=("system:unauthenticated",)), "default", [EVERYBODY[1]]),
        (["Robot/foobar"], UserInfo("foobar", groups=("foobar",)), "default", []),
        (["Group/b", "Group/a", "User/ann"], UserInfo("ann", groups=("a", "b")), "", ["Group/b"]),
        (["User/ann", "User/ann"], UserInfo("ann"), "", ["User/ann"]),
        ([], UserInfo("ann"), "", []),
    ],
)
def test_a_binding_applies_by_its_first_matching_subject(
    subjects: list[str], user: UserInfo, namespace: str, by: list[str]
) -> None:
    assert named(user, *subjects, namespace=namespace) == by


def test_in_v1alpha1_a_star_means_all_authenticated_users() -> None:
    known = UserInfo("foobar", groups=("system:authenticated",))
    assert named(known, "User/*", version="v1alpha1") == ["Group/system:authenticated"]
    assert named(known, "Group/*", version="v1alpha1") == []
    assert named(UserInfo("foobar"), "User/*", version="v1alpha1") == []
    assert named(known, "User/*", version="v1beta1") == []


@pytest.mark.parametrize(
    ("subject", "namespace", "text"),
    [
        ("User/ann", "", 'ClusterRoleBinding "b" of ClusterRole "r" to User "ann"'),
        ("User/ann", "shop", 'RoleBinding "b/shop" of ClusterRole "r" to User "ann"'),
        (
            "ServiceAccount/kube-system/default",
            "",
            'ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "default/kube-system"',
        ),
        (
            "ServiceAccount/default",
            "kube-system",
            'RoleBinding "b/kube-system" of ClusterRole "r" to ServiceAccount "default/kube-system"',
        ),
    ],
)
def test_a_grant_prints_as_in_the_api_server(subject: str, namespace: str, text: str) -> None:
    user = UserInfo("ann" if subject == "User/ann" else ROBOT)
    bound = binding("b", "ClusterRole/r", subject, namespace=namespace)
    assert [str(grant) for grant in Bindings([bound], namespace).for_user(user)] == [text]


def test_bindings_apply_in_their_order() -> None:
    bound = [binding(name, "ClusterRole/r", "Group/a", "User/ann") for name in "cab"]
    found = Bindings(bound).for_user(UserInfo("ann", groups=("a",)))
    assert [grant.binding.metadata.name for grant in found] == ["c", "a", "b"]
