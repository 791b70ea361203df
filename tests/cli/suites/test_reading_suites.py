"""Suites are read strictly: mistakes are reported by file, line and column, and skip no more than necessary."""

from __future__ import annotations

from pathlib import Path

import pytest

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.requests import Operation
from pratique_cli.suites.reading import find_suites
from support.policy_suites import HEAD, case, deployment, read, run, write_suite

GOOD = "{allowed: true}"
MISTAKES = [
    ("expect: {alowed: true}", 'unknown field "cases[0].expect.alowed"; did you mean "allowed"?'),
    ("manifests: a.yaml\n  expect: {}", 'unknown field "cases[0].manifests"; did you mean "manifest"?'),
    ("expect: {code: '403'}", "cases[0].expect.code in body must be of type integer"),
    ("expect: {message: 'a('}", "error parsing regexp: missing closing ): `a(`"),
    ("expect: {steps: [{outcome: deny}]}", 'there is no outcome "deny"; did you mean "denied"?'),
    ("expect: {steps: [{phase: mutating}]}", 'there is no phase "mutating"; did you mean "mutate"?'),
    ("expect: {steps: [{}]}", "an empty step matches any step"),
    ("expect: {patch: [add]}", "must be a JSON Patch operation, not a string"),
    ("expect: {expanded: [{expanded: [{allowed: true}]}]}", "a Pod does not make Pods"),
    ("expect: {object: 3}", "must be the path of a file or an object, not a number"),
    ("expect: {}", "the expectation is empty"),
    ("phase: admitt\n  expect: {allowed: true}", 'there is no phase "admitt"; did you mean "admit"?'),
    ("cluster: [3]\n  expect: {allowed: true}", "must be the path of a file or folder or an object"),
    ("cluster: [no.yaml]\n  expect: {allowed: true}", "no.yaml: no such file or folder"),
    ("config: [no/]\n  expect: {allowed: true}", "no: no such file or folder"),
    ("expect: {object: no.yaml}", "no.yaml: no such file or folder"),
    ("review: no.yaml\n  expect: {allowed: true}", "either a manifest or a review; this one has both"),
    ("request: {operation: PATCH}\n  expect: {allowed: true}", 'there is no operation "PATCH"'),
    ("request: {groups: [dev]}\n  expect: {allowed: true}", "give user, too"),
    ("request: {old: no.yaml}\n  expect: {allowed: true}", "no.yaml: no such file or folder"),
    ("expect: null", "expect: Required value"),
]
SUITE_MISTAKES = [
    ("flags: {enable-admission-plugin: [A]}", 'did you mean "enable-admission-plugins"?'),
    ("flags: {config: a.yaml}", "config is a member of the suite itself"),
    ("flags: {ir-percentile: 101}", "is not a whole number from 1 to 100"),
    ("flags: {admission-control: {a: b}}", "write a string, a number, a boolean or a list"),
    ("flags: {admission-control-config-file: no.yaml}", "no.yaml' does not exist"),
    ("configs: [policies.yaml]", 'unknown field "configs"; did you mean "config"?'),
    ("config: [nothing.yaml]", "nothing.yaml: no such file or folder"),
]


def problems_of(folder: Path, text: str) -> list[InputError]:
    cases, problems = read(folder, text)
    assert not cases
    return problems


@pytest.mark.parametrize(("members", "reported"), MISTAKES)
def test_a_mistake_in_a_case_is_reported_with_its_location(
    tmp_path: Path, members: str, reported: str
) -> None:
    text = f"{HEAD}- name: a case\n  manifest: {deployment()}\n  {members}\n"
    (problem, *_) = problems_of(tmp_path, text)
    assert reported in str(problem)
    assert problem.file == str(tmp_path / "suite.yaml")
    assert problem.place is not None
    assert problem.place.line >= 7


@pytest.mark.parametrize(("members", "reported"), SUITE_MISTAKES)
def test_a_mistake_in_a_suite_skips_all_its_cases(tmp_path: Path, members: str, reported: str) -> None:
    name = members.partition(":")[0]
    lines = [line for line in HEAD.splitlines() if not line.startswith(f"{name}:")]
    (problem,) = problems_of(tmp_path, "\n".join([*lines[:3], members, *lines[3:], case(GOOD)]))
    assert reported in str(problem)
    assert problem.place is not None
    assert problem.place.line == 4


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("apiVersion: test.pratique/v2\nkind: TestSuite\n", "write apiVersion test.pratique/v1"),
        ("apiVersion: test.pratique/v1\nkind: TestSuit\n", "and kind TestSuite"),
        ("apiVersion: test.pratique/v1\nkind: TestSuite\n", "a suite needs a name"),
    ],
)
def test_a_document_of_another_kind_is_not_a_suite(tmp_path: Path, text: str, reported: str) -> None:
    assert reported in str(problems_of(tmp_path, text)[0])


