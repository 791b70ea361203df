"""R-40: the manifests that install Pratique in a cluster keep to the good practices."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import AuthorizationAttributes, RbacAuthorizer
from pratique.cluster.store import ObjectStore
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.commands import certs
from pratique_cli.main import HELP_FLAGS
from support.cluster_manifests import (
    FILES,
    NAMESPACE,
    SERVICES,
    objects,
    of_kind,
    pod_specs,
    webhook_documents,
    webhooks,
)
from support.lint_findings import findings_of
from support.role_bindings import binding, role

PORTS = {"frontdoor": 8443, "mutator": 9001, "validator": 9002}
DNS = ("kube-system", "kube-dns")
API_SERVERS = "192.0.2.0/24"
TEMPTING = [
    ("", "secrets"),
    ("", "pods"),
    ("", "configmaps"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
]

each_service = pytest.mark.parametrize("service", SERVICES)
each_webhook = pytest.mark.parametrize("webhook", webhooks(), ids=lambda webhook: webhook["name"])


def container_of(service: str) -> Any:
    [only] = pod_specs()[service]["containers"]
    return only


def test_all_services_are_given_the_same_chain() -> None:
    """They ask nobody who decides by another one."""
    given = {
        service: (container_of(service).get("envFrom"), container_of(service).get("env"))
        for service in SERVICES
    }
    assert given["frontdoor"][0]
    assert given["frontdoor"][0] == given["mutator"][0] == given["validator"][0]
    own = {each["name"] for _, env in given.values() for each in env or () if "PRATIQUE" in each["name"]}
    assert own <= {"PRATIQUE_RESOURCE_QUOTA_LEDGER"}
    chain = {"config", "cluster", "admission-control", "admission-control-config-file"}
    assert not chain & {flag for service in SERVICES for flag in flags(service)}


def flags(service: str) -> dict[str, str]:
    """The flags of a service, as its manifest gives them."""
    written = [argument for argument in container_of(service)["args"] if argument.startswith("--")]
    return dict(argument.removeprefix("--").split("=", 1) for argument in written)


def test_what_others_need_is_applied_first() -> None:
    kinds = [each["kind"] for each in objects()]
    assert kinds[0] == "Namespace"
    assert kinds.index("ServiceAccount") < kinds.index("NetworkPolicy") < kinds.index("Deployment")
    assert [file.name for file in FILES] == sorted(file.name for file in FILES)


# what the good practices say of webhook configurations


def test_configurations_are_found_by_their_label() -> None:
    labels = {"app.kubernetes.io/part-of": "pratique"}
    documents = webhook_documents()
    assert [each["metadata"]["labels"] for each in documents] == [labels, labels]
    assert [each["kind"].removesuffix("WebhookConfiguration") for each in documents] == [
        "Mutating",
        "Validating",
    ]


@each_webhook
def test_a_webhook_answers_in_seconds(webhook: JSONObject) -> None:
    assert webhook["timeoutSeconds"] <= 5


@each_webhook
def test_a_webhook_keeps_away_from_what_keeps_the_cluster_up_and_from_its_own_start(webhook: Any) -> None:
    [excluded] = webhook["namespaceSelector"]["matchExpressions"]
    assert (excluded["key"], excluded["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert {"kube-system", "kube-node-lease", NAMESPACE} <= set(excluded["values"])


@each_webhook
def test_a_webhook_names_what_it_looks_at(webhook: Any) -> None:
    for rule in webhook["rules"]:
        assert not any("*" in entry for entries in rule.values() for entry in entries)
        assert not {"bindings", "events", "leases", "nodes", "pods/status"} & set(rule["resources"])
        assert rule["scope"] == "Namespaced"


@each_webhook
@pytest.mark.parametrize(
    ("field", "value"),
    [("matchPolicy", "Equivalent"), ("sideEffects", "None"), ("admissionReviewVersions", ["v1"])],
)
def test_a_webhook_says(webhook: JSONObject, field: str, value: object) -> None:
    assert webhook[field] == value


@each_webhook
def test_a_webhook_is_reached_through_a_service_with_several_pods_behind_it(webhook: Any) -> None:
    called = webhook["clientConfig"]["service"]
    service = of_kind("Service")[called["name"]]["spec"]
    deployment = of_kind("Deployment")["pratique-frontdoor"]["spec"]
    [port] = service["ports"]
    assert (called["namespace"], called["port"]) == (NAMESPACE, port["port"])
    assert "clusterIP" not in service
    assert service["selector"].items() <= deployment["template"]["metadata"]["labels"].items()
    assert deployment["replicas"] >= 2


@each_webhook
def test_a_label_on_an_object_opens_no_way_round(webhook: JSONObject) -> None:
    assert "objectSelector" not in webhook


def test_mutation_fails_open_may_run_again_and_is_checked_by_what_fails_closed() -> None:
    mutating, validating = webhooks()
    assert (mutating["failurePolicy"], validating["failurePolicy"]) == ("Ignore", "Fail")
    assert mutating["reinvocationPolicy"] == "IfNeeded"
    assert mutating["rules"] == validating["rules"]
    assert [each["clientConfig"]["service"]["path"] for each in (mutating, validating)] == [
        "/mutate",
        "/validate",
    ]


@each_webhook
def test_every_way_in_which_containers_change_is_looked_at(webhook: Any) -> None:
    [rule] = webhook["rules"]
    assert set(rule["resources"]) == {"pods", "pods/ephemeralcontainers", "pods/resize"}
    assert set(rule["operations"]) == {"CREATE", "UPDATE"}


@pytest.mark.parametrize(
    ("added", "found"), [("NodeRestriction", 1), ("NamespaceLifecycle", 1), ("Priority", 0)]
)
def test_a_controller_that_only_refuses_while_mutating_is_found_behind_a_webhook_that_fails_open(
    tmp_path: Path, added: str, found: int
) -> None:
    def with_chain(each: JSONObject) -> JSONObject:
        data = each.get("data", {})
        name = "PRATIQUE_ADMISSION_CONTROL"
        return {**each, "data": {**data, name: f"{data[name]},{added}"}} if name in data else each

    path = tmp_path / "webhooks.json"
    documents = [
        {
            **each,
            "webhooks": [
                {**one, "clientConfig": {**one["clientConfig"], "caBundle": ""}} for one in each["webhooks"]
            ],
        }
        for each in webhook_documents()
    ]
    path.write_text("\n".join(map(json.dumps, documents)))
    rules = {"enforcing-mutation-fails-open"}
    assert findings_of(path, ObjectStore(objects()), rules) == []
    assert len(findings_of(path, ObjectStore(map(with_chain, objects())), rules)) == found


def test_mirror_pods_are_neither_changed_nor_refused_for_not_being_changed() -> None:
    for webhook in webhooks():
        assert "kubernetes.io/config.mirror" in webhook["matchConditions"][0]["expression"]


def test_what_the_chain_decides_by_is_in_the_review_alone() -> None:
    chosen = of_kind("ConfigMap")["pratique-chain"]["data"]["PRATIQUE_ADMISSION_CONTROL"].split(",")
    controllers = [load_catalogue().get(name) for name in chosen]
    assert all(each is not None and not each.looks_up and not each.default for each in controllers)


# who may do what


def test_nobody_gets_a_token() -> None:
    assert all(
        account["automountServiceAccountToken"] is False for account in of_kind("ServiceAccount").values()
    )
    assert all(spec["automountServiceAccountToken"] is False for spec in pod_specs().values())


def test_every_service_has_an_account_of_its_own() -> None:
    assert {spec["serviceAccountName"] for spec in pod_specs().values()} == of_kind("ServiceAccount").keys()


@each_service
@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "update", "patch", "delete"])
def test_no_service_may_do_anything(service: str, verb: str) -> None:
    authorizer = RbacAuthorizer(ObjectStore(objects()))
    asked = [may(service, verb, group, resource) for group, resource in TEMPTING]
    assert not [each for each in asked if authorizer.authorize(each).allowed]


def may(service: str, verb: str, group: str, resource: str) -> AuthorizationAttributes:
    name = f"system:serviceaccount:{NAMESPACE}:pratique-{service}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")
    user = UserInfo(name, groups=groups)
    return AuthorizationAttributes(user=user, verb=verb, group=group, resource=resource, namespace=NAMESPACE)


def test_a_binding_among_the_manifests_would_be_seen() -> None:
    name = f"ServiceAccount/{NAMESPACE}/pratique-validator"
    granted = [
        role("reader", namespace=NAMESPACE, verbs=["get"], resources=["secrets"]),
        binding("reader", "Role/reader", name, namespace=NAMESPACE),
    ]
    authorizer = RbacAuthorizer(ObjectStore([*objects(), *granted]))
    assert authorizer.authorize(may("validator", "get", "", "secrets")).allowed


# how the Pods run


@each_service
def test_a_pod_holds_nothing_that_it_does_not_need(service: str) -> None:
    security = container_of(service)["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod_specs()[service]["securityContext"]["runAsNonRoot"] is True
    assert all(mount["readOnly"] for mount in container_of(service)["volumeMounts"])
    assert all(set(volume) == {"name", "secret"} for volume in pod_specs()[service]["volumes"])


@each_service
def test_a_pod_has_its_limits_its_probes_and_time_to_finish(service: str) -> None:
    only = container_of(service)
    assert only["resources"]["limits"].keys() == {"cpu", "memory"}
    assert {"readinessProbe", "livenessProbe"} <= only.keys()
    # what is still taken, and the 30 s that a review may last
    assert pod_specs()[service]["terminationGracePeriodSeconds"] >= 10 + 30


@each_service
def test_variables_of_services_are_not_taken_for_flags(service: str) -> None:
    assert pod_specs()[service]["enableServiceLinks"] is False


@each_service
def test_an_image_is_named_by_its_digest(service: str) -> None:
    assert "@sha256:" in container_of(service)["image"]


@each_service
def test_pods_of_a_service_are_several_on_several_nodes_and_never_all_evicted(service: str) -> None:
    spec = of_kind("Deployment")[f"pratique-{service}"]["spec"]
    budget = of_kind("PodDisruptionBudget")[f"pratique-{service}"]["spec"]
    [preferred] = pod_specs()[service]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = {"app.kubernetes.io/name": f"pratique-{service}"}
    assert spec["replicas"] > budget["minAvailable"] >= 1
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert preferred["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert preferred["podAffinityTerm"]["labelSelector"] == budget["selector"] == {"matchLabels": labels}
    assert labels.items() <= spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("service", ["mutator", "validator"])
def test_front_doors_find_every_pod_of_a_service(service: str) -> None:
    spec = of_kind("Service")[f"pratique-{service}"]["spec"]
    assert spec["clusterIP"] == "None"
    assert flags("frontdoor")[service] == f"dns:///pratique-{service}:{PORTS[service]}"


# flags and certificates


@each_service
def test_flags_are_those_that_there_are(service: str, tmp_path: Path) -> None:
    command = importlib.import_module(f"pratique_cli.commands.services.{service}").command
    (tmp_path / "file").touch()
    given = [
        f"--{name}={tmp_path / 'file' if value.startswith('/') else value}"
        for name, value in flags(service).items()
    ]
    context = command.make_context(service, given, help_option_names=list(HELP_FLAGS))
    assert context.params["port"] == PORTS[service] == container_of(service)["ports"][0]["containerPort"]


@each_service
def test_nobody_calls_without_a_certificate_that_names_him(service: str) -> None:
    given = flags(service)
    caller = "kube-apiserver" if service == "frontdoor" else "frontdoor"
    assert given["client-allowed-names"] == caller
    assert given["client-ca-file"] == "/etc/pratique/tls/ca.crt"
    [volume] = pod_specs()[service]["volumes"]
    assert volume["secret"]["secretName"] == f"pratique-{service}-tls"


@pytest.mark.parametrize(
    ("service", "name"),
    [
        ("frontdoor", "pratique.pratique.svc"),
        ("mutator", "pratique-mutator"),
        ("validator", "pratique-validator"),
    ],
)
def test_certificates_have_the_names_by_which_services_are_called(service: str, name: str) -> None:
    wanted = certs._certificate_specs("pratique", NAMESPACE, (), ())  # noqa: SLF001 - what `pratique certs` puts into them
    assert name in wanted[service].hosts


# who reaches whom


def flows() -> Iterator[tuple[object, object, int]]:
    """Who may call whom at which port, by the network policies: both ends have to allow it."""
    policies = [policy["spec"] for policy in of_kind("NetworkPolicy").values()]
    out = {(chosen(policy), *end) for policy in policies for end in ends(policy.get("egress", ()), "to")}
    into = {(chosen(policy), *end) for policy in policies for end in ends(policy.get("ingress", ()), "from")}
    ours = {f"pratique-{name}" for name in SERVICES}
    for here, other, port in out:
        if other not in ours or (other, here, port) in into:
            yield here, other, port
    for here, other, port in into:
        if other not in ours:
            yield other, here, port


def chosen(policy: Any) -> str:
    return str(policy["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/name", "all"))


def ends(rules: Any, key: str) -> Iterator[tuple[object, int]]:
    for rule in rules:
        # without either, everybody or every port would be meant
        assert rule[key]
        assert rule["ports"]
        for peer in rule[key]:
            for port in rule["ports"]:
                yield peer_of(peer), port["port"]


def peer_of(peer: Any) -> object:
    if "ipBlock" in peer:
        return peer["ipBlock"]["cidr"]
    labels = peer["podSelector"]["matchLabels"]
    if "namespaceSelector" in peer:
        return peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], labels["k8s-app"]
    return labels["app.kubernetes.io/name"]


def test_nobody_reaches_anybody_but_by_the_one_way_that_there_is() -> None:
    assert set(flows()) == {
        (API_SERVERS, "pratique-frontdoor", 8443),
        ("pratique-frontdoor", "pratique-mutator", 9001),
        ("pratique-frontdoor", "pratique-validator", 9002),
        ("pratique-frontdoor", DNS, 53),
    }


def test_what_is_not_allowed_is_forbidden_both_ways() -> None:
    spec = of_kind("NetworkPolicy")["nothing-by-default"]["spec"]
    assert spec == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_the_namespace_is_held_to_the_restricted_level() -> None:
    labels = of_kind("Namespace")[NAMESPACE]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
