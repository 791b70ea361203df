"""Roles and bindings of ``--cluster``, used by controllers and expressions in every engine."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
import yaml

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSONObject, encode
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import AuthorizationAttributes
from pratique.cluster.store import ANY_NAMESPACE, Cluster, ObjectStore, ReloadableCluster
from pratique.configuration.settings import ChainSettings
from pratique.manifests.requests import review_of_manifest
from pratique.rpc.messages import mutate_request, review_from_message
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local
from pratique_frontdoor.http.codecs import decode_review
from support import vector_cases
from support.admissions import Admission, review_of
from support.expectations import check
from support.pods import pod
from support.role_bindings import binding, role, role_of, rule
from support.webhook_servers import allowed, serve

OWNERS = "OwnerReferencesPermissionEnforcement"
BEFORE_1_11 = {f"{OWNERS}-004", f"{OWNERS}-006"}
"""Cases of releases that also checked new objects."""


def decide(settings: ChainSettings, store: ObjectStore, *reviews: Review) -> list[Decision]:
    async def decided() -> list[Decision]:
        engine = open_local(settings, store)
        try:
            return [await engine.decide(review, frozenset(Phase), Deadline.after(30)) for review in reviews]
        finally:
            await engine.close()

    return asyncio.run(decided())


def written(folder: Path, documents: Iterable[JSONObject]) -> tuple[Path]:
    file = folder / "configuration.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return (file,)


def granting(user: str, *rules: JSONObject) -> list[JSONObject]:
    return [role_of(user, *rules), binding(user, f"ClusterRole/{user}", f"User/{user}")]


def finalizing(*resources: str) -> JSONObject:
    return rule(
        ["update"], groups=["", "apps"], resources=[f"{resource}/finalizers" for resource in resources]
    )


ROLES = [
    *granting("super", rule(["*"], groups=["*"], resources=["*"])),
    *granting("non-deleter", rule(["update"], resources=["pods"])),
    *granting(
        "non-pod-deleter", rule(["delete"], resources=["not-pods"]), finalizing("replicationcontrollers")
    ),
    *granting("non-rc-deleter", rule(["delete"], resources=["pods"]), finalizing("daemonsets", "nodes")),
    *granting("non-node-deleter", rule(["delete"], resources=["pods"]), finalizing("replicationcontrollers")),
]
"""The permissions of the users of the cases, as far as they are checked."""


@pytest.mark.parametrize("case", vector_cases.plugin(OWNERS), ids=vector_cases.source)
def test_owner_references_are_authorized_by_rbac_as_in_the_tests_of_kubernetes(
    case: JSONObject, tmp_path: Path
) -> None:
    configuration = {"checkCreations": True} if case["id"] in BEFORE_1_11 else {}
    plugins = [{"name": OWNERS, "configuration": configuration}] if configuration else []
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": plugins,
    }
    (file,) = written(tmp_path, [document])
    settings = ChainSettings(admission_control=(OWNERS,), admission_control_config_file=file)
    store = ObjectStore([*case["cluster"], *ROLES])
    (decision,) = decide(settings, store, review_of(case["request"], store))
    check(Admission(decision.status, decision.object_document.data), case["expected"])


BLOCKED = pod(
    metadata={
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "cart",
                "uid": "1",
                "blockOwnerDeletion": True,
            }
        ]
    }
)


def test_a_role_added_between_two_reviews_applies_to_the_second() -> None:
    finalizer = role("finalizer", "shop", verbs=["update"], groups=["apps"], resources=["*/finalizers"])
    bound = binding("admins", "Role/finalizer", "Group/kubeadm:cluster-admins", namespace="shop")
    store = ObjectStore([finalizer])
    review = review_of_manifest(BLOCKED, store.resources, cluster=store)

    async def twice() -> list[bool]:
        engine = open_local(ChainSettings(admission_control=(OWNERS,)), store)
        try:
            before = await engine.decide(review, frozenset(Phase), Deadline.after(30))
            store.put(bound)
            after = await engine.decide(review, frozenset(Phase), Deadline.after(30))
        finally:
            await engine.close()
        return [before.allowed, after.allowed]

    assert asyncio.run(twice()) == [False, True]


GATE = "authorizer.group('').resource('pods').namespace(request.namespace).name('web').check('delete')"
GRANTS = [
    role("deleter", "shop", verbs=["delete"], resources=["pods"], names=["web"]),
    binding(
        "deleters", "Role/deleter", "Group/kubeadm:cluster-admins", "ServiceAccount/robot", namespace="shop"
    ),
    role("creator", verbs=["create"], resources=["pods"]),
    binding("creators", "ClusterRole/creator", "User/kubernetes-admin"),
    role("prober", verbs=["get"], urls=["/healthz/*"]),
    binding("probers", "ClusterRole/prober", "Group/system:authenticated"),
    binding("lost", "ClusterRole/gone", "Group/system:serviceaccounts:bank"),
]
REASON = 'RBAC: allowed by RoleBinding "deleters/shop" of Role "deleter" to Group "kubeadm:cluster-admins"'


@pytest.mark.parametrize(
    "condition",
    [
        f"{GATE}.allowed()",
        f"{GATE}.reason() == '{REASON}'",
        f"!{GATE}.errored() && {GATE}.error() == ''",
        "!authorizer.group('').resource('pods').namespace('shop').name('db').check('delete').allowed()",
        "!authorizer.group('').resource('pods').namespace('bank').name('web').check('delete').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "!authorizer.requestResource.check('patch').allowed()",
        "authorizer.path('/healthz/ready').check('get').allowed()",
        "!authorizer.path('/metrics').check('get').allowed()",
        (
            "authorizer.serviceAccount('shop', 'robot').group('').resource('pods').namespace('shop').name('web')"
            ".fieldSelector('spec.nodeName=n').labelSelector('a=b').check('delete').allowed()"
        ),
        (
            "authorizer.serviceAccount('bank', 'robot').group('').resource('pods').check('get').reason()"
            " == 'RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found'"
        ),
    ],
)
def test_match_conditions_of_webhooks_use_rbac(condition: str, tmp_path: Path) -> None:
    with serve({"/a": allowed()}) as server:
        called = {"url": f"{server.url}/a", "caBundle": base64.b64encode(server.ca_bundle).decode()}
        webhook = {
            "name": "a.tests.example.com",
            "clientConfig": called,
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "matchConditions": [{"name": "granted", "expression": condition}],
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "tests"},
            "webhooks": [webhook],
        }
        settings = ChainSettings(
            config=written(tmp_path, [configuration]), admission_control=("ValidatingAdmissionWebhook",)
        )
        store = ObjectStore(GRANTS)
        review = review_of_manifest(pod(), store.resources, cluster=store)
        (decision,) = decide(settings, store, review)
    assert decision.allowed, decision.status
    assert len(server.received) == 1


def test_initializers_need_a_role() -> None:
    may_initialize = [
        role("initializer", verbs=["initialize"], resources=["pods"]),
        binding("initializers", "ClusterRole/initializer", "User/kubernetes-admin"),
    ]
    waiting = pod(metadata={"initializers": {"pending": [{"name": "mine.example.com"}]}})
    settings = ChainSettings(admission_control=("Initializers",))
    for cluster, expected in ((ObjectStore(), False), (ObjectStore(may_initialize), True)):
        review = review_of_manifest(waiting, cluster.resources, cluster=cluster)
        (decision,) = decide(settings, cluster, review)
        assert decision.allowed is expected


def test_the_user_sees_the_reason_of_a_denial() -> None:
    store = ObjectStore([binding("lost", "ClusterRole/gone", "User/kubernetes-admin")])
    review = review_of_manifest(BLOCKED, store.resources, cluster=store)
    (decision,) = decide(ChainSettings(admission_control=(OWNERS,)), store, review)
    assert decision.status is not None
    assert msgspec.to_builtins(decision.status)["message"] == (
        'pods "web" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can\'t'
        ' set finalizers on: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found, <nil>'
    )


VIEWER = ObjectStore(
    [role("view", verbs=["get"], resources=["pods"]), binding("a", "ClusterRole/view", "User/ann")]
)


def received(cluster: Cluster) -> Review:
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "ann"},
        "object": pod(),
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return decode_review(encode(document), cluster).review


def applied(cluster: Cluster) -> Review:
    return review_of_manifest(pod(), cluster.resources, cluster=cluster, user=UserInfo("ann"))


def passed_on(cluster: Cluster) -> Review:
    return review_from_message(mutate_request(received(ANY_NAMESPACE), []).review, cluster)


@pytest.mark.parametrize("arriving", [received, applied, passed_on])
def test_every_way_to_submit_a_review_uses_rbac(
    arriving: Callable[[Cluster], Review],
) -> None:
    for cluster, expected in ((VIEWER, True), (ReloadableCluster(VIEWER), True), (ANY_NAMESPACE, False)):
        review = arriving(cluster)
        asked = AuthorizationAttributes(user=review.user, verb="get", resource="pods")
        assert review.authorizer.authorize(asked).allowed is expected
