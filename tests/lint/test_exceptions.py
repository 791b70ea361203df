"""Exceptions that have ended, end soon, or exempt from what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.lint_findings import binding, findings_of, mutating, policy, validating, webhook, write

LATER = "2030-01-01T00:00:00Z"
VAP = "ValidatingAdmissionPolicy"
HOOKS = "ValidatingWebhookConfiguration"


def exception(until: str = LATER, **target: Any) -> JSONObject:
    policies = [{"kind": VAP, "name": "few", **target}]
    return {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "PolicyException",
        "metadata": {"name": "one"},
        "spec": {"reason": "tests", "until": until, "policies": policies, "namespaces": ["shop"]},
    }


def findings(folder: Path, exempting: JSONObject) -> list[tuple[str, str]]:
    documents = [policy(), binding(), validating(webhook()), mutating(webhook()), exempting]
    found = findings_of(write(folder, documents))
    return [
        (finding.lint_rule.name, finding.violation.text)
        for finding in found
        if finding.lint_rule.name.startswith("exception-")
    ]


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (
            "2027-01-15T08:00:00Z",
            ("exception-ended", "ended at 2027-01-15T08:00:00Z: it exempts from nothing"),
        ),
        ("2027-01-15T09:00:00Z", ("exception-ends-soon", "ends in less than a day")),
        ("2027-01-16T08:00:00Z", ("exception-ends-soon", "ends in 1 day")),
        ("2027-01-29T08:00:00Z", ("exception-ends-soon", "ends in 14 days")),
    ],
)
def test_an_exception_that_has_ended_or_ends_soon_is_found(
    tmp_path: Path, until: str, expected: tuple[str, str]
) -> None:
    ((name, text),) = findings(tmp_path, exception(until))
    assert name == expected[0]
    assert text.startswith(expected[1])


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"binding": "everywhere"},
        {"kind": HOOKS, "name": "checks", "webhook": "a.example.com"},
        {"kind": "MutatingWebhookConfiguration", "name": "changes", "webhook": "a.example.com"},
        {"kind": "AdmissionController", "name": "PodSecurity"},
    ],
)
def test_a_lasting_exception_from_what_is_there_is_no_finding(tmp_path: Path, target: Any) -> None:
    assert not findings(tmp_path, exception("2027-01-29T08:00:01Z", **target))


@pytest.mark.parametrize(
    ("target", "missing"),
    [
        ({"name": "many"}, f'there is no {VAP} "many" here'),
        ({"kind": "MutatingAdmissionPolicy"}, 'there is no MutatingAdmissionPolicy "few" here'),
        ({"binding": "nowhere"}, f'no binding "nowhere" binds {VAP} "few"'),
        (
            {"kind": HOOKS, "name": "changes", "webhook": "a.example.com"},
            f'there is no webhook "a.example.com" in {HOOKS} "changes"',
        ),
        (
            {"kind": "AdmissionController", "name": "AlwaysDeny"},
            'no admission controller "AlwaysDeny" is enabled',
        ),
    ],
)
def test_an_exception_from_what_is_not_there_is_found(tmp_path: Path, target: Any, missing: str) -> None:
    found = findings(tmp_path, exception(**target))
    assert found == [("exception-without-policy", f"{missing}: it exempts from nothing")]
