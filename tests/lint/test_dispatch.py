"""`check` reports that a webhook is called exactly if `review` calls it."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pratique.admission.controllers import BOTH
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import load_configurations
from pratique.configuration.settings import ChainSettings
from pratique.lint import sample_requests
from pratique.lint.registry import find_violations
from pratique.lint.sample_requests import SampleRequest
from pratique_frontdoor.engines.local import LocalEngine
from pratique_frontdoor.engines.outage_simulation import OutageSimulation
from support.lint_findings import mutating, outside, rule, validating, webhook, write

INTERCEPTIONS = {
    "intercepts-kube-system": sample_requests.SYSTEM_OBJECTS,
    "intercepts-node-leases": sample_requests.LEASE_UPDATES,
    "intercepts-nodes": sample_requests.NODE_REQUESTS,
    "intercepts-events": sample_requests.EVENT_REQUESTS,
    "intercepts-pod-status": sample_requests.POD_STATUS_UPDATES,
}
"""Rules that find webhooks which fail closed, and the sample requests that they try."""
CLOSED = {"matchPolicy": "Equivalent", "failurePolicy": "Fail"}
CLUSTER = ObjectStore(
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for name in ("default", "kube-node-lease", "kube-system")
)
OFF = {"nothing": (), "webhooks": ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")}
IN_THE_WAY = ("LimitRanger", "NamespaceLifecycle", "ServiceAccount")
"""Controllers that would deny or change a request before a webhook sees it, or add steps that do not matter here."""


def versions(samples: tuple[SampleRequest, ...]) -> list[SampleRequest]:
    return [version for sample in samples for version in sample.versions(CLUSTER.resources)]


def asked(sample: SampleRequest) -> Review:
    return msgspec.structs.replace(sample.review(), cluster=CLUSTER)


def called_in_review(path: Path, samples: list[SampleRequest], chain: ChainSettings) -> bool:
    """Whether the engine of ``pratique review`` calls the webhook, which cannot be reached and therefore denies."""

    async def ask() -> bool:
        engine = LocalEngine(chain, CLUSTER)
        try:
            for sample in samples:
                decision = await engine.decide(asked(sample), BOTH, Deadline.after(30), explain=True)
                of_webhook = [step for step in decision.steps if step.name == "a.example.com"]
                if any(step.outcome is not StepOutcome.SKIPPED for step in of_webhook):
                    return True
        finally:
            await engine.close()
        return False

    return asyncio.run(ask())


def compare(folder: Path, document: JSONObject, off: str) -> None:
    path = write(folder, [document])
    chain = ChainSettings(config=(path,), disable_admission_plugins=(*IN_THE_WAY, *OFF[off]))
    configurations = load_configurations([path])
    with OutageSimulation(chain, configurations, CLUSTER) as trial:
        reported = {
            find_violation.lint_rule.name
            for find_violation in find_violations(
                configurations, CLUSTER, trial, rules=set(INTERCEPTIONS), now=0.0
            )
        }
    expected = {
        name for name, samples in INTERCEPTIONS.items() if called_in_review(path, versions(samples), chain)
    }
    assert reported == expected


def unreachable(rules: list[JSONObject], **fields: object) -> JSONObject:
    return webhook(
        *rules, clientConfig={"url": "https://127.0.0.1:1"}, timeoutSeconds=1, **{**CLOSED, **fields}
    )


GROUPS = st.sampled_from(["", "apps", "extensions", "*", "events.k8s.io", "coordination.k8s.io"])
RULES = st.builds(
    lambda group, version, resource, operation: {
        **rule(resource, group, operation),
        "apiVersions": [version],
    },
    GROUPS,
    st.sampled_from(["v1", "v1beta1", "v1beta2", "*"]),
    st.sampled_from(
        ["pods", "deployments", "events", "leases", "nodes", "pods/status", "*", "*/status", "*/*"]
    ),
    st.sampled_from(["CREATE", "UPDATE", "*"]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rules=st.lists(RULES, min_size=1, max_size=2),
    exact=st.booleans(),
    everywhere=st.booleans(),
    mutates=st.booleans(),
    off=st.sampled_from(sorted(OFF)),
)
def test_check_and_review_agree_about_which_webhook_is_called(
    tmp_path: Path, rules: list[JSONObject], off: str, *, exact: bool, everywhere: bool, mutates: bool
) -> None:
    hook = unreachable(
        rules,
        matchPolicy="Exact" if exact else "Equivalent",
        namespaceSelector={} if everywhere else outside("kube-system"),
    )
    compare(tmp_path, mutating(hook) if mutates else validating(hook), off)


@pytest.mark.parametrize(("mutates", "off"), [*itertools.product([True, False], sorted(OFF))])
def test_a_webhook_for_a_removed_version_is_never_called(tmp_path: Path, off: str, *, mutates: bool) -> None:
    old = {**rule("deployments", "extensions"), "apiVersions": ["v1beta1"]}
    hook = unreachable([old], namespaceSelector={})
    compare(tmp_path, mutating(hook) if mutates else validating(hook), off)
    path = write(tmp_path, [validating(hook)])
    configurations = load_configurations([path])
    with OutageSimulation(ChainSettings(), configurations, CLUSTER) as trial:
        found = find_violations(configurations, CLUSTER, trial, now=0.0)
    assert {"intercepts-kube-system"}.isdisjoint(finding.lint_rule.name for finding in found)
    assert any("Kubernetes has none of it since 1.16" in str(item) for item in found)


def test_a_broken_condition_hides_no_webhook_after_it(tmp_path: Path) -> None:
    broken = [{"name": "broken", "expression": "object.spec.nothing == 1"}]
    first = webhook(rule("pods"), name="a.example.com", namespaceSelector={}, matchConditions=broken)
    second = webhook(rule("pods"), name="b.example.com", namespaceSelector={})
    path = write(tmp_path, [mutating(first, second)])
    configurations = load_configurations([path])
    with OutageSimulation(ChainSettings(), configurations, CLUSTER) as trial:
        found = find_violations(configurations, CLUSTER, trial, rules={"intercepts-kube-system"}, now=0.0)
    assert [finding.violation.path[1] for finding in found] == [0, 1]
