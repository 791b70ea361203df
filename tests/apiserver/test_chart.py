"""The Helm chart and the kustomization: what they install, and in which order it comes and goes."""

from __future__ import annotations

import base64
import copy
import importlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique_cli.main import HELP_FLAGS
from support.api_servers import ApiServer
from support.charts import (
    CHART,
    DEPLOY,
    RELEASE,
    WITHOUT_SCHEMAS,
    access,
    by_name,
    define_operators_kinds,
    helm,
    of,
    refusal,
    rendered,
)
from support.cluster_manifests import objects
from support.kubernetes_programs import program, why_not

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
BUNDLE = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
POLICY = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n"
VALUE_SETS: dict[str, dict[str, Any]] = {
    "as-it-is": {},
    "webhooks": {
        "rollout": {"mode": "Canary", "percent": 20},
        "webhooks": {"enabled": True, "caBundle": BUNDLE, "failurePolicy": {"mutating": "Fail"}},
    },
    "another-chain": {
        "chain": {
            "admissionControl": [],
            "enableAdmissionPlugins": ["AlwaysPullImages"],
            "disableAdmissionPlugins": ["ResourceQuota"],
            "variables": {"PRATIQUE_POD_SECURITY": "restricted"},
            "config": {"policy.yaml": POLICY},
            "cluster": {"namespaces.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n"},
        },
        "replicas": {"validator": 5},
    },
    "everything": {
        "chain": {"admissionControl": [], "enableAdmissionPlugins": ["NamespaceAutoProvision"]},
        "liveCluster": {
            "enabled": True,
            "authorizer": "cluster",
            "rules": [{"apiGroups": ["example.com"], "resources": ["limits"], "verbs": ["list", "watch"]}],
        },
        "certificates": {"from": "cert-manager"},
        "autoscaling": {"enabled": True, "inFlight": 20},
        "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {
            "egress": {
                "services": [{"to": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": 443}]}]
            }
        },
        "webhooks": {"enabled": True, "stage": "dry-run", "namespaces": ["shop"]},
    },
    "made-by-helm": {
        "certificates": {"from": "helm"},
        "liveCluster": {"enabled": True},
        "webhooks": {"enabled": True, "stage": "ignore"},
    },
    "images": {
        "chain": {"admissionControl": ["ImagePolicyWebhook"], "plugins": [{"name": "AlwaysPullImages"}]},
        "imageVerifier": {
            "enabled": True,
            "policy": "kind: ImageVerificationPolicy",
            "registrySecret": "users",
        },
        "networkPolicy": {
            "egress": {"imageVerifier": [{"to": [{"podSelector": {}}], "ports": [{"port": 443}]}]}
        },
        "liveCluster": {"enabled": True},
        "monitoring": {"enabled": True},
        "webhooks": {"enabled": True, "caBundle": BUNDLE},
    },
    "less": {
        "authentication": {"allowedNames": []},
        "networkPolicy": {"enabled": False},
        "guards": {"enabled": False},
    },
}


def test_the_chart_installs_what_the_example_does() -> None:
    """So the tests of the example, whose flags run as processes behind an API server, are the chart's."""
    made = copy.deepcopy(by_name(rendered()))
    for (kind, _), document in made.items():
        if kind == "Deployment":
            assert list(document["spec"]["template"]["metadata"].pop("annotations")) == ["checksum/chain"]
    assert made == {(item["kind"], item["metadata"]["name"]): item for item in objects()}


def test_the_kustomization_is_what_the_chart_renders() -> None:
    if missing := why_not("kubectl"):
        pytest.skip(missing)
    built = subprocess.run(
        [str(program("kubectl")), "kustomize", str(DEPLOY / "kustomize")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert by_name(built.stdout) == by_name(rendered())


def test_the_overlay_of_the_page_installs_what_helm_does_with_its_values(
    api_server: ApiServer, tmp_path: Path
) -> None:
    shown = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    shutil.copytree(DEPLOY / "kustomize", tmp_path / "deploy" / "kustomize")
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "kustomization.yaml").write_text(shown["overlay/kustomization.yaml"])
    built = api_server.kubectl("kustomize", str(tmp_path / "overlay"))
    assert built.returncode == 0, built.stderr
    assert by_name(built.stdout) == by_name(rendered(yaml.safe_load(shown["values.yaml"])))
    api_server.create_namespace(RELEASE)
    flags = ("--server-side", "--validate=strict", "--dry-run=server")
    applied = api_server.kubectl("apply", *flags, "-k", str(tmp_path / "overlay"))
    assert applied.returncode == 0, applied.stderr


@pytest.mark.parametrize("name", VALUE_SETS)
def test_helm_finds_nothing_wrong_in_the_chart(name: str) -> None:
    flags = ("--kube-version=1.37.0", *of(RELEASE), "--values=-")
    linted = helm("lint", "--strict", str(CHART), *flags, values=VALUE_SETS[name])
    assert linted.returncode == 0, linted.stdout


def test_the_readme_of_the_chart_tells_of_each_value() -> None:
    text = (CHART / "README.md").read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(values)


@pytest.mark.parametrize("name", VALUE_SETS)
def test_an_api_server_accepts_the_chart_strictly(api_server: ApiServer, name: str) -> None:
    define_operators_kinds(api_server)
    text = rendered(VALUE_SETS[name], namespace=name, hooks=True)
    api_server.create_namespace(name)
    flags = ("--server-side", "--validate=strict", "--dry-run=server", "-f", "-")
    applied = api_server.kubectl("apply", *flags, stdin=text)
    assert applied.returncode == 0, applied.stderr
    assert len(applied.stdout.splitlines()) == text.count("\nkind: ")


@pytest.mark.parametrize("name", VALUE_SETS)
def test_services_know_the_flags_of_their_containers(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    made = by_name(rendered(VALUE_SETS[name]))
    for service in ("frontdoor", "mutator", "validator"):
        [container] = made["Deployment", f"pratique-{service}"]["spec"]["template"]["spec"]["containers"]
        given = [re.sub(r"=/etc/\S+", f"={tmp_path / 'file'}", word) for word in container["args"]]
        assert given[:2] == ["serve", service]
        command = importlib.import_module(f"pratique_cli.commands.services.{service}").command
        parsed = command.make_context(service, given[2:], help_option_names=list(HELP_FLAGS)).params
        assert parsed["port"] == container["ports"][0]["containerPort"]


def test_other_chain_flags_reach_all_services() -> None:
    made = by_name(rendered(VALUE_SETS["another-chain"]))
    assert made["ConfigMap", "pratique-chain"]["data"] == {
        "PRATIQUE_ENABLE_ADMISSION_PLUGINS": "AlwaysPullImages",
        "PRATIQUE_DISABLE_ADMISSION_PLUGINS": "ResourceQuota",
        "PRATIQUE_POD_SECURITY": "restricted",
    }
    for service in ("frontdoor", "mutator", "validator"):
        spec = made["Deployment", f"pratique-{service}"]["spec"]["template"]["spec"]
        [container] = spec["containers"]
        assert {"--config=/etc/pratique/config", "--cluster=/etc/pratique/cluster"} <= set(container["args"])
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted["config"] == "/etc/pratique/config"
        assert {"tls", "config", "cluster"} == {volume["name"] for volume in spec["volumes"]}


def test_pods_are_replaced_when_the_chain_changes() -> None:
    def checksum(*flags: str) -> str:
        template = by_name(rendered(None, *flags))["Deployment", "pratique-mutator"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/chain"])

    assert checksum() != checksum("--set", "chain.admissionControl={AlwaysDeny}")
    assert checksum() == checksum("--set", "replicas.validator=3")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"image": {"repository": ""}}, "/image/repository"),
        ({"networkPolicy": {"apiServers": []}}, "/networkPolicy/apiServers"),
        ({"webhooks": {"timeoutSeconds": 31}}, "/webhooks/timeoutSeconds"),
        ({"webhooks": {"failurePolicy": {"mutating": "Allow"}}}, "/webhooks/failurePolicy/mutating"),
        ({"webhooks": {"enabled": True}}, "webhooks.caBundle is required: base64 <certs/ca.crt"),
        ({"replicas": {"mutator": 0}}, "/replicas/mutator"),
        ({"webhooks": {"stage": "audit"}}, "/webhooks/stage"),
        ({"certificates": {"from": "nowhere"}}, "/certificates/from"),
        ({"certificates": {"issuerRef": {"kind": "ClusterIssuer"}}}, "/certificates/issuerRef"),
        (
            {"autoscaling": {"enabled": True, "inFlight": 0, "cpuUtilization": 0}},
            "/autoscaling/cpuUtilization",
        ),
        (
            {"liveCluster": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]}},
            "/liveCluster/rules/0/verbs/0",
        ),
        ({"chain": {"admisionControl": []}}, "additional properties 'admisionControl' not allowed"),
    ],
)
def test_bad_values_are_refused_in_clear_words(values: dict[str, Any], message: str) -> None:
    assert message in refusal(values)


