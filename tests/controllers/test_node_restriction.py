"""NodeRestriction."""

from __future__ import annotations

import base64
import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision, Authorizer
from pratique.cluster.store import ObjectStore
from pratique.controllers.node_restriction import CONTROLLER
from pratique.controllers.node_restriction.checks import AUDIENCE_VERB
from support import vector_cases
from support.admissions import Admission, admit, review_of
from support.expectations import check
from support.strategies.json_values import objects

KUBELET = {"username": "system:node:n", "groups": ["system:nodes", "system:authenticated"]}


@dataclasses.dataclass
class Granting:
    """Grants what it has a decision for, and records the questions."""

    decision: AuthorizationDecision
    asked: list[AuthorizationAttributes] = dataclasses.field(default_factory=list)

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        self.asked.append(attributes)
        return self.decision


DENYING = Granting(AuthorizationDecision(allowed=False))


@pytest.mark.parametrize("case", vector_cases.plugin("NodeRestriction"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    if "authorizer" in case.get("external", {}):
        assert case["external"]["authorizer"] == {"default": "deny"}
        review = msgspec.structs.replace(review, authorizer=DENYING)
    configuration = case["config"]
    check(admit(CONTROLLER, review, configuration), case["expected"])


def review(
    operation: str,
    resource: str,
    new: JSON = None,
    old: JSON = None,
    *,
    name: str = "",
    namespace: str = "shop",
    cluster: tuple[JSONObject, ...] = (),
    user: JSONObject = KUBELET,
) -> Review:
    """A request of node ``n``; the resource is written ``pods/status`` or ``coordination.k8s.io/leases``."""
    first, _, second = resource.rpartition("/")
    group, plural, sub = (
        (first, second, "") if "." in first else ("", first or second, second if first else "")
    )
    request = {
        "operation": operation,
        "kind": {"group": group, "version": "v1", "kind": ""},
        "resource": {"group": group, "version": "v1", "resource": plural},
        "subResource": sub,
        "name": name,
        "namespace": namespace,
        "userInfo": user,
        "object": new,
        "oldObject": old,
    }
    return review_of(request, ObjectStore(cluster))


def ask(operation: str, resource: str, new: JSON = None, old: JSON = None, **others: JSON) -> Admission:
    return admit(CONTROLLER, review(operation, resource, new, old, **others))


def refused(found: Admission) -> str:
    """The text of a Forbidden status, without its common beginning."""
    assert found.status is not None
    assert (found.status.code, found.status.reason) == (403, "Forbidden")
    assert found.operations == ()
    return found.status.message.partition(" is forbidden: ")[2]


OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1", "controller": True}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "1"}}


def mirror(owners: JSON = (OWNER,), node: str = "n", **spec: JSON) -> JSONObject:
    metadata = {"name": "web", "annotations": {"kubernetes.io/config.mirror": "x"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": list(owners)},
        "spec": {"nodeName": node, **spec},
    }


def create_mirror(pod: JSON) -> Admission:
    return ask("CREATE", "pods", pod, name="web", cluster=(NODE,))


def test_a_mirror_pod_of_its_own_is_admitted() -> None:
    assert create_mirror(mirror()).allowed


MIRRORS = 'node "n" can only create pods with'


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        ({"apiVersion": "v1", "kind": "Service"}, "unexpected type *core.Service"),
        (None, "unexpected type <nil>"),
        (
            {"kind": "Pod"},
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n" can only create mirror pods',
        ),
        (mirror(node="m"), f"{MIRRORS} spec.nodeName set to itself"),
        (mirror([OWNER, OWNER]), f"{MIRRORS} a single owner reference set to itself"),
        (mirror([]), f"{MIRRORS} an owner reference set to itself"),
        (mirror([{**OWNER, "name": "m"}]), f"{MIRRORS} an owner reference set to itself"),
        (mirror([{**OWNER, "apiVersion": "v2"}]), f"{MIRRORS} an owner reference set to itself"),
        (mirror([{**OWNER, "controller": False}]), f"{MIRRORS} a controller owner reference set to itself"),
        (
            mirror([{**OWNER, "blockOwnerDeletion": True}]),
            'node "n" must not set blockOwnerDeletion on an owner reference',
        ),
        (mirror([{**OWNER, "uid": "2"}]), "node n UID mismatch: expected 2 got 1"),
        (
            mirror(serviceAccountName="a"),
            'node "n" can not create pods that reference a service account',
        ),
        (
            mirror(imagePullSecrets=[{"name": "a"}]),
            'node "n" can not create pods that reference secrets',
        ),
        (
            mirror(volumes=[{"name": "v", "configMap": {"name": "a"}}]),
            'node "n" can not create pods that reference configmaps',
        ),
        (
            mirror(resourceClaims=[{"name": "a"}]),
            'node "n" can not create pods that reference resourceclaims',
        ),
    ],
)
def test_every_other_pod_is_denied(pod: JSON, text: str) -> None:
    assert refused(create_mirror(pod)) == text


def test_a_missing_node_is_not_found() -> None:
    status = ask("CREATE", "pods", mirror()).status
    assert status is not None
    assert (status.code, status.message) == (404, 'node "n" not found')


MINE, THEIRS = ({**mirror(node=node), "metadata": {"name": name, "namespace": "shop", "uid": name}}
                for name, node in (("mine", "n"), ("theirs", "m")))  # fmt: skip
PODS = (MINE, THEIRS)


@pytest.mark.parametrize(
    ("operation", "resource", "new", "text"),
    [
        ("DELETE", "pods", None, 'node "n" can only delete pods with spec.nodeName set to itself'),
        (
            "CREATE",
            "pods/eviction",
            {"kind": "Eviction"},
            "node n can only evict pods with spec.nodeName set to itself",
        ),
    ],
)
def test_a_node_may_delete_and_evict_only_its_own_pods(
    operation: str, resource: str, new: JSON, text: str
) -> None:
    assert ask(operation, resource, new, name="mine", cluster=PODS).allowed
    assert refused(ask(operation, resource, new, name="theirs", cluster=PODS)) == text
    missing = ask(operation, resource, new, name="none", cluster=PODS).status
    assert missing is not None
    assert (missing.code, missing.message) == (404, 'pod "none" not found')


@pytest.mark.parametrize(
    ("operation", "resource", "new", "text"),
    [
        (
            "UPDATE",
            "pods",
            mirror(),
            'unexpected operation "UPDATE", node "n" can only create and delete mirror pods',
        ),
        ("CREATE", "pods/status", mirror(), 'unexpected operation "CREATE"'),
        ("DELETE", "pods/eviction", None, "unexpected operation DELETE"),
        ("CREATE", "pods/eviction", {"kind": "Pod"}, "unexpected type *core.Pod"),
        ("CREATE", "pods/eviction", {"kind": "Eviction"}, "could not determine pod from request data"),
        (
            "CREATE",
            "pods/binding",
            {},
            "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed",
        ),
        ("UPDATE", "persistentvolumeclaims", {}, "may only update PVC status"),
        ("UPDATE", "persistentvolumeclaims/scale", {}, "may only update PVC status"),
        ("CREATE", "persistentvolumeclaims/status", {}, 'unexpected operation "CREATE"'),
    ],
)
def test_other_operations_on_pods_and_claims_are_denied(
    operation: str, resource: str, new: JSON, text: str
) -> None:
    assert refused(ask(operation, resource, new)) == text


def pod_with(labels: JSON = None, node: str = "n", **status: JSON) -> JSONObject:
    return {"kind": "Pod", "metadata": {"labels": labels}, "spec": {"nodeName": node}, "status": status}


CLAIMS = [{"name": "gpu", "resourceClaimName": "a"}]


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        (pod_with(phase="Running"), pod_with(phase="Pending"), None),
        (pod_with({}), pod_with(None), None),
        (pod_with(resourceClaimStatuses=[]), pod_with(), None),
        (
            pod_with(),
            pod_with(node="m"),
            'node "n" can only update pod status for pods with spec.nodeName set to itself',
        ),
        (pod_with({"a": "1"}), pod_with(), 'node "n" cannot update labels through pod status'),
        (pod_with(resourceClaimStatuses=CLAIMS), pod_with(), 'node "n" cannot update resource claim statues'),
        (
            pod_with(extendedResourceClaimStatus={"resourceClaimName": "a"}),
            pod_with(),
            'node "n" cannot update extended resource claim status',
        ),
        (pod_with(), None, "unexpected type <nil>"),
        ({"kind": "Service"}, pod_with(), "unexpected type *core.Service"),
    ],
)
def test_a_node_updates_the_status_of_its_own_pods_only(new: JSON, old: JSON, text: str | None) -> None:
    found = ask("UPDATE", "pods/status", new, old, name="web")
    assert found.allowed if text is None else refused(found) == text


