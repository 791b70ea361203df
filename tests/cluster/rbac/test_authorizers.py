"""The RBAC authorizer. The tables are those of rbac_test.go and rule_test.go."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.cluster import authorization
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision, RbacAuthorizer
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore, ReloadableCluster
from support.role_bindings import GROUP, binding, role, role_of, rule
from support.strategies import rbac

ANN = UserInfo("ann")


def asked(
    verb: str = "get", resource: str = "pods", namespace: str = "", user: UserInfo = ANN
) -> AuthorizationAttributes:
    plain, _, subresource = resource.partition("/")
    return AuthorizationAttributes(
        user=user, verb=verb, resource=plain, subresource=subresource, namespace=namespace
    )


def url(verb: str, path: str, user: str = "", *groups: str) -> AuthorizationAttributes:
    return AuthorizationAttributes(user=UserInfo(user, groups=groups), verb=verb, path=path)


def by(user: str, *groups: str) -> UserInfo:
    return UserInfo(user, groups=groups)


EVERYTHING = rule(["*"], groups=["*"], resources=["*"], urls=["*"])
ADMINS = [
    role_of("admin", EVERYTHING),
    binding("admins", "ClusterRole/admin", "User/admin", "Group/admins", namespace="ns1"),
]
URLS = [
    role("getter", verbs=["get"], urls=["/apis"]),
    role("all", verbs=["*"], urls=["/apis"]),
    role("prefix", verbs=["get"], urls=["/apis/*"]),
    binding("getter", "ClusterRole/getter", "User/foo", "Group/bar"),
    binding("all", "ClusterRole/all", "User/admin", "Group/admin"),
    binding("prefix", "ClusterRole/prefix", "User/prefixed", "Group/prefixed"),
]


def for_pods(*resources: str) -> list[JSONObject]:
    return [role("admin", verbs=["*"], groups=["*"], resources=resources), ADMINS[1]]


@pytest.mark.parametrize(
    ("cluster", "question", "allowed"),
    [
        (ADMINS, asked("get", "Pods", "ns1", by("admin")), True),
        (ADMINS, asked("watch", "Pods", "ns1", by("admin")), True),
        (ADMINS, asked("watch", "Foobar", "ns1", by("admin", "group1")), True),
        (ADMINS, asked("watch", "Foobar", "ns1", by("joe", "admins")), True),
        (ADMINS, asked("watch", "Foobar", "ns1", by("joe", "group1", "admins")), True),
        (ADMINS, asked("GET", "Pods", "ns2", by("admin")), False),
        (ADMINS, asked("GET", "Nodes", "", by("admin")), False),
        (ADMINS, asked("GET", "Pods", "ns2", by("admin", "admins")), False),
        (ADMINS, asked("GET", "Nodes", "", by("admin", "admins")), False),
        (URLS, url("get", "/apis", "foo"), True),
        (URLS, url("get", "/apis", "", "bar"), True),
        (URLS, url("get", "/apis", "admin"), True),
        (URLS, url("watch", "/apis", "", "admin"), True),
        (URLS, url("get", "/apis/v1", "prefixed"), True),
        (URLS, url("get", "/apis/v1/foobar", "", "prefixed"), True),
        (URLS, url("watch", "/apis", "foo"), False),
        (URLS, url("watch", "/apis", "", "bar"), False),
        (URLS, url("get", "/api/v1", "foo"), False),
        (URLS, url("get", "/api/v1", "", "admin"), False),
        (URLS, url("get", "/api/v1", "prefixed"), False),
        (for_pods("pods"), asked("get", "pods", "ns1", by("admin")), True),
        (for_pods("pods"), asked("get", "pods/status", "ns1", by("admin")), False),
        (for_pods("pods/status"), asked("get", "pods/status", "ns1", by("admin")), True),
        (for_pods("pods/status"), asked("get", "pods", "ns1", by("admin")), False),
    ],
)
def test_requests_are_authorized_as_in_kubernetes(
    cluster: Sequence[JSONObject], question: AuthorizationAttributes, *, allowed: bool
) -> None:
    assert RbacAuthorizer(ObjectStore(cluster)).authorize(question).allowed is allowed


THINGS = [
    role_of(
        "readthings",
        rule(["GET", "WATCH"], groups=["v1"], resources=["pods"]),
        rule(["GET", "WATCH"], groups=["v1"], resources=["services"]),
        namespace="namespace1",
    ),
    role("cluster-admin", verbs=["*"], groups=["*"], resources=["*"]),
    role("write-nodes", verbs=["PUT", "CREATE", "UPDATE"], groups=["v1"], resources=["nodes"]),
    binding("a", "Role/readthings", "User/foobar", "Group/group1", namespace="namespace1"),
    binding("b", "ClusterRole/cluster-admin", "User/admin", "Group/admin"),
]


@pytest.mark.parametrize(
    ("user", "namespace", "granted"),
    [
        (by("foobar"), "namespace1", ["GET pods", "GET services"]),
        (by("foobar"), "namespace2", []),
        (by("foobar", "admin"), "", ["GET pods", "GET services", "PUT nodes"]),
        (by("", "group1"), "namespace1", ["GET pods", "GET services"]),
        (by(""), "", []),
    ],
)
def test_roles_are_for_their_namespace_and_cluster_roles_for_all(
    user: UserInfo, namespace: str, granted: list[str]
) -> None:
    authorizer = RbacAuthorizer(ObjectStore(THINGS))
    found = [
        item
        for item in ("GET pods", "GET services", "PUT nodes")
        if authorizer.authorize(
            AuthorizationAttributes(
                user=user, verb=item.split()[0], group="v1", resource=item.split()[1], namespace=namespace
            )
        ).allowed
    ]
    assert found == granted


VIEW = role("view", verbs=["get"], resources=["pods"])


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (
            [VIEW, binding("all", "ClusterRole/view", "User/ann")],
            'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "view" to User "ann"',
        ),
        (
            [
                VIEW,
                binding("z", "ClusterRole/view", "User/ann"),
                binding("a", "ClusterRole/view", "Group/staff"),
            ],
            'RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "view" to Group "staff"',
        ),
        (
            [VIEW, binding("b", "ClusterRole/view", "User/ann", namespace="shop")],
            'RBAC: allowed by RoleBinding "b/shop" of ClusterRole "view" to User "ann"',
        ),
        (
            [
                VIEW,
                binding("gone", "ClusterRole/gone", "User/ann"),
                binding("b", "ClusterRole/view", "User/ann", namespace="shop"),
                binding("z", "ClusterRole/view", "User/ann"),
            ],
            'RBAC: allowed by ClusterRoleBinding "z" of ClusterRole "view" to User "ann"',
        ),
    ],
)
def test_the_granting_binding_is_the_reason(cluster: list[JSONObject], reason: str) -> None:
    question = asked(namespace="shop", user=by("ann", "staff"))
    assert RbacAuthorizer(ObjectStore(cluster)).authorize(question) == AuthorizationDecision(
        allowed=True, reason=reason
    )


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        ([], ""),
        ([binding("a", "ClusterRole/gone", "User/bob")], ""),
        (
            [binding("a", "ClusterRole/gone", "User/ann")],
            'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found',
        ),
        (
            [binding("a", "Role/gone", "User/ann", namespace="shop")],
            'RBAC: role.rbac.authorization.k8s.io "gone" not found',
        ),
        (
            [binding("a", "Role/there", "User/ann"), role("there", "shop", verbs=["*"], resources=["*"])],
            'RBAC: role.rbac.authorization.k8s.io "there" not found',
        ),
        (
            [binding("a", "Group/there", "User/ann")],
            'RBAC: unsupported role reference kind: "Group"',
        ),
        (
            [
                binding("a", "ClusterRole/gone", "User/ann"),
                binding("b", "ClusterRole/gone", "User/ann"),
                binding("a", "Role/lost", "User/ann", namespace="shop"),
            ],
            (
                'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found,'
                ' role.rbac.authorization.k8s.io "lost" not found]'
            ),
        ),
    ],
)
def test_a_denial_names_missing_roles(cluster: list[JSONObject], reason: str) -> None:
    found = RbacAuthorizer(ObjectStore(cluster)).authorize(asked(namespace="shop"))
    assert found == AuthorizationDecision(allowed=False, reason=reason)


def test_without_roles_only_masters_are_allowed() -> None:
    question = asked("delete", "nodes", user=by("root", "system:masters"))
    for cluster in (ANY_NAMESPACE, ObjectStore()):
        assert RbacAuthorizer(cluster).authorize(question) == AuthorizationDecision(allowed=True)
        assert RbacAuthorizer(cluster).authorize(asked()) == AuthorizationDecision(allowed=False)


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_rbac_objects_of_every_version_count(version: str) -> None:
    written = [
        item | {"apiVersion": f"{GROUP}/{version}"}
        for item in (VIEW, binding("all", "ClusterRole/view", "User/ann"))
    ]
    assert RbacAuthorizer(ObjectStore(written)).authorize(asked()).allowed


def test_aggregated_rules_grant_access() -> None:
    aggregating = role_of("all") | {
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    }
    view = role_of("view", rule(["get"], resources=["pods"]), to="all")
    bound = binding("all", "ClusterRole/all", "User/ann")
    assert RbacAuthorizer(ObjectStore([aggregating, view, bound])).authorize(asked()).allowed
    assert not RbacAuthorizer(ObjectStore([aggregating, VIEW, bound])).authorize(asked()).allowed


def test_added_and_removed_bindings_count_at_once() -> None:
    store = ObjectStore()
    authorizer = RbacAuthorizer(store)
    question = asked(namespace="shop")
    for added in (
        binding("b", "Role/view", "User/ann", namespace="shop"),
        role("view", "bank", verbs=["get"], resources=["pods"]),
        role("view", "shop", verbs=["list"], resources=["pods"]),
    ):
        store.put(added)
        assert not authorizer.authorize(question).allowed
    store.put(role("view", "shop", verbs=["get"], resources=["pods"]))
    assert authorizer.authorize(question).allowed
    store.remove(GROUP, "rolebindings", "b", "shop")
    assert not authorizer.authorize(question).allowed


def test_a_reloaded_cluster_is_asked_for_its_current_content() -> None:
    empty, full = ObjectStore(), ObjectStore([VIEW, binding("all", "ClusterRole/view", "User/ann")])
    cluster = ReloadableCluster(empty)
    authorizer = RbacAuthorizer(cluster)
    for content, allowed in ((empty, False), (full, True), (empty, False)):
        cluster.swap(content)
        assert authorizer.authorize(asked()).allowed is allowed


def test_compiled_rules_are_cached_while_nothing_changes() -> None:
    store = ObjectStore([VIEW, binding("all", "ClusterRole/view", "User/ann")])

    def compiled() -> tuple[object, ...]:
        found = authorization.rbac_cache_of(store)
        RbacAuthorizer(store).authorize(asked(namespace="shop"))
        return found.cluster_role_bindings(store), found.cluster_roles(store)

    bindings, roles = compiled()
    assert compiled() == (bindings, roles)
    store.put(binding("more", "ClusterRole/view", "User/bob"))
    bindings_now, roles_now = compiled()
    assert (bindings_now is bindings, roles_now is roles) == (False, True)


def test_the_cache_is_freed_with_its_cluster() -> None:
    gc.collect()
    before = len(authorization._RBAC_CACHES)  # noqa: SLF001 - nobody else can tell
    store = ObjectStore([VIEW])
    RbacAuthorizer(store).authorize(asked())
    assert len(authorization._RBAC_CACHES) == before + 1  # noqa: SLF001
    del store
    gc.collect()
    assert len(authorization._RBAC_CACHES) == before  # noqa: SLF001


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (VIEW | {"rules": "all"}, "rules: Expected `array | null`, got `str`"),
        (VIEW | {"rules": [{"verbs": [1]}]}, "rules[0].verbs[0]: Expected `str`, got `int`"),
        (
            binding("all", "ClusterRole/view") | {"subjects": ["ann"]},
            "subjects[0]: Expected `object`, got `str`",
        ),
    ],
)
def test_a_malformed_rbac_object_cannot_be_stored(document: JSONObject, text: str) -> None:
    with pytest.raises(InputError) as caught:
        ObjectStore([document])
    assert str(caught.value) == text


def naive(cluster: ObjectStore, question: AuthorizationAttributes) -> bool:
    """Ask every rule of every role of every binding, as the documentation of Kubernetes has it."""
    if "system:masters" in question.user.groups:
        return True
    return any(
        grants(rule, question)
        for bound in applying(cluster, question)
        for rule in rules_of(cluster, bound["roleRef"], bound["metadata"].get("namespace"))
    )


def applying(cluster: ObjectStore, question: AuthorizationAttributes) -> Iterator[JSONObject]:
    here = cluster.list(GROUP, "rolebindings", question.namespace) if question.namespace else ()
    for bound in (*cluster.list(GROUP, "clusterrolebindings"), *here):
        namespace = bound["metadata"].get("namespace", "")
        if any(means(subject, question.user, namespace) for subject in bound["subjects"]):
            yield bound


def means(subject: JSONObject, user: UserInfo, namespace: str) -> bool:
    if subject["kind"] == "User":
        return bool(subject["name"] == user.username)
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    where = subject.get("namespace", namespace)
    account = f"system:serviceaccount:{where}:{subject['name']}"
    return subject["kind"] == "ServiceAccount" and where and user.username == account


def rules_of(cluster: ObjectStore, reference: JSONObject, namespace: str | None) -> list[JSONObject]:
    if reference["kind"] == "ClusterRole":
        return aggregated(cluster, reference["name"], frozenset())
    if reference["kind"] != "Role" or not namespace:
        return []
    found = cluster.get(GROUP, "roles", reference["name"], namespace)
    return found["rules"] if found else []


def aggregated(cluster: ObjectStore, name: str, above: frozenset[str]) -> list[JSONObject]:
    found = cluster.get(GROUP, "clusterroles", name)
    if found is None or name in above:
        return []
    rules = list(found["rules"])
    for selector in found.get("aggregationRule", {}).get("clusterRoleSelectors", ()):
        for other in cluster.list(GROUP, "clusterroles"):
            if other["metadata"].get("labels", {}).get("to") == selector["matchLabels"]["to"]:
                rules += aggregated(cluster, other["metadata"]["name"], above | {name})
    return rules


def grants(rule: JSONObject, question: AuthorizationAttributes) -> bool:
    def names(field: str, value: str) -> bool:
        return not {"*", value}.isdisjoint(rule.get(field, ()))

    if question.path:
        return names("verbs", question.verb) and any(
            question.path == item or (item.endswith("*") and question.path.startswith(item[:-1]))
            for item in rule.get("nonResourceURLs", ())
        )
    full = f"{question.resource}/{question.subresource}" if question.subresource else question.resource
    everywhere = question.subresource and f"*/{question.subresource}" in rule.get("resources", ())
    only = rule.get("resourceNames", ())
    return bool(
        names("verbs", question.verb)
        and names("apiGroups", question.group)
        and (names("resources", full) or everywhere)
        and (not only or question.name in only)
    )


@given(rbac.clusters(), rbac.questions())
def test_the_decision_equals_asking_every_rule(
    objects: list[JSONObject], question: AuthorizationAttributes
) -> None:
    store = ObjectStore(objects)
    found = RbacAuthorizer(store).authorize(question)
    assert found.allowed is naive(store, question)
    assert not found.error


@given(rbac.clusters(), rbac.clusters(), rbac.questions())
def test_more_roles_and_bindings_never_revoke_a_grant(
    objects: list[JSONObject], more: list[JSONObject], question: AuthorizationAttributes
) -> None:
    smaller = ObjectStore(objects)
    larger = ObjectStore([*more, *objects])
    if RbacAuthorizer(smaller).authorize(question).allowed:
        assert RbacAuthorizer(larger).authorize(question).allowed
