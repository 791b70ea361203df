"""The rules for API servers match what the chain matches: no request less, and none that nobody handles."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import BOTH, VALIDATE, Phase
from pratique.admission.rule_checks import built_in_rule_checker
from pratique.admission.rules import EVERYTHING, Rule
from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.kinds import ResourceType
from pratique.configuration.loading import Configurations, load_configurations
from pratique.configuration.webhook_validation import validate_rule
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.webhook_rules import matches_everything, merge_rules, rules_of_chain

CONTROLLERS = tuple(load_catalogue())
CALLERS = {
    *("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"),
    *("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"),
}
"""They match what webhooks and policies match."""
CHECKER = built_in_rule_checker()
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: scaled}
spec:
  matchConstraints:
    resourceRules:
    - {operations: [UPDATE], apiGroups: [apps], apiVersions: [v1], resources: ['*/scale'], resourceNames: [web]}
  validations: [{expression: 'true'}]
"""
BINDING = """
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: scaled}
spec: {policyName: scaled, validationActions: [Deny]}
"""


def some(*choices: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique=True).map(tuple)


RULES = st.builds(
    Rule,
    operations=some("*", "CREATE", "UPDATE", "DELETE", "CONNECT"),
    api_groups=some("*", "", "apps", "policy"),
    api_versions=some("*", "v1", "v1beta1"),
    resources=some("*", "*/*", "pods", "pods/*", "*/scale", "pods/status", "deployments/scale", "pods/exec"),
    scope=st.sampled_from([None, "*", "Cluster", "Namespaced"]),
)


def requests(rules: Iterable[Rule]) -> set[tuple[ResourceType, str]]:
    """All kinds and operations that the rules match."""
    return {request for rule in rules for request in CHECKER.matched(rule)}


@given(st.lists(RULES, max_size=6))
def test_merged_rules_match_the_same_requests(rules: list[Rule]) -> None:
    assert requests(merge_rules(rules)) == requests(rules)


@given(st.lists(RULES, max_size=6))
def test_an_api_server_accepts_merged_rules(rules: list[Rule]) -> None:
    assert [error for rule in merge_rules(rules) for error in validate_rule(rule, ROOT)] == []


@given(
    st.sets(st.sampled_from([controller.name for controller in CONTROLLERS]), min_size=1),
    st.sampled_from(["mutate", "validate"]),
)
def test_everything_that_a_chain_matches_is_covered(names: set[str], phase: str) -> None:
    chain = [controller for controller in CONTROLLERS if controller.name in names]
    own = [c for c in chain if c.name not in CALLERS and Phase(phase) in c.phases]
    written = rules_of_chain(chain, Configurations(), frozenset({Phase(phase)}))
    assert requests(written) == {request for controller in own for request in requests(controller.rules)}


def test_a_wildcard_leaves_no_other_rule() -> None:
    pods = Rule(("CREATE",), ("",), ("v1",), ("pods", "pods/resize"), "Namespaced")
    assert merge_rules([pods, EVERYTHING, pods]) == (EVERYTHING,)


def test_policies_are_called_where_they_are_bound(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    caller = [controller for controller in CONTROLLERS if controller.name == "ValidatingAdmissionPolicy"]
    file.write_text(POLICY)
    assert rules_of_chain(caller, load_configurations([file]), VALIDATE) == ()
    file.write_text(POLICY + BINDING)
    assert rules_of_chain(caller, load_configurations([file]), VALIDATE) == (
        Rule(("UPDATE",), ("apps",), ("v1",), ("*/scale",), "*"),
    )


def test_controllers_that_match_everything_are_named() -> None:
    names = matches_everything(CONTROLLERS, BOTH)
    assert {"NamespaceLifecycle", "ResourceQuota", "AlwaysDeny"} <= set(names)
    assert not {"AlwaysPullImages", *CALLERS} & set(names)