def node(name: str = "n", labels: JSON = None, owners: JSON = None, **spec: JSON) -> JSONObject:
    metadata = {"name": name, "labels": labels, "ownerReferences": owners}
    return {"kind": "Node", "metadata": metadata, "spec": spec}


SOURCE = {"configMap": {"name": "a"}}
TAINTS = [{"key": "a", "effect": "NoSchedule", "value": ""}]


@pytest.mark.parametrize(
    ("operation", "new", "old", "text"),
    [
        ("CREATE", node(taints=TAINTS, labels={"role": "x"}), None, None),
        ("CREATE", node("m"), None, 'node "n" is not allowed to modify node "m"'),
        ("CREATE", {"kind": "Pod", "metadata": {"name": "n"}}, None, "unexpected type *core.Pod"),
        (
            "CREATE",
            node(configSource=SOURCE),
            None,
            'node "n" is not allowed to create pods with a non-nil configSource',
        ),
        (
            "CREATE",
            node(labels={"x.k8s.io/b": "", "x.k8s.io/a": ""}),
            None,
            'node "n" is not allowed to set the following labels: x.k8s.io/a, x.k8s.io/b',
        ),
        ("UPDATE", node(taints=[{"key": "a", "effect": "NoSchedule"}]), node(taints=TAINTS), None),
        ("UPDATE", node(), node(configSource=SOURCE), None),
        ("UPDATE", node(configSource=SOURCE), node(configSource=SOURCE), None),
        (
            "UPDATE",
            node(configSource=SOURCE),
            node(),
            'node "n" is not allowed to update configSource to a new non-nil configSource',
        ),
        ("UPDATE", node(), node(taints=TAINTS), 'node "n" is not allowed to modify taints'),
        ("UPDATE", node(owners=[OWNER]), node(), 'node "n" is not allowed to modify ownerReferences'),
        ("UPDATE", node(), node(labels={"x.k8s.io/a": ""}), "is not allowed to modify labels: x.k8s.io/a"),
        ("UPDATE", node(), None, "unexpected type *core.Node"),
        ("DELETE", None, None, None),
    ],
)
def test_a_node_updates_only_itself(operation: str, new: JSON, old: JSON, text: str | None) -> None:
    found = ask(operation, "nodes", new, old, name="" if operation == "CREATE" else "n", namespace="")
    assert found.allowed if text is None else refused(found) == text