@pytest.mark.parametrize("certificates", ["existing", "helm", "cert-manager"])
def test_webhooks_come_last_and_go_first(api_server: ApiServer, certificates: str) -> None:
    """A webhook whose Pods are gone would block what it matches, until somebody deletes it by hand."""
    namespace = f"lifecycle-{certificates}"
    define_operators_kinds(api_server)
    api_server.create_namespace(namespace)
    selector = {"key": "nobody", "operator": "Exists"}
    given = {"certificates": {"from": certificates}, "liveCluster": {"enabled": True}}
    on = {"webhooks": {"enabled": True, "caBundle": BUNDLE, "namespaceSelector": [selector]}}
    common = (*of(namespace), *access(api_server), "--set=namespace.create=false", *WITHOUT_SCHEMAS)
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/pratique"

    def run(*words: str, values: dict[str, Any] | None = None) -> list[str]:
        before = api_server.audited()
        ran = helm(*words, values=values)
        assert ran.returncode == 0, ran.stderr
        return [
            event["objectRef"]["resource"]
            for event in api_server.audit_events(before)
            if event["verb"] == "delete" and event["responseStatus"]["code"] < 300
        ]

    run("install", RELEASE, str(CHART), *common, "--values=-", values=given)
    assert api_server.ask("GET", path).code == 404
    run("upgrade", RELEASE, str(CHART), *common, "--values=-", values=given | on)
    assert api_server.ask("GET", path).code == 200
    run("rollback", RELEASE, "1", "--namespace", namespace, *access(api_server))
    assert api_server.ask("GET", path).code == 404
    run("rollback", RELEASE, "2", "--namespace", namespace, *access(api_server))
    assert api_server.ask("GET", path).code == 200
    deleted = run("uninstall", RELEASE, "--namespace", namespace, *access(api_server))
    webhooks = {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
    last = max(index for index, resource in enumerate(deleted) if resource in webhooks)
    assert set(deleted[: last + 1]) == webhooks, deleted
    assert {"deployments", "services", "serviceaccounts", "clusterroles"} <= set(deleted[last:])
    kinds = (*webhooks, "validatingadmissionpolicies", "validatingadmissionpolicybindings")
    kinds += ("clusterroles", "clusterrolebindings", "secrets", "networkpolicies", "poddisruptionbudgets")
    left = api_server.kubectl("get", ",".join(kinds), f"--namespace={namespace}", "-o", "name")
    assert left.returncode == 0, left.stderr
    assert "pratique" not in left.stdout
