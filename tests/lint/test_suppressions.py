"""Comments in YAML that disable rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.lint_findings import findings_of, validating, webhook

TEXT = """\
# 1
apiVersion: admissionregistration.k8s.io/v1
# 2
kind: ValidatingWebhookConfiguration
metadata: {name: checks}
# 3
webhooks:
# 4
- name: a.example.com
  clientConfig: {url: "https://hooks.example.com"}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [services]}]
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  sideEffects: None
  admissionReviewVersions: [v1]
  # 5
  timeoutSeconds: 20
  # 6
  matchPolicy: Exact
# 7
- name: b.example.com
  clientConfig: {url: "https://hooks.example.com"}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [services]}]
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 20
"""
ALL = ["timeout-too-long 16", "no-match-policy-equivalent 18", "timeout-too-long 26"]


def found_in(folder: Path, text: str) -> list[str]:
    path = folder / "hooks.yaml"
    path.write_text(text)
    return [
        f"{finding.lint_rule.name} {finding.violation.owner.source.position(finding.violation.path).line}"
        for finding in findings_of(path)
        if finding.violation.owner.source
    ]


@pytest.mark.parametrize(
    ("place", "left"),
    [
        (0, ALL),
        (1, [ALL[1]]),
        (2, ALL),
        (3, [ALL[1]]),
        (4, [ALL[1], ALL[2]]),
        (5, [ALL[1], ALL[2]]),
        (6, ALL),
        (7, [ALL[0], ALL[1]]),
    ],
)
def test_a_comment_applies_to_the_field_below_and_everything_in_it(
    place: int, left: list[str], tmp_path: Path
) -> None:
    text = TEXT.replace(f"# {place}\n", "# pratique: disable=timeout-too-long\n")
    assert found_in(tmp_path, text) == left


def test_one_comment_can_name_several_rules(tmp_path: Path) -> None:
    comment = "# pratique: disable=timeout-too-long, no-match-policy-equivalent\n# it is slow, and old\n"
    assert found_in(tmp_path, TEXT.replace("# 4\n", comment)) == [ALL[2].replace("26", "27")]


def test_only_a_document_comment_can_be_followed_by_empty_lines(tmp_path: Path) -> None:
    comment = "# pratique: disable=timeout-too-long\n\n"
    assert found_in(tmp_path, TEXT.replace("# 1\n", comment)) == [ALL[1].replace("18", "19")]
    assert len(found_in(tmp_path, TEXT.replace("# 4\n", comment))) == 3


def test_a_comment_applies_to_its_own_document_only(tmp_path: Path) -> None:
    second = TEXT.replace("checks", "more")
    text = f"{TEXT.replace('# 1', '# pratique: disable=timeout-too-long')}---\n{second}"
    assert [name.split()[0] for name in found_in(tmp_path, text)].count("timeout-too-long") == 2


@pytest.mark.parametrize(("place", "count"), [("# 1", 1), ("# 0", 3)])
def test_list_items_have_their_own_comments(place: str, count: int, tmp_path: Path) -> None:
    item = "".join(f"  {line}\n" for line in TEXT.splitlines()[1:])
    text = f"apiVersion: v1\nkind: List\nitems:\n# 1\n- {item.lstrip()}"
    assert len(found_in(tmp_path, text.replace(place, "# pratique: disable=timeout-too-long"))) == count


def test_json_has_no_comments(tmp_path: Path) -> None:
    note = "\n# pratique: disable=timeout-too-long\n"
    document = validating(webhook(timeoutSeconds=20)) | {
        "metadata": {"name": "a", "annotations": {"x": note}}
    }
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps(document))
    assert [finding.lint_rule.name for finding in findings_of(path)] == ["timeout-too-long"]