def claim(phase: str = "Bound", **status: JSON) -> JSONObject:
    metadata = {"name": "data", "resourceVersion": str(status), "managedFields": [status]}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "status": {"phase": phase, **status}}


CLAIM_TEXT = 'node "n" is not allowed to update fields other than status.quantity and status.conditions: '


@pytest.mark.parametrize(
    ("new", "places"),
    [
        (claim(capacity={"storage": "2Gi"}, conditions=[{"type": "Resizing"}]), ""),
        (claim(allocatedResources={"storage": "2Gi"}), ""),
        (claim("Lost"), "/status/phase"),
        (claim() | {"spec": {"volumeName": "v"}}, "/spec"),
    ],
)
def test_a_node_may_report_only_the_size_of_claims(new: JSONObject, places: str) -> None:
    found = ask("UPDATE", "persistentvolumeclaims/status", new, claim(), name="data")
    assert refused(found) == f"{CLAIM_TEXT}{places}" if places else found.allowed


def test_the_progress_of_an_expansion_needs_its_feature_gate() -> None:
    asked = review(
        "UPDATE", "persistentvolumeclaims/status", claim(allocatedResources={"storage": "2Gi"}), claim()
    )
    configuration = {"featureGates": {"RecoverVolumeExpansionFailure": False}}
    assert refused(admit(CONTROLLER, asked, configuration)) == f"{CLAIM_TEXT}/status/allocatedResources"


