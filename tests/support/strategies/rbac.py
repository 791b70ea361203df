"""Roles, bindings and questions, from so few words that they often meet."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import AuthorizationAttributes
from support import role_bindings

NAMESPACES = ["shop", "bank"]
NAMES = ["a", "b", "c"]
VERBS = ["get", "delete", "*"]
GROUPS = ["", "apps", "*"]
RESOURCES = ["pods", "pods/log", "*/log", "*", "logs"]
URLS = ["/a", "/a/*", "*", "/a/b"]
SUBJECTS = [
    "User/ann",
    "User/system:serviceaccount:shop:robot",
    "Group/staff",
    "Group/system:masters",
    "ServiceAccount/robot",
    "ServiceAccount/shop/robot",
    "Robot/ann",
]
LABELS = ["x", "y"]


def _some(values: Sequence[str], at_least: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=at_least, max_size=2)


def rules() -> st.SearchStrategy[JSONObject]:
    return st.builds(
        role_bindings.rule,
        _some(VERBS),
        groups=_some(GROUPS),
        resources=_some(RESOURCES),
        names=_some(NAMES),
        urls=_some(URLS),
    )


@st.composite
def roles(draw: st.DrawFn) -> JSONObject:
    """A Role or a ClusterRole; the latter may select others by the label ``to``."""
    namespace = draw(st.sampled_from(["", *NAMESPACES]))
    labels = {"to": draw(st.sampled_from(LABELS))} if draw(st.booleans()) else {}
    written = draw(st.lists(rules(), max_size=2))
    role = role_bindings.role_of(draw(st.sampled_from(NAMES)), *written, namespace=namespace, **labels)
    selected = draw(st.none() | _some(LABELS))
    if selected is None or namespace:
        return role
    selectors = [{"matchLabels": {"to": label}} for label in selected]
    return role | {"aggregationRule": {"clusterRoleSelectors": selectors}}


@st.composite
def bindings(draw: st.DrawFn) -> JSONObject:
    return role_bindings.binding(
        draw(st.sampled_from(NAMES)),
        f"{draw(st.sampled_from(['Role', 'ClusterRole', 'Group']))}/{draw(st.sampled_from(NAMES))}",
        *draw(_some(SUBJECTS)),
        namespace=draw(st.sampled_from(["", *NAMESPACES])),
    )


def clusters() -> st.SearchStrategy[list[JSONObject]]:
    """Objects of a cluster; of several of one name, the last is the one that is there."""
    return st.lists(roles() | bindings(), max_size=8)


def users() -> st.SearchStrategy[UserInfo]:
    names = st.sampled_from(["ann", "bob", "system:serviceaccount:shop:robot"])
    groups = st.sampled_from([(), ("staff",), ("staff", "system:authenticated"), ("system:masters",)])
    return st.builds(UserInfo, names, groups=groups)


def questions() -> st.SearchStrategy[AuthorizationAttributes]:
    for_resources = st.builds(
        AuthorizationAttributes,
        user=users(),
        verb=st.sampled_from(VERBS),
        group=st.sampled_from(GROUPS),
        resource=st.sampled_from(["pods", "logs", "*"]),
        subresource=st.sampled_from(["", "log"]),
        namespace=st.sampled_from(["", *NAMESPACES]),
        name=st.sampled_from(["", *NAMES]),
    )
    for_urls = st.builds(
        AuthorizationAttributes,
        user=users(),
        verb=st.sampled_from(VERBS),
        path=st.sampled_from(["/a", "/a/b", "/c"]),
    )
    return for_resources | for_urls