def test_a_mistake_in_a_case_skips_only_that_case(tmp_path: Path) -> None:
    cases, problems = read(
        tmp_path, HEAD + case(GOOD, name="a") + case("{}", name="b") + case(GOOD, name="c")
    )
    assert [item.full_name for item in cases] == ["replicas/a", "replicas/c"]
    assert len(problems) == 1


def test_a_duplicate_case_name_is_an_error(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, HEAD + case(GOOD) * 2)
    assert ['"a case" occurs 2 times' in str(problem) for problem in problems] == [True, True]


def test_the_request_supplies_what_the_manifest_does_not_say(tmp_path: Path) -> None:
    further = "request: {operation: update, user: jane, groups: [dev], namespace: shop, old: old.yaml, dryRun: true}"
    (tmp_path / "old.yaml").write_text(deployment(1))
    (found,), _ = read(tmp_path, HEAD + case(GOOD, further=further))
    assert (found.shape.operation, found.shape.namespace, found.shape.dry_run) == (
        Operation.UPDATE,
        "shop",
        True,
    )
    assert (found.shape.user.username, found.shape.user.groups) == ("jane", ("dev", "system:authenticated"))
    assert found.old is not None
    assert found.old.data["spec"]["replicas"] == 1


def test_an_update_is_compared_with_the_old_object(tmp_path: Path) -> None:
    further = f"request: {{operation: UPDATE, old: {deployment(1)}}}"
    text = HEAD + case("{allowed: true, unchanged: true}", further=further)
    assert [result.mismatches for result in run(tmp_path, text)] == [()]


def test_an_update_without_an_old_object_is_an_error(tmp_path: Path) -> None:
    (result,) = run(tmp_path, HEAD + case(GOOD, further="request: {operation: UPDATE}"))
    assert 'deployments.apps "web" not found' in str(result.error)
    assert result.error is not None
    assert result.error.file == str(tmp_path / "suite.yaml")


def test_a_case_can_replay_an_admission_review(tmp_path: Path) -> None:
    review = (
        "{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {uid: u, operation: CREATE,"
        " kind: {group: apps, version: v1, kind: Deployment}, name: web, namespace: shop,"
        " resource: {group: apps, version: v1, resource: deployments}, userInfo: {username: jane},"
        f" object: {deployment()}}}}}"
    )
    text = HEAD + case("{contains: {metadata: {labels: {owner: jane}}}}").replace(
        "manifest: " + deployment(), f"review: {review}"
    )
    assert [result.mismatches for result in run(tmp_path, text)] == [()]


def test_manifest_and_review_cannot_be_swapped(tmp_path: Path) -> None:
    as_review = case(GOOD).replace("manifest:", "review:")
    as_manifest = case(GOOD, name="b", manifest="{apiVersion: admission.k8s.io/v1, kind: AdmissionReview}")
    first, second = problems_of(tmp_path, HEAD + as_review + as_manifest)
    assert "review: is not an AdmissionReview" in str(first)
    assert "manifest: is an AdmissionReview; write it as review" in str(second)


def test_a_manifest_file_must_hold_one_object(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(f"{deployment()}\n---\n{deployment()}\n")
    (problem,) = problems_of(tmp_path, HEAD + case(GOOD, manifest="two.yaml"))
    assert "holds 2 objects, but must hold one" in str(problem)


def test_a_suite_can_be_json_and_part_of_a_list(tmp_path: Path) -> None:
    suite = (
        '{"apiVersion": "test.pratique/v1", "kind": "TestSuite", "metadata": {"name": "j"}, "cases":'
        ' [{"name": "a", "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},'
        ' "expect": {"allowed": false}}]}'
    )
    file = tmp_path / "suite.json"
    file.write_text(f'{{"apiVersion": "v1", "kind": "List",\n"items": [\n{suite}]}}')
    problems: list[InputError] = []
    (document,) = find_suites([file], problems)
    assert (document.line, problems) == (3, [])


def test_folders_are_searched_recursively_except_hidden_ones(tmp_path: Path) -> None:
    for folder in ("", "a", "a/b", ".git"):
        (tmp_path / folder).mkdir(exist_ok=True)
        write_suite(tmp_path / folder, HEAD + case(GOOD))
    (tmp_path / "template.yaml").write_text("{{ if not .Values.yaml }}")
    problems: list[InputError] = []
    found = [document.file for document in find_suites([tmp_path, tmp_path / "a"], problems)]
    assert found == [str(tmp_path / folder / "suite.yaml") for folder in ("a/b", "a", "")]
    assert not problems


def test_a_path_without_a_suite_is_an_error(tmp_path: Path) -> None:
    problems: list[InputError] = []
    (tmp_path / "pod.yaml").write_text(deployment())
    assert not list(find_suites([tmp_path, tmp_path / "pod.yaml"], problems))
    assert ["holds no suite" in str(problem) for problem in problems] == [True, True]


def test_a_suite_that_is_not_yaml_is_an_error(tmp_path: Path) -> None:
    problems: list[InputError] = []
    assert not list(find_suites([write_suite(tmp_path, "apiVersion: test.pratique/v1\nkind: [\n")], problems))
    assert len(problems) == 1