def token(*audiences: str, **reference: JSON) -> JSONObject:
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": "mine"} | reference
    return {"kind": "TokenRequest", "spec": {"boundObjectRef": bound, "audiences": list(audiences)}}


def ask_for_token(
    requested: JSON, *cluster: JSONObject, authorizer: Authorizer = DENYING, **gates: bool
) -> Admission:
    asked = review("CREATE", "serviceaccounts/token", requested, name="cart", cluster=cluster or PODS)
    asked = msgspec.structs.replace(asked, authorizer=authorizer)
    return admit(CONTROLLER, asked, {"featureGates": gates})


@pytest.mark.parametrize(
    ("requested", "text"),
    [
        ({"kind": "Pod"}, "unexpected type *core.Pod"),
        ({"kind": "TokenRequest"}, "node requested token not bound to a pod"),
        (token(kind="Secret"), "node requested token not bound to a pod"),
        (token(name=""), "node requested token not bound to a pod"),
        (token(uid=""), "node requested token with a pod binding without a uid"),
        (
            token(uid="2"),
            (
                "the UID in the bound object reference (2) does not match the UID in record. The object might have"
                " been deleted and then recreated"
            ),
        ),
        (
            token(name="theirs", uid="theirs"),
            "node requested token bound to a pod scheduled on a different node",
        ),
        (token("a", "b"), "node may only request 0 or 1 audiences"),
        (
            token("a"),
            (
                'audience "a" not found in pod spec volume, system:node:n is not authorized to request tokens for'
                " this audience"
            ),
        ),
    ],
)
def test_a_node_gets_tokens_only_for_its_own_pods(requested: JSON, text: str) -> None:
    assert refused(ask_for_token(requested)) == text


def test_a_token_for_a_missing_pod_is_not_found() -> None:
    status = ask_for_token(token(name="none")).status
    assert status is not None
    assert (status.code, status.message) == (404, 'pod "none" not found')


def using(*volumes: JSONObject) -> JSONObject:
    return {**MINE, "spec": {"nodeName": "n", "volumes": [{"name": "v", **volume} for volume in volumes]}}


def projected(**projection: str) -> JSONObject:
    return {"projected": {"sources": [{"configMap": {}}, {"serviceAccountToken": projection}]}}


@pytest.mark.parametrize(
    ("pod", "requested"),
    [
        (using({"emptyDir": {}}, projected(audience="vault")), token("vault")),
        (using(projected(path="t")), token()),
        (using({"csi": {"driver": "gone"}}, projected(audience="vault")), token("vault")),
    ],
)
def test_an_audience_that_the_pod_uses_needs_no_grant(pod: JSONObject, requested: JSONObject) -> None:
    assert ask_for_token(requested, pod).allowed


LOST = using({"csi": {"driver": "d"}}, {"persistentVolumeClaim": {"claimName": "c"}})
FAULTS = '[csidriver.storage.k8s.io "d" not found, persistentvolumeclaim "c" not found]'


