"""Allow-lists of what is not there, and of fields that cannot exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.lint_findings import findings_of, mutating, rule, webhook, write

HOOK = {"kind": "MutatingWebhookConfiguration", "name": "changes", "webhook": "a.example.com"}


def findings(folder: Path, *fields: str, resources: str = "pods", **target: Any) -> list[tuple[str, str]]:
    allow_list = {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "MutationAllowList",
        "metadata": {"name": "one"},
        "spec": {"policies": [{**HOOK, **target}], "fields": [*fields], "violationAction": "Fail"},
    }
    versioned = {**rule(resources), "apiVersions": ["v1"]}
    found = findings_of(write(folder, [mutating(webhook(versioned)), allow_list]))
    return [
        (finding.lint_rule.name, finding.violation.text)
        for finding in found
        if finding.lint_rule.name.startswith("allow-list-")
    ]


def test_an_allow_list_of_what_is_not_there_is_found(tmp_path: Path) -> None:
    text = (
        'there is no webhook "b.example.com" in MutatingWebhookConfiguration "changes": it restricts nothing'
    )
    found = findings(tmp_path, "/spec", webhook="b.example.com")
    assert found == [("allow-list-without-policy", text)]


@pytest.mark.parametrize(
    ("field", "may_exist"),
    [
        ("/spec/containers/*/image", True),
        ("/spec/containers/-", True),
        ("/metadata/annotations/x.io~1*", True),
        ("/spec/security*/runAsUser", True),
        ("/spec/container/*/image", False),
        ("/spec/containers/0/image", False),
        ("/spec/containers/*/image/tag", False),
        ("/metadata/label/team", False),
        ("/spec/hostNetwork/-", False),
    ],
)
def test_a_field_that_no_object_has_is_found(tmp_path: Path, field: str, *, may_exist: bool) -> None:
    text = f'no object that it restricts has a field "{field}": it allows nothing'
    assert findings(tmp_path, field) == ([] if may_exist else [("allow-list-without-field", text)])


@pytest.mark.parametrize("resources", ["*", "pods pods/status", "widgets", "pods widgets"])
def test_fields_of_what_is_not_known_are_left_alone(tmp_path: Path, resources: str) -> None:
    assert findings(tmp_path, "/spec/size", resources=resources) == []
