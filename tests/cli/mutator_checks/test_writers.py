"""Writers that write objects back: which fights with mutators never end, and which changes get lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique_cli.mutator_checks.reports import report_document
from pratique_cli.mutator_checks.writers import Writer, read_writers
from support.mutating_policies import applied, bound, labelled, mutating
from support.mutator_checks import POD, found, prove

APPLY, REPLACE = read_writers(["apply", "replace"])
SIDECAR = applied(
    'Object{spec: Object.spec{containers: [Object.spec.containers{name: "side", image: "side:1"}]}}'
)
IMAGE = applied(
    'Object{spec: Object.spec{containers: [Object.spec.containers{name: "web", image: "web@sha256:1"}]}}'
)
LABELED = POD | {"metadata": {"name": "web", "labels": {"team": "b"}}}
CREATES = "request.operation == 'CREATE'"


def put(*mutations: JSONObject, when: str = "true") -> tuple[JSONObject, JSONObject]:
    """A policy named p, and its binding; ``when`` is an expression."""
    conditions = [{"name": "when", "expression": when}]
    return mutating(*mutations, name="p", matchConditions=conditions), bound("p", name="p")


def operator(**part: Any) -> Writer:
    """A writer that applies fields to Pods."""
    return Writer("operator", ({"apiVersion": "v1", "kind": "Pod", **part},))


@pytest.mark.parametrize(
    ("configurations", "writer", "expected"),
    [
        (put(SIDECAR), APPLY, []),
        (put(IMAGE), APPLY, [("writerLoop", "p")]),
        (put(IMAGE, when=CREATES), APPLY, [("writerWins", "p")]),
        (put(labelled("team", '"a"')), APPLY, [("writerLoop", "p")]),
        (put(labelled("other", '"a"')), APPLY, []),
        (put(SIDECAR), REPLACE, [("writerLoop", "p")]),
        (put(SIDECAR, when=CREATES), REPLACE, [("writerWins", "p")]),
        (put(labelled("team", '"a"')), operator(metadata={"labels": {"team": "c"}}), [("writerLoop", "p")]),
        (put(labelled("team", '"a"')), operator(metadata={"labels": {"other": "c"}}), []),
        (put(labelled("team", '"a"')), operator(metadata={"labels": {"team": "a"}}), []),
        (
            put(labelled("team", '"a"')),
            operator(metadata={"name": "another", "labels": {"team": "c"}}),
            [],
        ),
        (put(labelled("team", '"a"')), Writer("other", ({"apiVersion": "v1", "kind": "Node"},)), []),
    ],
    ids=[
        "apply leaves what it does not have",
        "apply sets an item of a list back",
        "apply wins where only creations are mutated",
        "apply sets a label back",
        "another label is nobody's",
        "replace removes what was added",
        "replace wins where only creations are mutated",
        "an operator wants another value",
        "an operator wants another field",
        "an operator wants the same",
        "an operator looks after another object",
        "an operator looks after another kind",
    ],
)
def test_a_writer_and_mutators_come_to_rest_or_not(
    tmp_path: Path,
    configurations: tuple[JSONObject, ...],
    writer: Writer,
    expected: list[tuple[str, ...]],
) -> None:
    report = prove(tmp_path, *configurations, given=[LABELED], writers=[writer])
    assert found(report) == expected


@pytest.mark.parametrize(
    ("count", "period", "ending"),
    [
        ('"a"', 1, "each write is undone within its own request"),
        ('oldObject != null && oldObject.metadata.labels.n == "a" ? "b" : "a"', 2, "every 2 writes"),
        ('oldObject == null ? "a" : oldObject.metadata.labels.n + "a"', 0, "still changes after 10 writes"),
    ],
)
def test_a_fight_repeats_grows_or_changes_nothing(
    tmp_path: Path, count: str, period: int, ending: str
) -> None:
    policy = put(labelled("team", '"a"'), labelled("n", count))
    report = prove(tmp_path, *policy, given=[LABELED], writers=[APPLY])
    [finding] = [finding for finding in report.findings if finding.violation.writer]
    assert finding.violation.period == period
    assert ending in finding.violation.text
    assert "metadata.labels.team" in finding.violation.fields


def test_a_finding_names_the_fields_and_who_sets_them(tmp_path: Path) -> None:
    configurations = (
        *put(labelled("team", '"a"')),
        mutating(labelled("other", '"o"'), name="q"),
        bound("q", name="q"),
    )
    report = prove(tmp_path, *configurations, given=[LABELED], writers=[APPLY, REPLACE])
    loops = {finding.violation.writer: finding.violation for finding in report.findings}
    assert [mutator.name for mutator in loops["apply"].mutators] == ["p"]
    assert loops["apply"].fields == ("metadata.labels.team",)
    assert {mutator.name for mutator in loops["replace"].mutators} == {"p", "q"}
    document = report_document(report)
    assert document["writers"] == ["apply", "replace"]
    assert document["set"]["outlivesWriters"] is False


def test_without_writers_the_report_says_nothing_of_them(tmp_path: Path) -> None:
    report = prove(tmp_path, *put(IMAGE), given=[LABELED])
    assert report.holds
    assert "outlivesWriters" not in report_document(report)["set"]


def test_a_kind_without_a_schema_is_merged_field_by_field_and_its_lists_replaced() -> None:
    thing = {"apiVersion": "acme.io/v1", "kind": "Thing", "metadata": {"name": "t"}}
    stored = thing | {"spec": {"a": 1, "list": [{"name": "x"}]}}
    written = APPLY.write(thing | {"spec": {"b": 2, "list": [{"name": "y"}]}}, stored, ObjectStore(()))
    assert written == thing | {"spec": {"a": 1, "b": 2, "list": [{"name": "y"}]}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: Pod\n", "apiVersion"),
        ("apiVersion: v1\n", "kind"),
        ("", "no documents"),
        ("[1]", "expected"),
    ],
)
def test_a_file_that_is_no_writer_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "writer.yaml"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_writers([str(file)])