def test_failed_look_ups_are_reported_if_no_grant_exists() -> None:
    assert refused(ask_for_token(token("a"), LOST)) == f'error validating audience "a": {FAULTS}'


@pytest.mark.parametrize("pod", [MINE, LOST])
def test_a_node_may_be_granted_an_audience(pod: JSONObject) -> None:
    granting = Granting(AuthorizationDecision(allowed=True))
    assert ask_for_token(token("a"), pod, authorizer=granting).allowed
    (asked,) = granting.asked
    assert asked.user.username == "system:node:n"
    assert (asked.verb, asked.group, asked.resource) == ("request-serviceaccounts-token-audience", "", "a")
    assert (asked.namespace, asked.name) == ("shop", "cart")


def test_a_failing_authorizer_grants_nothing() -> None:
    failing = Granting(AuthorizationDecision(allowed=False, error="no quorum"))
    assert (
        refused(ask_for_token(token("a"), authorizer=failing)) == 'error validating audience "a": no quorum'
    )


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("gate", [True, False, None])
def test_audiences_are_checked_if_grants_are_known_unless_a_gate_overrides_it(
    *, known: bool, gate: bool | None
) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "nobody", "namespace": "shop"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"},
    }
    cluster = (*PODS, binding) if known else PODS
    asked = review("CREATE", "serviceaccounts/token", token("a"), name="cart", cluster=cluster)
    gates = {} if gate is None else {"featureGates": {"ServiceAccountNodeAudienceRestriction": gate}}
    restricted = known if gate is None else gate
    assert admit(CONTROLLER, asked, gates).allowed is not restricted


def test_cluster_roles_grant_audiences() -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "vault-tokens", "namespace": "shop"},
        "rules": [
            {"verbs": [AUDIENCE_VERB], "apiGroups": [""], "resources": ["a"], "resourceNames": ["cart"]}
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "nodes", "namespace": "shop"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "vault-tokens"},
        "subjects": [{"kind": "Group", "name": "system:nodes"}],
    }
    cluster = (*PODS, role, binding)
    granted = review("CREATE", "serviceaccounts/token", token("a"), name="cart", cluster=cluster)
    assert admit(CONTROLLER, granted).allowed
    for_another = msgspec.structs.replace(granted, name="till")
    assert "is not authorized to request tokens" in refused(admit(CONTROLLER, for_another))


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_other_requests_for_service_accounts_are_ignored(operation: str) -> None:
    assert ask(operation, "serviceaccounts", {}, {}).allowed


def lease(name: str) -> JSONObject:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}


@pytest.mark.parametrize(
    ("new", "namespace", "text"),
    [
        (lease("n"), "kube-node-lease", None),
        (
            lease("m"),
            "kube-node-lease",
            "can only access node lease with the same name as the requesting node",
        ),
        (lease("n"), "shop", 'can only access leases in the "kube-node-lease" system namespace'),
        (
            {"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseCandidate"},
            "kube-node-lease",
            "unexpected type *coordination.LeaseCandidate",
        ),
    ],
)
def test_a_node_may_only_write_its_own_lease(new: JSONObject, namespace: str, text: str | None) -> None:
    found = ask("CREATE", "coordination.k8s.io/leases", new, namespace=namespace)
    assert found.allowed if text is None else refused(found) == text


@pytest.mark.parametrize(("operation", "name"), [("CREATE", ""), ("UPDATE", "n"), ("DELETE", "n")])
def test_a_node_may_only_write_its_own_csi_node(operation: str, name: str) -> None:
    new = {"kind": "CSINode", "metadata": {"name": "n"}}
    assert ask(operation, "storage.k8s.io/csinodes", new, name=name).allowed
    other = {"kind": "CSINode", "metadata": {"name": "m"}}
    assert refused(ask(operation, "storage.k8s.io/csinodes", other, name="m" if name else "")) == (
        "can only access CSINode with the same name as the requesting node"
    )


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
@pytest.mark.parametrize("place", ["m", "", None])
def test_a_node_may_only_publish_its_own_devices(operation: str, place: JSON) -> None:
    offered = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": {"nodeName": place}}
    documents = (offered, None) if operation == "CREATE" else (None, offered)
    assert refused(ask(operation, "resource.k8s.io/resourceslices", *documents)) == (
        f"can only {operation.lower()} ResourceSlice with the same NodeName as the requesting node"
    )


