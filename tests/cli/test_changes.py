from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique_cli.outputs.changes import ChangeTracker, FieldChange, difference, path_text

POD: JSONObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
}


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        (
            {"op": "add", "path": "/metadata/labels/example.com~1team", "value": 1},
            [FieldChange("+", "metadata.labels[example.com/team]", after="1")],
        ),
        (
            {"op": "add", "path": "/metadata/labels/app", "value": "shop"},
            [FieldChange("~", "metadata.labels.app", before='"web"', after='"shop"')],
        ),
        (
            {"op": "replace", "path": "/spec/containers/1/name", "value": None},
            [FieldChange("~", "spec.containers[1].name", before='"b"', after="null")],
        ),
        (
            {"op": "replace", "path": "/spec/priority", "value": 0},
            [FieldChange("+", "spec.priority", after="0")],
        ),
        (
            {"op": "add", "path": "/spec/containers/-", "value": {}},
            [FieldChange("+", "spec.containers[2]", after="{}")],
        ),
        (
            {"op": "add", "path": "/spec/containers/0", "value": {}},
            [FieldChange("+", "spec.containers[0]", after="{}")],
        ),
        (
            {"op": "remove", "path": "/spec/containers/-1"},
            [FieldChange("-", "spec.containers[1]", before='{"name":"b"}')],
        ),
        (
            {"op": "move", "from": "/metadata/labels/app", "path": "/metadata/labels/name"},
            [
                FieldChange("-", "metadata.labels.app", before='"web"'),
                FieldChange("+", "metadata.labels.name", after='"web"'),
            ],
        ),
        (
            {"op": "copy", "from": "/spec/containers/0", "path": "/spec/containers/-"},
            [FieldChange("+", "spec.containers[2]", after='{"name":"a"}')],
        ),
        ({"op": "test", "path": "/spec/containers/0/name", "value": "a"}, []),
    ],
)
def test_an_operation_is_shown_as_path_and_values(operation: JSONObject, changes: list[FieldChange]) -> None:
    assert ChangeTracker(POD).apply([operation]) == changes


def test_each_change_is_relative_to_the_previous_step() -> None:
    teller = ChangeTracker(POD)
    first = teller.apply([{"op": "add", "path": "/spec/containers/0", "value": {"name": "z"}}])
    second = teller.apply([{"op": "replace", "path": "/spec/containers/1/name", "value": "y"}])
    assert first[0].path == "spec.containers[0]"
    assert second == [FieldChange("~", "spec.containers[1].name", before='"a"', after='"y"')]


def test_tracking_changes_does_not_modify_the_object() -> None:
    before = str(POD)
    ChangeTracker(POD).apply([{"op": "remove", "path": "/spec"}])
    assert str(POD) == before


def test_the_empty_path_is_the_whole_object() -> None:
    assert path_text(()) == "the whole object"


def test_a_diff_shows_changed_lines_with_context() -> None:
    after = {**POD, "spec": {"containers": [{"name": "a"}, {"name": "b", "tty": True}]}}
    lines = list(difference(POD, after))
    assert lines[0].startswith("@@")
    assert "+    tty: true" in lines
    assert " kind: Pod" not in lines
    assert not [line for line in lines if line.startswith("-")]


def test_reordered_members_make_no_diff() -> None:
    assert not list(difference(POD, dict(reversed(POD.items()))))


def test_the_diff_of_a_secret_hides_its_values() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "c2VjcmV0", "b": "c2VjcmV0"}}
    changed = {**secret, "data": {"a": "c2VjcmV0", "b": "b3RoZXI=", "c": "bmV3"}}
    text = "\n".join(difference(secret, changed))
    assert "-  b: '*** (before)'" in text
    assert "+  b: '*** (after)'" in text
    assert "+  c: '***'" in text
    assert "c2VjcmV0" not in text
    assert "bmV3" not in text


def test_multi_line_strings_are_compared_line_by_line() -> None:
    before = {"kind": "ConfigMap", "data": {"conf": "a\nb\nc\n"}}
    after = {"kind": "ConfigMap", "data": {"conf": "a\nB\nc\n"}}
    lines = list(difference(before, after))
    assert "-    b" in lines
    assert "+    B" in lines
    assert "     a" in lines
