"""What the chart makes of a chain: the roles of its services, and the webhooks that call it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pratique.admission.controllers import Phase
from pratique.admission.rule_checks import built_in_rule_checker
from pratique.admission.rules import Rule
from pratique.apimachinery.kinds import ResourceType
from pratique.cluster.api_resources import built_in_resources
from pratique.configuration.loading import Configurations
from pratique.configuration.settings import AuthorizerSource, ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.cluster_roles import (
    PHASES_OF_SERVICES,
    FollowedResources,
    creates_namespaces,
    policy_rules,
)
from pratique.hosting.webhook_rules import rules_of_chain
from support.api_servers import ApiServer, write_kubeconfig
from support.bound_processes import bound_process
from support.charts import RELEASE, by_name, refusal, rendered
from support.forked_commands import PROGRAM, run
from support.free_ports import free_port
from support.waiting import within

CHAINS: dict[str, dict[str, Any]] = {
    "the chart's": {},
    "the default": {"admissionControl": []},
    "less and more": {
        "admissionControl": [],
        "enableAdmissionPlugins": ["NamespaceAutoProvision", "AlwaysPullImages"],
        "disableAdmissionPlugins": ["ServiceAccount", "ResourceQuota"],
    },
    "exact": {"admissionControl": ["NodeRestriction", "OwnerReferencesPermissionEnforcement"]},
    "of one phase": {"admissionControl": ["CertificateApproval"]},
}
BUNDLE = "LS0t"
CHECKER = built_in_rule_checker()


def settings(chain: dict[str, Any]) -> ChainSettings:
    of_chart = ("LimitPodHardAntiAffinityTopology", "AlwaysPullImages", "ExtendedResourceToleration")
    return ChainSettings(
        admission_control=tuple(chain.get("admissionControl", of_chart)) or None,
        enable_admission_plugins=tuple(chain.get("enableAdmissionPlugins", ())),
        disable_admission_plugins=tuple(chain.get("disableAdmissionPlugins", ())),
    )


def matched(rules: Any) -> set[tuple[ResourceType, str]]:
    return {request for rule in msgspec.convert(rules, tuple[Rule, ...]) for request in CHECKER.matched(rule)}


@pytest.mark.parametrize("authorizer", AuthorizerSource)
@pytest.mark.parametrize("name", CHAINS)
def test_roles_follow_from_the_chain(name: str, authorizer: AuthorizerSource) -> None:
    chain = CHAINS[name]
    live = {"enabled": True, "authorizer": authorizer.value}
    values = {"chain": chain, "liveCluster": live}
    made = by_name(rendered(values))
    selected = load_catalogue().select(settings(chain))
    for service in PHASES_OF_SERVICES:
        followed = FollowedResources.of_service(
            service, selected, Configurations(), built_in_resources(), authorizer
        )
        provisions, asks = creates_namespaces(service, selected), authorizer is AuthorizerSource.CLUSTER
        wanted = list(policy_rules(followed, provisions=provisions, asks_api_server=asks))
        assert made["ClusterRole", f"pratique-{service}"]["rules"] == wanted, service
        [bound] = made["ClusterRoleBinding", f"pratique-{service}"]["subjects"]
        assert bound == {"kind": "ServiceAccount", "name": f"pratique-{service}", "namespace": RELEASE}
        spec = made["Deployment", f"pratique-{service}"]["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is True
        assert {"--in-cluster", f"--authorizer={authorizer}"} <= set(spec["containers"][0]["args"])


@pytest.mark.parametrize("name", CHAINS)
def test_webhooks_match_what_the_chain_does(name: str) -> None:
    chain = CHAINS[name]
    webhooks = {"enabled": True, "caBundle": BUNDLE}
    made = by_name(rendered({"chain": chain, "webhooks": webhooks}))
    selected = load_catalogue().select(settings(chain))
    for kind, phase in (("Mutating", Phase.MUTATE), ("Validating", Phase.VALIDATE)):
        wanted = rules_of_chain(selected, Configurations(), frozenset({phase}))
        found = made.get((f"{kind}WebhookConfiguration", RELEASE))
        assert (found is None) == (not wanted)
        if found:
            assert matched(found["webhooks"][0]["rules"]) == matched(msgspec.to_builtins(wanted))


def rights(rules: list[Any]) -> set[tuple[str, str, str, str]]:
    """Each thing that rules allow: group, resource, name or "", and verb."""
    return {
        (group, resource, name, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def test_roles_for_policies_of_the_cluster_are_those_of_the_command() -> None:
    sources = ["cluster", "webhooks", "configmaps=rules"]
    live = {"enabled": True, "policiesFrom": sources}
    values = {"chain": {"admissionControl": ["LimitRanger"]}, "liveCluster": live}
    made = by_name(rendered(values))
    flags = [f"--policies-from={source}" for source in sources]
    written = by_name(run([PROGRAM, "rules", "--rbac", "--admission-control=LimitRanger", *flags]).stdout)
    for service in PHASES_OF_SERVICES:
        name = f"pratique-{service}"
        for kind, namespace in (("ClusterRole", None), ("Role", "rules")):
            assert rights(made[kind, name]["rules"]) == rights(written[kind, name]["rules"]), service
            assert made[kind, name]["metadata"].get("namespace") == namespace
            for member in ("metadata", "roleRef", "subjects"):
                assert made[f"{kind}Binding", name][member] == written[f"{kind}Binding", name][member]
        arguments = made["Deployment", name]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert set(flags) < set(arguments)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"liveCluster": {"policiesFrom": ["cluster"]}}, "liveCluster"),
        ({"liveCluster": {"enabled": True, "policiesFrom": ["everywhere"]}}, "does not match pattern"),
        (
            {
                "chain": {"admissionControl": ["MutatingAdmissionPolicy"]},
                "liveCluster": {"enabled": True, "policiesFrom": ["cluster"]},
                "webhooks": {"enabled": True, "caBundle": BUNDLE},
            },
            "MutatingAdmissionPolicy matches what policies of the cluster say",
        ),
    ],
)
def test_wrong_sources_of_policies_are_refused(values: dict[str, Any], message: str) -> None:
    assert message in refusal(values)


def test_rules_for_everything_leave_out_what_a_cluster_needs_to_start_again() -> None:
    def conditions(*controllers: str) -> list[str]:
        values = {
            "chain": {"admissionControl": [*controllers]},
            "webhooks": {"enabled": True, "caBundle": BUNDLE},
        }
        made = by_name(rendered(values))
        [webhook] = made["MutatingWebhookConfiguration", RELEASE]["webhooks"]
        return [condition["name"] for condition in webhook["matchConditions"]]

    assert conditions("AlwaysPullImages") == ["no-mirror-pods"]
    everything = ["no-mirror-pods", "no-access-reviews", "no-node-heartbeats"]
    assert conditions("NamespaceLifecycle") == everything
    assert conditions("NamespaceLifecycle", "NodeRestriction") == everything[:2]


def test_what_policies_match_has_to_be_said() -> None:
    values: dict[str, Any] = {
        "chain": {"admissionControl": ["ValidatingAdmissionPolicy"], "config": {"a.yaml": "{}"}},
        "webhooks": {"enabled": True, "caBundle": BUNDLE},
    }
    assert "webhooks.rules.validating is required: ValidatingAdmissionPolicy matches" in refusal(values)
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
    }
    values["webhooks"]["rules"] = {"validating": [rule]}
    made = by_name(rendered(values))
    assert made["ValidatingWebhookConfiguration", RELEASE]["webhooks"][0]["rules"] == [rule]


@pytest.mark.parametrize("service", ["mutator", "validator"])
def test_a_service_starts_with_the_rights_of_its_role_and_no_others(
    api_server: ApiServer, tmp_path: Path, service: str
) -> None:
    namespace = f"rights-{service}"
    chain = {"admissionControl": [], "enableAdmissionPlugins": ["NamespaceAutoProvision"]}
    values = {"chain": chain, "liveCluster": {"enabled": True}}
    made = by_name(rendered(values, namespace=namespace))
    api_server.create_namespace(namespace)
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    wanted = [made[kind, f"pratique-{service}"] for kind in kinds]
    applied = api_server.kubectl("apply", "-f", "-", stdin=msgspec.json.encode(as_list(wanted)).decode())
    assert applied.returncode == 0, applied.stderr
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/pratique-{service}/token"
    token = api_server.ask("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
    kubeconfig = write_kubeconfig(api_server, tmp_path)
    kubeconfig.write_text(kubeconfig.read_text().replace("token-of-admin", token.body["status"]["token"]))
    command = [str(PROGRAM), "serve", service, f"--port={free_port()}"]
    command += ["--enable-admission-plugins=NamespaceAutoProvision"]
    command += [f"--kubeconfig={kubeconfig}", "--context=test"]
    log = tmp_path / "log"
    with bound_process(command, log) as process:
        within(60, lambda: "ready on" in log.read_text() or process.poll() is not None)
        assert "ready on" in log.read_text(), log.read_text()[-2000:]
        assert "cannot be followed" not in log.read_text()
    for verb, resource, allowed in (
        ("watch", "namespaces", "yes"),
        ("get", "secrets", "no"),
        ("delete", "namespaces", "no"),
    ):
        user = f"--as=system:serviceaccount:{namespace}:pratique-{service}"
        asked = api_server.kubectl("auth", "can-i", verb, resource, user, f"--namespace={namespace}")
        assert asked.stdout.strip() == allowed, (verb, resource)


def as_list(items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}
