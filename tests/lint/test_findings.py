"""The text of findings, and their order."""

from __future__ import annotations

import json
from pathlib import Path

from support.lint_findings import binding, findings_of, mutating, policy, rule, validating, webhook, write


def test_a_finding_names_location_rule_webhook_and_fix(tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps(validating(webhook(timeoutSeconds=20)), indent=1))
    (finding,) = findings_of(path)
    line = path.read_text().splitlines().index('   "timeoutSeconds": 20,') + 1
    assert str(finding) == (
        f'{path}: document 1, line {line}, column 4: warning: timeout-too-long: webhook "a.example.com" of'
        ' ValidatingWebhookConfiguration "checks": a request may wait 20 s for this webhook alone, more than 10 s\n'
        "    fix: Set timeoutSeconds to a few seconds, at most 10."
    )


def test_a_finding_of_a_policy_names_the_policy(tmp_path: Path) -> None:
    (finding,) = findings_of(write(tmp_path, [policy()]))
    assert 'policy-unbound: ValidatingAdmissionPolicy "few": no binding here' in str(finding)


def test_findings_are_sorted_by_file_and_line(tmp_path: Path) -> None:
    slow = webhook(timeoutSeconds=20, matchPolicy="Exact")
    (tmp_path / "a.json").write_text(json.dumps(binding("none")))
    (tmp_path / "b.json").write_text(
        json.dumps(validating(slow, {**slow, "name": "b.example.com"}), indent=1)
    )
    places = []
    for finding in findings_of(tmp_path):
        source = finding.violation.owner.source
        assert source is not None
        places.append((source.file, source.position(finding.violation.path).line))
    assert len(places) == 5
    assert places == sorted(places)


def test_the_timeout_budget_names_the_slowest_request(tmp_path: Path) -> None:
    slow = [
        webhook(rule("pods services"), name="a.example.com", timeoutSeconds=20),
        webhook(rule("pods"), name="b.example.com", timeoutSeconds=10),
        webhook(rule("services"), name="c.example.com", timeoutSeconds=5),
        webhook(rule("pods"), name="d.example.com", timeoutSeconds=5),
    ]
    path = write(tmp_path, [mutating(*slow)])
    (finding,) = findings_of(path, rules={"mutating-timeouts-over-budget"})
    assert finding.violation.path[:2] == ("webhooks", 3)
    assert "CREATE of pods may wait for 3 mutating webhooks one after another, 35 s in all" in str(finding)
