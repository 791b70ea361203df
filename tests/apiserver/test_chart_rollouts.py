"""The PolicyRollout that the chart writes: what it holds in shadow, and where it would not do what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pratique.configuration.loading import load_configurations
from pratique.configuration.policy_rollouts import PolicyRollout, RolloutMode
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from support.charts import by_name, refusal, rendered

POLICY = {"kind": "ValidatingAdmissionPolicy", "name": "replicas"}


def rollout(folder: Path, values: dict[str, Any]) -> PolicyRollout:
    """The rollout of the file that Pods get, as services read it."""
    made = by_name(rendered(values))
    (folder / "rollout.yaml").write_text(made["ConfigMap", "pratique-config"]["data"]["rollout.yaml"])
    [found] = load_configurations([folder / "rollout.yaml"]).rollouts
    return found


def test_without_a_mode_there_is_none() -> None:
    assert ("ConfigMap", "pratique-config") not in by_name(rendered())


@pytest.mark.parametrize(
    "chain",
    [
        {},
        {"admissionControl": [], "disableAdmissionPlugins": ["ResourceQuota"]},
        {"admissionControl": ["AlwaysPullImages", "ValidatingAdmissionPolicy"]},
    ],
)
def test_all_controllers_of_the_chain_are_in_shadow(tmp_path: Path, chain: dict[str, Any]) -> None:
    """Those that run policies are not named: without policies, there is nothing to be enforced."""
    made = by_name(rendered({"chain": chain}))
    exact = made["ConfigMap", "pratique-chain"]["data"].get("PRATIQUE_ADMISSION_CONTROL")
    settings = ChainSettings(
        admission_control=tuple(exact.split(",")) if exact else None,
        disable_admission_plugins=tuple(chain.get("disableAdmissionPlugins", ())),
    )
    enabled = {controller.name for controller in load_catalogue().select(settings)}
    found = rollout(tmp_path, {"chain": chain, "rollout": {"mode": "Shadow"}})
    assert found.mode is RolloutMode.SHADOW
    named = {reference.name for reference in found.spec.policies}
    runners = {
        f"{kind}Admission{what}" for kind in ("Mutating", "Validating") for what in ("Policy", "Webhook")
    }
    assert named == enabled - runners


def test_controllers_of_your_own_are_in_shadow_too(tmp_path: Path) -> None:
    policies = {"modules": {"a.py": ""}, "controllers": ["a:require_team"]}
    chain = {"admissionControl": ["RequireTeam"], "policies": policies}
    found = rollout(tmp_path, {"chain": chain, "rollout": {"mode": "Shadow"}})
    assert [reference.name for reference in found.spec.policies] == ["RequireTeam"]


def test_a_canary_has_the_namespaces_of_the_values_and_no_other_mode_has(tmp_path: Path) -> None:
    share = {"percent": 20, "namespaces": ["early"], "namespaceSelector": {"matchLabels": {"a": "b"}}}
    canary = rollout(tmp_path, {"rollout": {"mode": "Canary", **share}}).spec
    assert (canary.percent, canary.namespaces) == (20, ("early",))
    assert canary.namespace_selector is not None
    enforced = rollout(tmp_path, {"rollout": {"mode": "Enforce", **share}}).spec
    assert (enforced.percent, enforced.namespaces, enforced.namespace_selector) == (None, (), None)


def test_it_stands_beside_the_policies_which_are_named_one_by_one(tmp_path: Path) -> None:
    values = {
        "chain": {"config": {"policies.yaml": "{}"}, "admissionControl": ["ValidatingAdmissionPolicy"]},
        "rollout": {"mode": "Shadow", "policies": [POLICY]},
    }
    assert [reference.name for reference in rollout(tmp_path, values).spec.policies] == ["replicas"]
    made = by_name(rendered(values))
    assert made["ConfigMap", "pratique-config"]["data"].keys() == {"policies.yaml", "rollout.yaml"}


def test_another_mode_changes_a_file_and_no_pod() -> None:
    def made(mode: str) -> dict[tuple[str, str], Any]:
        return by_name(rendered({"rollout": {"mode": mode}}))

    shadow, enforced = made("Shadow"), made("Enforce")
    changed = {key for key in shadow if shadow[key] != enforced[key]}
    assert changed == {("ConfigMap", "pratique-config")}
    for service in ("frontdoor", "mutator", "validator"):
        [container] = shadow["Deployment", f"pratique-{service}"]["spec"]["template"]["spec"]["containers"]
        assert "--config=/etc/pratique/config" in container["args"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rollout": {"mode": "Audit"}}, "/rollout/mode"),
        ({"rollout": {"mode": "Canary"}}, "Canary needs rollout.percent, rollout.namespaces or"),
        (
            {"rollout": {"mode": "Shadow"}, "chain": {"admissionControl": ["ResourceQuota"]}},
            "ResourceQuota does more than answer, and cannot be in shadow",
        ),
        (
            {
                "rollout": {"mode": "Shadow"},
                "chain": {"admissionControl": ["ValidatingAdmissionPolicy"], "config": {"p.yaml": "{}"}},
            },
            "name the policies or webhooks that ValidatingAdmissionPolicy runs one by one",
        ),
        (
            {
                "rollout": {"mode": "Shadow"},
                "chain": {"admissionControl": ["MutatingAdmissionPolicy"]},
                "liveCluster": {"enabled": True, "policiesFrom": ["cluster"]},
            },
            "name the policies or webhooks that MutatingAdmissionPolicy runs one by one",
        ),
        (
            {"rollout": {"mode": "Shadow"}, "chain": {"config": {"rollout.yaml": "{}"}}},
            "rollout.yaml is the file that rollout.mode writes",
        ),
    ],
)
def test_what_would_be_enforced_though_the_mode_says_otherwise_is_refused(
    values: dict[str, Any], message: str
) -> None:
    assert message in refusal(values)
