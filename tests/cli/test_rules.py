from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

CHAIN = ("--admission-control", "AlwaysPullImages")


def written(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert ran.returncode == 0, ran.stderr
    return list(yaml.safe_load_all(ran.stdout))


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("mutate", [("MutatingWebhookConfiguration", "/mutate")]),
        ("validate", [("ValidatingWebhookConfiguration", "/validate")]),
        ("admit", [("MutatingWebhookConfiguration", "/admit")]),
        (
            "split",
            [("MutatingWebhookConfiguration", "/mutate"), ("ValidatingWebhookConfiguration", "/validate")],
        ),
    ],
)
def test_each_phase_calls_its_paths(pratique: Program, phase: str, expected: list[tuple[str, str]]) -> None:
    documents = written(pratique("rules", *CHAIN, "--phase", phase))
    services = [document["webhooks"][0]["clientConfig"]["service"] for document in documents]
    kinds = [document["kind"] for document in documents]
    assert list(zip(kinds, (service["path"] for service in services), strict=True)) == expected


def test_the_services_own_namespace_is_always_left_out(pratique: Program) -> None:
    flags = ("--service", "guards/door:8443/base", "--exclude-namespaces", "kube-system")
    webhook = written(pratique("rules", *CHAIN, *flags))[0]["webhooks"][0]
    [requirement] = webhook["namespaceSelector"]["matchExpressions"]
    assert requirement["values"] == ["kube-system", "guards"]
    service = {"namespace": "guards", "name": "door", "port": 8443, "path": "/base/mutate"}
    assert webhook["clientConfig"] == {"service": service}


def test_a_rollout_goes_namespace_by_namespace(pratique: Program) -> None:
    selector = "pratique=on,stage in (dev, test),!legacy,team!=ops"
    flags = ("--failure-policy", "Ignore", "--namespace-selector", selector, "--timeout", "3s")
    webhook = written(pratique("rules", *CHAIN, *flags))[0]["webhooks"][0]
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 3)
    assert webhook["namespaceSelector"]["matchExpressions"][1:] == [
        {"key": "pratique", "operator": "In", "values": ["on"]},
        {"key": "stage", "operator": "In", "values": ["dev", "test"]},
        {"key": "legacy", "operator": "DoesNotExist"},
        {"key": "team", "operator": "NotIn", "values": ["ops"]},
    ]


def test_json_is_one_list_of_the_same_documents(pratique: Program, tmp_path: Path) -> None:
    made = pratique("certs", tmp_path / "certs")
    assert made.returncode == 0
    flags = ("rules", *CHAIN, "--url", "https://10.0.0.7:8443", "--ca-file", tmp_path / "certs" / "ca.crt")
    items = json.loads(pratique(*flags, "-o", "json").stdout)["items"]
    assert items == written(pratique(*flags))
    config = items[0]["webhooks"][0]["clientConfig"]
    assert config["url"] == "https://10.0.0.7:8443/mutate"
    assert base64.b64decode(config["caBundle"]) == (tmp_path / "certs" / "ca.crt").read_bytes()


def test_rules_for_everything_leave_out_what_would_lock_a_cluster(pratique: Program) -> None:
    ran = pratique("rules", "--admission-control", "NamespaceLifecycle")
    assert "NamespaceLifecycle match every resource" in ran.stderr
    [document] = written(ran)
    names = [condition["name"] for condition in document["webhooks"][0]["matchConditions"]]
    assert names == ["no-access-reviews", "no-node-heartbeats"]


def test_node_restriction_sees_what_nodes_report(pratique: Program) -> None:
    document = written(pratique("rules", "--admission-control", "NodeRestriction,NamespaceLifecycle"))[0]
    assert [found["name"] for found in document["webhooks"][0]["matchConditions"]] == ["no-access-reviews"]


def test_charging_a_quota_is_a_side_effect(pratique: Program) -> None:
    documents = written(pratique("rules", "--admission-control", "AlwaysPullImages,ResourceQuota"))
    assert [document["webhooks"][0]["sideEffects"] for document in documents] == ["None", "NoneOnDryRun"]


