"""The findings for mutators with one defect each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.mutating_policies import applied, bound, labelled, mutating, patched
from support.mutator_checks import POD, found, prove
from support.validating_policies import binding, policy

SIDECAR = applied(
    'Object{spec: Object.spec{containers: [Object.spec.containers{name: "side", image: "side:1"}]}}'
)
PULL = applied(
    "Object{spec: Object.spec{containers: object.spec.containers.filter(c, !has(c.imagePullPolicy))"
    '.map(c, Object.spec.containers{name: c.name, imagePullPolicy: "Always"})}}'
)
BLIND = patched(
    '[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "side"}}]'
)
REMOVE_ENV = patched('[JSONPatch{op: "remove", path: "/metadata/labels/env"}]')
TOGGLE = labelled("x", 'object.metadata.?labels.?x.orValue("b") == "a" ? "b" : "a"')
SETTLING = labelled(
    "n", 'object.metadata.?labels.?n.orValue("") == "" ? "a" : (object.metadata.labels.n == "a" ? "b" : "c")'
)
BROKEN = labelled("x", "object.metadata.annotations.missing")


def put(name: str, *mutations: JSONObject, when: str = "", **spec: Any) -> tuple[JSONObject, JSONObject]:
    """A policy and its binding with the same name; ``when`` is an expression."""
    if when:
        spec["matchConditions"] = [{"name": "when", "expression": when}]
    return mutating(*mutations, name=name, **spec), bound(name, name=name)


WITHOUT_ENV = "!('env' in object.metadata.?labels.orValue({}))"
WITH_ENV = "'env' in object.metadata.?labels.orValue({})"


@pytest.mark.parametrize(
    ("configurations", "expected"),
    [
        (put("label", labelled("team", '"a"')), []),
        (put("side", SIDECAR), []),
        (put("blind", BLIND), [("notIdempotent", "blind")]),
        (put("toggle", TOGGLE), [("notIdempotent", "toggle")]),
        (put("settling", SETTLING), [("notIdempotent", "settling")]),
        (put("broken", BROKEN), [("fails", "broken")]),
        (put("broken", BROKEN, failurePolicy="Ignore"), []),
        (
            (*put("a", labelled("env", '"prod"')), *put("b", labelled("env", '"test"'))),
            [("conflict", "a", "b")],
        ),
        (
            (*put("a", labelled("env", '"prod"'), when=WITHOUT_ENV), *put("b", REMOVE_ENV, when=WITH_ENV)),
            [("undone", "a", "b")],
        ),
        ((*put("pull", PULL), *put("side", SIDECAR)), [("notSettled", "pull"), ("order", "pull", "side")]),
        ((*put("pull", PULL, reinvocationPolicy="IfNeeded"), *put("side", SIDECAR)), []),
        ((*put("a", labelled("a", '"1"')), *put("b", labelled("b", '"1"'))), []),
        (
            (
                *put("env", labelled("env", '"prod"')),
                policy("!has(object.metadata.labels.env)", name="none"),
                binding("none"),
            ),
            [("refused", "env")],
        ),
        (
            (
                *put("env", labelled("env", '"prod"')),
                policy("has(object.metadata.labels.other)", name="other"),
                binding("other"),
            ),
            [],  # it would have been refused as it came
        ),
    ],
)
def test_exactly_the_defects_of_each_mutator_are_found(
    tmp_path: Path, configurations: tuple[JSONObject, ...], expected: list[tuple[str, ...]]
) -> None:
    report = prove(tmp_path, *configurations)
    assert found(report) == expected
    assert (report.holds, report.error) == (not expected, "")


def test_a_repeating_outcome_has_a_period(tmp_path: Path) -> None:
    (finding,) = prove(tmp_path, *put("toggle", TOGGLE)).findings
    assert (finding.violation.period, finding.violation.growth) == (2, False)


def test_a_mutator_that_always_adds_is_reported_as_growing(tmp_path: Path) -> None:
    (finding,) = prove(tmp_path, *put("blind", BLIND)).findings
    assert (finding.violation.period, finding.violation.growth) == (0, True)
    assert finding.violation.fields == ("spec.containers[2]",)


def test_a_mutator_that_settles_late_is_reported_as_settling(tmp_path: Path) -> None:
    (finding,) = prove(tmp_path, *put("settling", SETTLING)).findings
    assert finding.violation.text == "changes its own result again, and settles after 3 runs"


def test_three_mutators_can_conflict_where_no_two_do(tmp_path: Path) -> None:
    both = "{0} in object.metadata.labels && {1} in object.metadata.labels"
    report = prove(
        tmp_path,
        *put("a", labelled("a", '"1"')),
        *put("b", labelled("b", '"1"')),
        *put("c", labelled("c", '"1"'), when="!(" + both.format("'a'", "'b'") + ")"),
    )
    assert found(report) == [("order", "a", "b", "c")]


def test_the_object_is_reduced_and_stays_valid(tmp_path: Path) -> None:
    large = POD | {
        "metadata": {"name": "web", "labels": {"a": "b", "keep": "x"}, "annotations": {"a": "b"}},
        "spec": {
            "containers": [
                {"name": "a", "image": "a", "env": [{"name": "A", "value": "1"}]},
                {"name": "b", "image": "b"},
            ],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    when = "'keep' in object.metadata.?labels.orValue({})"
    (finding,) = prove(tmp_path, *put("toggle", TOGGLE, when=when), given=[large]).findings
    assert finding.document == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"keep": "x"}},
        "spec": {"containers": [{"name": "a"}]},
    }


def test_objects_use_the_labels_that_mutators_look_for(tmp_path: Path) -> None:
    when = "object.metadata.?labels[?'example.com/rare'].orValue('') == 'yes'"
    report = prove(tmp_path, *put("toggle", TOGGLE, when=when), given=(), examples=100)
    assert found(report) == [("notIdempotent", "toggle")]
    assert report.findings[0].document["metadata"]["labels"] == {"example.com/rare": "yes"}


def test_the_same_seed_finds_the_same_defects(tmp_path: Path) -> None:
    when = "object.?spec.containers.orValue([]).size() > 1"
    reports = [
        prove(tmp_path, *put("toggle", TOGGLE, when=when), given=(), examples=30, seed=7) for _ in "ab"
    ]
    first, second = ([(f.document, f.seen) for f in report.findings] for report in reports)
    assert first == second != []


def test_objects_denied_as_they_came_are_counted(tmp_path: Path) -> None:
    report = prove(None, controllers=("Priority",), given=[
        POD | {"spec": POD["spec"] | {"priorityClassName": "nobody's"}}
    ])  # fmt: skip
    assert (report.tried, report.refused, found(report)) == (1, 1, [])
    assert not any(report.acted.values())