def certificate(request: bytes, signer: str = "kubernetes.io/kubelet-serving") -> JSONObject:
    spec = {"request": base64.b64encode(request).decode(), "signerName": signer}
    return {"kind": "CertificateSigningRequest", "spec": spec}


CSRS = "certificates.k8s.io/certificatesigningrequests"


def of_another_node() -> JSON:
    cases = (case for case in vector_cases.plugin("NodeRestriction") if "othernode" in case.get("note", ""))
    return next(cases)["request"]["object"]


def test_a_node_may_only_request_its_own_certificate() -> None:
    assert (
        refused(ask("CREATE", CSRS, of_another_node())) == "can only create a node CSR with CN=system:node:n"
    )


@pytest.mark.parametrize(
    ("new", "text"),
    [
        (certificate(b"x"), "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"),
        (
            {"spec": {"request": "?", "signerName": "kubernetes.io/kubelet-serving"}},
            "unable to parse csr: illegal base64 data at input byte 0",
        ),
        ({"kind": "Pod"}, "unexpected type *core.Pod"),
        (certificate(b"x", "example.com/other"), None),
    ],
)
def test_only_requests_for_node_certificates_are_checked(new: JSON, text: str | None) -> None:
    found = ask("CREATE", CSRS, new)
    assert found.allowed if text is None else refused(found) == text


@pytest.mark.parametrize(
    "user",
    [
        {"username": "bob", "groups": ["system:nodes"]},
        {"username": "system:node:n", "groups": []},
        {"username": "system:nodes:n", "groups": ["system:nodes"]},
        {},
    ],
)
def test_other_users_are_ignored(user: JSONObject) -> None:
    assert ask("UPDATE", "pods", {}, {}, user=user).allowed


def test_a_node_without_a_name_is_denied() -> None:
    user = {"username": "system:node:", "groups": ["system:nodes"]}
    assert refused(ask("CREATE", "pods", mirror(), user=user)) == (
        'could not determine node from user "system:node:"'
    )


def test_other_resources_are_ignored() -> None:
    assert ask("UPDATE", "configmaps", {}, {}).allowed


def test_unknown_feature_gates_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r'unknown field "featureGates.DynamicKubeletConfig"'):
        admit(CONTROLLER, review("CREATE", "pods"), {"featureGates": {"DynamicKubeletConfig": True}})


RESOURCES = [
    "pods",
    "pods/status",
    "pods/eviction",
    "nodes",
    "persistentvolumeclaims/status",
    "serviceaccounts/token",
    "coordination.k8s.io/leases",
    "storage.k8s.io/csinodes",
    "resource.k8s.io/resourceslices",
    CSRS,
]


@given(
    st.sampled_from(RESOURCES),
    st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
    st.none() | objects(),
    st.none() | objects(),
    objects(),
)
def test_no_request_of_a_node_is_changed_or_fails(
    resource: str, operation: str, new: JSON, old: JSON, inner: JSONObject
) -> None:
    for document in (new, old):
        if document is not None:
            document |= {"metadata": inner, "spec": {"nodeName": "n", **inner}, "status": inner}
    found = ask(operation, resource, new, old, name="n", cluster=PODS)
    assert found.operations == ()
    assert found.status is None or found.status.code in {403, 404}


def test_its_rules_equal_those_of_kubernetes() -> None:
    known = {
        (resource_type.resource.group, resource_type.resource.resource)
        for resource_type in built_in_resources()
    }
    for rule in CONTROLLER.rules:
        assert {
            (group, name.partition("/")[0]) for group in rule.api_groups for name in rule.resources
        } <= known
