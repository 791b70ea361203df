"""Rollouts of what is not there, and of webhooks that no shadow can call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.lint_findings import binding, findings_of, mutating, policy, validating, webhook, write

VAP = "ValidatingAdmissionPolicy"
HOOKS = "ValidatingWebhookConfiguration"


def findings(folder: Path, mode: str = "Shadow", **target: Any) -> list[tuple[str, str]]:
    spec = {"mode": mode, "policies": [{"kind": VAP, "name": "few", **target}]}
    rollout: JSONObject = {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "PolicyRollout",
        "metadata": {"name": "one"},
        "spec": spec,
    }
    effects = webhook(name="effects.example.com", sideEffects="Some")
    checks = validating(webhook(), effects, version="v1beta1")
    found = findings_of(write(folder, [policy(), binding(), checks, mutating(webhook()), rollout]))
    return [
        (finding.lint_rule.name, finding.violation.text)
        for finding in found
        if finding.lint_rule.name.startswith("rollout-")
    ]


@pytest.mark.parametrize(
    ("target", "missing"),
    [
        ({}, ""),
        ({"name": "other"}, 'there is no ValidatingAdmissionPolicy "other" here'),
        ({"binding": "other"}, 'no binding "other" binds ValidatingAdmissionPolicy "few"'),
        ({"kind": HOOKS, "name": "checks", "webhook": "a.example.com"}, ""),
        (
            {"kind": HOOKS, "name": "checks", "webhook": "b.example.com"},
            f'there is no webhook "b.example.com" in {HOOKS} "checks"',
        ),
        ({"kind": "AdmissionController", "name": "PodSecurity"}, ""),
        (
            {"kind": "AdmissionController", "name": "PodSecurty"},
            'no admission controller "PodSecurty" is enabled',
        ),
    ],
)
def test_a_rollout_of_what_is_not_there_is_found(tmp_path: Path, target: Any, missing: str) -> None:
    expected = [("rollout-without-policy", f"{missing}: it rolls out nothing")] if missing else []
    assert findings(tmp_path, **target) == expected


@pytest.mark.parametrize("mode", ["Shadow", "Enforce"])
def test_a_shadow_that_is_never_called_is_found(tmp_path: Path, mode: str) -> None:
    found = findings(tmp_path, mode, kind=HOOKS, name="checks", webhook="effects.example.com")
    text = 'webhook "effects.example.com" has sideEffects: Some, so it is not called in shadow'
    assert found == ([("rollout-with-side-effects", text)] if mode == "Shadow" else [])
