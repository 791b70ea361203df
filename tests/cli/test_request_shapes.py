"""How the flags of ``pratique review`` shape the request of a manifest, as a policy sees it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from support.pods import pod

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

TOLD = (
    "operation", "subResource", "name", "namespace", "dryRun", "userInfo", "kind", "resource", "options",
)  # fmt: skip
"""The parts of a request that the policy records."""


def expression(name: str) -> str:
    if name in {"kind", "resource"}:
        return f"request.{name}.{name}"
    return {
        "userInfo": "request.userInfo.username + ' of ' + request.userInfo.groups.join(',')",
        "dryRun": "string(request.dryRun)",
        "subResource": "request.?subResource.orValue('')",
        "name": "request.?name.orValue('')",
        "namespace": "request.?namespace.orValue('')",
        "options": "request.?options.?kind.orValue('none')",
    }.get(name, f"request.{name}")


def audit_policy() -> str:
    """A policy that copies its request into audit annotations, and warns if an annotation says so."""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "told"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "operations": ["*"],
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "resources": ["*/*"],
                    }
                ]
            },
            "validations": [
                {"expression": "object == null || !has(object.metadata) || object.metadata.name != 'odd'"}
            ],
            "auditAnnotations": [
                *({"key": name, "valueExpression": f"'=' + {expression(name)}"} for name in TOLD),
                {"key": "old", "valueExpression": "'=' + (oldObject == null ? 'null' : oldObject.kind)"},
                {"key": "object", "valueExpression": "'=' + (object == null ? 'null' : object.kind)"},
                {
                    "key": "oldColour",
                    "valueExpression": "'=' + oldObject.?metadata.?labels.?colour.orValue('')",
                },
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "told"},
        "spec": {"policyName": "told", "validationActions": ["Warn"]},
    }
    return lines(policy, binding)


def lines(*documents: dict[str, Any]) -> str:
    return "".join(json.dumps(document) + "\n---\n" for document in documents)


def coloured_pod(name: str = "web", namespace: str = "", colour: str = "", **more: Any) -> dict[str, Any]:
    """A Pod with a label for its colour, if it has one."""
    labels = {"colour": colour} if colour else None
    return {**pod(name=name, namespace=namespace, labels=labels), **more}


@pytest.fixture
def ask(pratique: Program, tmp_path: Path) -> Callable[..., list[dict[str, str]]]:
    """Review manifests with flags, and return the request that the policy saw for each."""
    (tmp_path / "told.yaml").write_text(audit_policy())

    def run(*flags: str, given: str = lines(coloured_pod()), **variables: str) -> list[dict[str, str]]:
        ran = pratique("review", "-o", "json", "--config", "told.yaml", *flags, "-", stdin=given, **variables)
        assert ran.stderr == ""
        return [
            {
                key.removeprefix("told/"): value[1:]
                for key, value in item["auditAnnotations"].items()
                if key.startswith("told/")
            }
            for item in json.loads(ran.stdout)
        ]

    return run


Ask: TypeAlias = "Callable[..., list[dict[str, str]]]"


def test_without_flags_a_manifest_is_created_by_the_administrator(ask: Ask) -> None:
    (seen,) = ask()
    assert seen == {
        "operation": "CREATE",
        "subResource": "",
        "name": "web",
        "namespace": "default",
        "dryRun": "false",
        "userInfo": "kubernetes-admin of kubeadm:cluster-admins,system:authenticated",
        "kind": "Pod",
        "resource": "pods",
        "options": "CreateOptions",
        "object": "Pod",
        "old": "null",
        "oldColour": "",
    }


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--user", "jane"), {"userInfo": "jane of system:authenticated"}),
        (
            ("--user", "jane", "--group", "a", "--group", "b"),
            {"userInfo": "jane of a,b,system:authenticated"},
        ),
        (
            ("--user", "system:serviceaccount:shop:robot"),
            {
                "userInfo": "system:serviceaccount:shop:robot of"
                " system:serviceaccounts,system:serviceaccounts:shop,system:authenticated"
            },
        ),
        (("--dry-run",), {"dryRun": "true"}),
        (("--namespace", "shop"), {"namespace": "shop"}),
        (
            ("--operation", "DELETE"),
            {"operation": "DELETE", "object": "null", "old": "Pod", "options": "DeleteOptions"},
        ),
        (("--operation", "delete"), {"operation": "DELETE"}),
        (
            ("--operation", "CONNECT", "--subresource", "exec"),
            {
                "operation": "CONNECT",
                "subResource": "exec",
                "kind": "PodExecOptions",
                "resource": "pods",
                "name": "web",
                "object": "PodExecOptions",
                "old": "null",
                "options": "none",
            },
        ),
        (
            ("--subresource", "eviction"),
            {"operation": "CREATE", "subResource": "eviction", "kind": "Eviction", "object": "Eviction"},
        ),
    ],
)
def test_flags_supply_what_the_manifest_does_not_say(
    ask: Ask, flags: tuple[str, ...], expected: dict[str, str]
) -> None:
    (seen,) = ask(*flags)
    assert expected.items() <= seen.items()


def test_flags_can_come_from_the_environment(ask: Ask) -> None:
    (seen,) = ask(
        PRATIQUE_OPERATION="CONNECT",
        PRATIQUE_SUBRESOURCE="attach",
        PRATIQUE_NAMESPACE="shop",
        PRATIQUE_USER="jane",
        PRATIQUE_GROUP="dev ops",
    )
    assert (seen["operation"], seen["kind"], seen["namespace"]) == ("CONNECT", "PodAttachOptions", "shop")
    assert seen["userInfo"] == "jane of dev,ops,system:authenticated"


def test_flags_do_not_change_an_admission_review(ask: Ask, tmp_path: Path) -> None:
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "web",
        "namespace": "own",
        "userInfo": {"username": "ann", "groups": ["x"]},
        "object": coloured_pod("web", "own"),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    (tmp_path / "old.yaml").write_text(lines(coloured_pod()))
    flags = ("--operation", "UPDATE", "--old", "old.yaml", "--namespace", "b", "--user", "jane", "--dry-run")
    first, second = ask(*flags, given=lines(review, coloured_pod()))
    assert (first["operation"], first["namespace"], first["dryRun"]) == ("CREATE", "own", "false")
    assert (first["userInfo"], first["old"]) == ("ann of x", "null")
    assert (second["operation"], second["namespace"], second["dryRun"]) == ("UPDATE", "b", "true")


@pytest.mark.parametrize(("operation", "object_kind"), [("UPDATE", "Pod"), ("DELETE", "null")])
def test_old_objects_are_found_by_group_resource_namespace_and_name(
    ask: Ask, tmp_path: Path, operation: str, object_kind: str
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.yaml").write_text(
        lines(coloured_pod(colour="red"), coloured_pod("web", "shop", "blue"))
    )
    (tmp_path / "old" / "b.yaml").write_text(lines(coloured_pod("other", colour="grey")))
    asked = lines(coloured_pod("web", "shop"), coloured_pod(), coloured_pod("other"))
    seen = ask("--operation", operation, "--old", "old", given=asked)
    assert [item["oldColour"] for item in seen] == ["blue", "red", "grey"]
    assert {entry["object"] for entry in seen} == {object_kind}


def test_old_objects_are_found_in_any_version(ask: Ask, tmp_path: Path) -> None:
    metadata = {"name": "web", "labels": {"colour": "red"}}
    old = {"apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": metadata}
    (tmp_path / "old.yaml").write_text(lines(old))
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    new = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "web"},
        "spec": {"defaultBackend": backend},
    }
    (seen,) = ask("--operation", "UPDATE", "--old", "old.yaml", given=lines(new))
    assert seen["oldColour"] == "red"


def test_the_namespace_flag_applies_to_old_objects(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text(lines(coloured_pod(colour="red")))
    (seen,) = ask("--operation", "UPDATE", "--old", "old.yaml", "--namespace", "shop")
    assert (seen["oldColour"], seen["namespace"]) == ("red", "shop")


ANY_OBJECT = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def test_an_old_custom_resource_can_come_with_its_definition(ask: Ask, tmp_path: Path) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": ANY_OBJECT}],
        },
    }
    ship = {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "a"}}
    (tmp_path / "crds.yaml").write_text(lines(definition))
    (tmp_path / "old.yaml").write_text(
        lines({**ship, "metadata": {"name": "a", "labels": {"colour": "red"}}}, definition)
    )
    flags = ("--operation", "UPDATE", "--old", "old.yaml", "--crds", "crds.yaml")
    assert ask(*flags, given=lines(ship))[0]["oldColour"] == "red"


def test_old_objects_default_to_those_of_the_cluster(ask: Ask, tmp_path: Path) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    (tmp_path / "cluster.yaml").write_text(lines(namespace, account, coloured_pod(colour="red")))
    for operation in ("UPDATE", "DELETE"):
        (seen,) = ask("--operation", operation, "--cluster", "cluster.yaml")
        assert seen["oldColour"] == "red"


@pytest.mark.parametrize("old", [True, False])
def test_an_admitted_object_becomes_the_old_object(ask: Ask, tmp_path: Path, *, old: bool) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    (tmp_path / "first.yaml").write_text(lines(namespace, account, coloured_pod(colour="red")))
    flags = ("--old" if old else "--cluster", "first.yaml")
    asked = lines(coloured_pod(colour="blue"), coloured_pod(colour="green"))
    seen = ask("--operation", "UPDATE", *flags, given=asked)
    assert [item["oldColour"] for item in seen] == ["red", "blue"]


def test_a_dry_run_keeps_the_old_object(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text(lines(coloured_pod(colour="red")))
    flags = ("--operation", "UPDATE", "--old", "old.yaml", "--dry-run")
    seen = ask(*flags, given=lines(coloured_pod(colour="blue"), coloured_pod(colour="green")))
    assert [item["oldColour"] for item in seen] == ["red", "red"]


def test_a_deleted_namespace_is_gone(pratique: Program, tmp_path: Path) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    (tmp_path / "cluster.yaml").write_text(lines(namespace))
    flags = ("--operation", "DELETE", "--cluster", "cluster.yaml")
    update = {"uid": "1", "operation": "CREATE", "name": "c", "namespace": "new"} | {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "new"}},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": update}
    ran = pratique("review", "-o", "json", *flags, "-", stdin=lines(namespace, review))
    first, second = json.loads(ran.stdout)
    assert (first["allowed"], second["status"]["message"]) == (True, 'namespaces "new" not found')


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--operation", "UPDATE"), 'pods "web" not found: an UPDATE needs the object as it is stored'),
        (("--operation", "CONNECT"), "a CONNECT needs a subresource"),
        (("--operation", "CONNECT", "--subresource", "exec", "--dry-run"), "dryRun is not supported"),
        (("--subresource", "exec"), "pods/exec takes CONNECT, not CREATE: give --operation CONNECT"),
        (("--subresource", "scale"), 'kind "Pod" cannot be sent to pods/scale: only to attach'),
        (("--subresource", "binding"), "give the Binding itself"),
    ],
)
def test_impossible_requests_are_reported_with_their_location(
    pratique: Program, flags: tuple[str, ...], text: str
) -> None:
    ran = pratique("review", "-o", "jsonl", *flags, "-", stdin=lines(coloured_pod()))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("pratique: standard input: document 1, line 1, column 1: ")
    assert text in ran.stderr


def test_a_manifest_of_another_namespace_is_refused_in_kubectls_words(pratique: Program) -> None:
    ran = pratique("review", "--namespace", "b", "-", stdin=lines(coloured_pod("web", "a")))
    assert ran.returncode == 2
    assert (
        'the namespace from the provided object "a" does not match the namespace "b". '
        "You must pass '--namespace=a' to perform this operation."
    ) in ran.stderr


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--group", "dev"), "--group names the groups of --user"),
        (("--operation", "PATCH"), "PATCH"),
        (("--old", "gone.yaml"), "gone.yaml"),
        (("--old", "twice.yaml"), 'pods "default/web" is there twice, first in twice.yaml, document 1'),
        (("--old", "odd.yaml"), 'no matches for kind "Podd"'),
        (("--warn-exit-code", "126"), "126"),
        (("--warn-exit-code", "-1"), "-1"),
    ],
)
def test_a_wrong_flag_is_reported_before_any_review(
    pratique: Program, tmp_path: Path, flags: tuple[str, ...], text: str
) -> None:
    (tmp_path / "twice.yaml").write_text(lines(coloured_pod(), coloured_pod()))
    (tmp_path / "odd.yaml").write_text(lines({**coloured_pod(), "kind": "Podd"}))
    ran = pratique("review", *flags, "-", stdin=lines(coloured_pod()))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert text in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_pod_that_claims_to_be_finished_is_still_charged(pratique: Program, tmp_path: Path) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"hard": {"pods": "1"}},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    (tmp_path / "cluster.yaml").write_text(lines(namespace, account, quota))
    done = [coloured_pod(name, status={"phase": "Succeeded"}) for name in ("one", "two")]
    ran = pratique("review", "-o", "json", "--cluster", "cluster.yaml", "-", stdin=lines(*done))
    first, second = json.loads(ran.stdout)
    assert (first["allowed"], second["allowed"]) == (True, False)
    assert "exceeded quota: one" in second["status"]["message"]


@pytest.mark.parametrize(
    ("names", "more", "code"),
    [
        (["odd", "web"], (), 7),
        (["web"], (), 0),
        (["odd"], ("--enable-admission-plugins", "AlwaysDeny"), 1),
    ],
)
def test_warnings_can_have_their_own_exit_code(
    pratique: Program, tmp_path: Path, names: list[str], more: tuple[str, ...], code: int
) -> None:
    (tmp_path / "told.yaml").write_text(audit_policy())
    flags = ("--config", "told.yaml", "--warn-exit-code", "7", *more)
    assert pratique("review", *flags, "-", stdin=lines(*map(coloured_pod, names))).returncode == code


def test_an_unreadable_document_outranks_a_warning(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "told.yaml").write_text(audit_policy())
    flags = ("--config", "told.yaml", "--warn-exit-code", "7")
    assert pratique("review", *flags, "-", stdin=lines(coloured_pod("odd"), {"kind": "Podd"})).returncode == 2


def test_without_the_flag_warnings_exit_with_0(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "told.yaml").write_text(audit_policy())
    assert pratique("review", "--config", "told.yaml", "-", stdin=lines(coloured_pod("odd"))).returncode == 0


def test_the_help_groups_flags_by_purpose(pratique: Program) -> None:
    out = pratique("review", "--help").stdout
    wanted = ["Options:", "--phase", "--warn-exit-code", "Request of a manifest", "--operation", "--dry-run",
              "Admission chain:", "--config", "Settings of single controllers:", "Exit codes:"]  # fmt: skip
    places = [out.index(item) for item in wanted]
    assert places == sorted(places)
    assert max(map(len, out.splitlines())) <= 80