def test_what_is_written_passes_the_check(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "webhooks.yaml").write_text(
        pratique("rules", "--admission-control", "DenyServiceExternalIPs").stdout
    )
    checked = pratique("check", "--strict", "webhooks.yaml")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "no problems found\n", "")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--service", "door"), "'door' is not a Service; write NAMESPACE/NAME[:PORT][/PATH]"),
        (("--service", "a/b:70000"), "port is not valid: must be between 1 and 65535, inclusive"),
        (("--url", "http://door"), "'https' is the only allowed URL scheme"),
        (("--url", "https://door", "--service", "a/b"), "--url and --service exclude each other"),
        (("--timeout", "31s"), "whole seconds, from 1s to 30s"),
        (("--timeout", "1500ms"), "whole seconds, from 1s to 30s"),
        (("--namespace-selector", "a==b==c"), "'a==b==c' is not a requirement"),
        (("--ca-file", "certs/ca.key"), "holds a private key"),
        (("--ca-file", "certs/none"), "holds no certificate"),
    ],
)
def test_bad_flags_get_one_clear_error(
    pratique: Program, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    if "--ca-file" in flags:
        assert pratique("certs", tmp_path / "certs").returncode == 0
        (tmp_path / "certs" / "none").write_text("nothing")
    ran = pratique("rules", *CHAIN, *flags)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_chain_with_nothing_to_do_is_an_error(pratique: Program) -> None:
    ran = pratique("rules", "--admission-control", "ValidatingAdmissionPolicy")
    assert ran.returncode == 2
    assert "the chain has nothing to do in the phase split" in ran.stderr


def test_a_selector_of_namespaces_is_left_out_where_nothing_is_in_one(pratique: Program) -> None:
    chain = ("--admission-control", "CertificateApproval,AlwaysPullImages")
    ran = pratique("rules", *chain, "--phase", "validate", "--namespace-selector", "a=b")
    assert "namespaceSelector" in written(ran)[0]["webhooks"][0]
    assert ran.stderr == ""
    ran = pratique("rules", "--admission-control", "CertificateApproval", "--namespace-selector", "a=b")
    assert "namespaceSelector" not in written(ran)[0]["webhooks"][0]
    assert "--namespace-selector has no effect on the ValidatingWebhookConfiguration" in ran.stderr


def test_namespaces_are_selected_by_their_own_labels(pratique: Program, tmp_path: Path) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]},
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "p"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump_all([policy, binding]))
    flags = ("--admission-control", "ValidatingAdmissionPolicy", "--config", tmp_path / "config.yaml")
    assert "namespaceSelector" in written(pratique("rules", *flags))[0]["webhooks"][0]


def test_roles_are_bound_to_the_accounts_of_the_services(pratique: Program) -> None:
    flags = ("rules", "--rbac", "--admission-control", "LimitRanger", "--service", "guards/door")
    documents = {(item["kind"], item["metadata"]["name"]): item for item in written(pratique(*flags))}
    assert len(documents) == 6
    for service in ("frontdoor", "mutator", "validator"):
        bound = documents["ClusterRoleBinding", f"door-{service}"]
        assert bound["roleRef"]["name"] == f"door-{service}"
        assert bound["subjects"] == [
            {"kind": "ServiceAccount", "name": f"door-{service}", "namespace": "guards"}
        ]
    [_, core, _] = documents["ClusterRole", "door-mutator"]["rules"]
    assert core == {"apiGroups": [""], "resources": ["limitranges"], "verbs": ["list", "watch"]}
    assert json.loads(pratique(*flags, "-o", "json").stdout)["items"] == list(documents.values())


def test_roles_let_services_ask_the_api_server_instead_of_reading_roles(pratique: Program) -> None:
    flags = ("rules", "--rbac", "--admission-control", "CertificateApproval")
    asks = {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}
    for authorizer, is_asked in (("store", False), ("cluster", True)):
        made = written(pratique(*flags, "--authorizer", authorizer))
        rules = [rule for item in made if item["kind"] == "ClusterRole" for rule in item["rules"]]
        assert rules.count(asks) == 3 * is_asked
        assert ("rolebindings" in str(rules)) is not is_asked


def test_roles_need_a_namespace(pratique: Program) -> None:
    ran = pratique("rules", *CHAIN, "--rbac", "--url", "https://door")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "give --service instead of --url" in ran.stderr


def test_roles_let_services_read_policies_of_the_cluster_where_asked(pratique: Program) -> None:
    sources = ("--policies-from", "webhooks", "--policies-from", "configmaps=rules")
    documents = written(pratique("rules", "--rbac", "--admission-control", "LimitRanger", *sources))
    roles = {(item["kind"], item["metadata"].get("namespace")): item for item in documents}
    names = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    group = "admissionregistration.k8s.io"
    for name in names:
        rule = {"apiGroups": [group], "resources": [name], "verbs": ["list", "watch"]}
        assert rule in roles["ClusterRole", None]["rules"]
    assert roles["Role", "rules"]["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    ]
    binding = roles["RoleBinding", "rules"]
    assert (binding["roleRef"]["kind"], binding["subjects"][0]["namespace"]) == ("Role", "pratique")
    assert len(documents) == 12


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--policies-from", "cluster"), "give --rbac, too"),
        (("--authorizer", "cluster"), "--authorizer is about the roles of services: give --rbac, too"),
        (("--rbac", "--policies-from", "everywhere"), "give cluster, webhooks or configmaps=NAMESPACE"),
    ],
)
def test_wrong_sources_of_policies_are_refused(pratique: Program, flags: tuple[str, ...], error: str) -> None:
    ran = pratique("rules", *CHAIN, *flags)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert error in ran.stderr
