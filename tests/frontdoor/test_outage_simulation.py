"""Requests on the real chain while no webhook answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ANY_NAMESPACE
from pratique.configuration.admissionregistration import WebhookConfigurationKind
from pratique.configuration.loading import load_configurations
from pratique.configuration.settings import ChainSettings
from pratique.lint.outage_simulation import OutageResult, WebhookName
from pratique.manifests.requests import review_of_manifest
from pratique_frontdoor.engines.outage_simulation import OutageSimulation
from support.lint_findings import mutating, rule, validating, webhook, write

POD: JSONObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def hook(name: str, **fields: Any) -> JSONObject:
    return webhook(rule("pods"), name=f"{name}.example.com", **fields)


def called(kind: WebhookConfigurationKind, name: str) -> WebhookName:
    configuration = "changes" if kind is WebhookConfigurationKind.MUTATING else "checks"
    return WebhookName(kind, configuration, f"{name}.example.com")


def asked(**fields: Any) -> Review:
    return review_of_manifest({**POD, **fields}, ANY_NAMESPACE.resources)


@contextlib.contextmanager
def trial_of(tmp_path: Path, *documents: JSONObject, **settings: Any) -> Iterator[OutageSimulation]:
    configurations = load_configurations([write(tmp_path, documents)])
    with OutageSimulation(ChainSettings(**settings), configurations, ANY_NAMESPACE) as trial:
        yield trial


MUTATING, VALIDATING = WebhookConfigurationKind.MUTATING, WebhookConfigurationKind.VALIDATING
ALL = (
    mutating(hook("a"), hook("b", failurePolicy="Ignore"), hook("c")),
    validating(hook("a", failurePolicy="Ignore"), hook("b"), hook("c")),
)


def test_a_simulated_outage_names_the_webhooks_that_refuse_and_that_fail_open(tmp_path: Path) -> None:
    with trial_of(tmp_path, *ALL) as trial:
        tried = trial(asked())
    assert tried.refusing == {
        called(MUTATING, "a"),
        called(MUTATING, "c"),
        called(VALIDATING, "b"),
        called(VALIDATING, "c"),
    }
    assert tried.passed_over == {called(MUTATING, "b"), called(VALIDATING, "a")}


def test_simulated_requests_do_not_affect_one_another(tmp_path: Path) -> None:
    with trial_of(tmp_path, *ALL) as trial:
        first = trial(asked())
        assert trial(asked()) == first
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
        assert trial(review_of_manifest(config_map, ANY_NAMESPACE.resources)) == OutageResult()


def test_a_webhook_controller_outside_the_chain_refuses_nothing(tmp_path: Path) -> None:
    off = ("MutatingAdmissionWebhook",)
    with trial_of(tmp_path, *ALL, disable_admission_plugins=off) as trial:
        assert {name.kind for name in trial(asked()).refusing} == {VALIDATING}
    with trial_of(tmp_path, *ALL, admission_control=("AlwaysAdmit",)) as trial:
        assert trial(asked()) == OutageResult()


def test_a_failing_match_condition_follows_the_failure_policy(tmp_path: Path) -> None:
    broken = [{"name": "broken", "expression": "object.spec.nothing == 1"}]
    closed, opened = (
        validating(hook("a", matchConditions=broken, failurePolicy=policy)) for policy in ("Fail", "Ignore")
    )
    with trial_of(tmp_path, closed) as trial:
        assert trial(asked()).refusing == {called(VALIDATING, "a")}
    with trial_of(tmp_path, opened) as trial:
        assert trial(asked()).refusing == set()


@pytest.mark.parametrize("controller", ["AlwaysDeny", "AlwaysPullImages"])
def test_a_denial_by_another_controller_hides_no_webhook(controller: str, tmp_path: Path) -> None:
    with trial_of(tmp_path, *ALL, enable_admission_plugins=(controller,)) as trial:
        assert len(trial(asked()).refusing) == 4


def test_webhooks_see_what_other_controllers_changed(tmp_path: Path) -> None:
    condition = "object.spec.containers.all(c, c.imagePullPolicy == 'Always')"
    document = validating(hook("a", matchConditions=[{"name": "pulled", "expression": condition}]))
    pod = asked(spec={"containers": [{"name": "c", "image": "i", "imagePullPolicy": "Never"}]})
    with trial_of(tmp_path, document, enable_admission_plugins=("AlwaysPullImages",)) as trial:
        assert trial(pod).refusing == {called(VALIDATING, "a")}
    with trial_of(tmp_path, document) as trial:
        assert trial(pod).refusing == set()


def test_unusable_settings_are_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="AlwaysDny"),
        trial_of(tmp_path, *ALL, enable_admission_plugins=("AlwaysDny",)),
    ):
        pass
