"""How `pratique review` reports JSON that no API server writes, in reviews and in manifests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from pratique.apimachinery.json_values import JSONObject
from pratique_cli.main import main
from pratique_cli.options import DECISION_FORMATS
from support.front_doors.reviews import review_body
from support.hostile_json import HOSTILE

UNREADABLE = sorted(
    {name for name, (_, problem) in HOSTILE.items() if problem == "is not JSON"}
    | {"4,301 digits", "310 digits", "1e400"}
)
LIMITED = {
    "a NUL in a name": "a member whose name has a NUL",
    "201 levels": "nested too deeply",
    "600,001 values": "more than 600000 values",
}
OBJECT = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default"},"data":-}'


def problem_of(
    path: Path, text: bytes, capsys: pytest.CaptureFixture[str], output: str = "text"
) -> tuple[int, str]:
    file = path / "hostile.json"
    file.write_bytes(text)
    with pytest.raises(SystemExit) as ended:
        main(["review", str(file), "-o", output])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("around", ["an object", "a review"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_invalid_json_is_reported_with_its_position(
    tmp_path: Path, around: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = OBJECT.replace(b"-", HOSTILE[name][0])
    if around == "a review":
        text = review_body(object="-the object-").replace(b'"-the object-"', text)
    code, said = problem_of(tmp_path, text, capsys)
    assert code == 2
    assert "hostile.json: document 1, line 1, column " in said
    assert "not JSON: " in said or "not UTF-8: " in said


@pytest.mark.parametrize("name", LIMITED)
def test_invalid_reviews_get_the_front_doors_message(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = review_body(object="-the object-").replace(b'"-the object-"', HOSTILE[name][0])
    code, said = problem_of(tmp_path, text, capsys)
    assert code == 2
    assert LIMITED[name] in said


def test_the_last_duplicate_member_wins_as_in_kubectl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "twice.json"
    file.write_bytes(OBJECT.replace(b"-", b'{"a":"first","a":"last"}'))
    with pytest.raises(SystemExit) as ended:
        main(["review", str(file), "-o", "json"])
    assert ended.value.code == 0
    assert "first" not in json.dumps(capsys.readouterr().out)


DIGITS = "9" * 5000
"""More than Python reads as an integer."""
METADATA = {"name": "x", "namespace": "default"}
POD_TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]},
}


@pytest.mark.parametrize(
    "manifest",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": METADATA, "data": {DIGITS: "x"}},
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": METADATA,
            "spec": {"schedule": f"{DIGITS} * * * *", "jobTemplate": {"spec": {"template": POD_TEMPLATE}}},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": METADATA,
            "spec": {
                "completionMode": "Indexed",
                "completions": 5,
                "parallelism": 5,
                "successPolicy": {"rules": [{"succeededIndexes": DIGITS}]},
                "template": POD_TEMPLATE,
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": METADATA
            | {"annotations": {"deprecated.daemonset.template.generation": "0" * 5000 + "1"}},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": POD_TEMPLATE},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": METADATA | {"annotations": {"deprecated.deployment.rollback.to": "0" * 5000 + "1"}},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": POD_TEMPLATE},
        },
    ],
    ids=lambda manifest: manifest["kind"],
)
def test_numbers_of_thousands_of_digits_are_decided(
    tmp_path: Path, manifest: JSONObject, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = problem_of(tmp_path, json.dumps(manifest).encode(), capsys, "table")
    assert (code in {0, 1}, said) == (True, "")


COMMANDS = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "x##vso[task.setvariable variable=PATH]y##[error]z",
        "namespace": "##[error]n",
        "labels": {"##[group]l": "##vso[a]"},
        "annotations": {
            "note": "first\n::error file=x::a\n  ::stop-commands::t\r::warning::\n##[debug]a",
            "##vso[k]e\n::add-mask::y": "::error::one",
        },
    },
    "spec": {"containers": [{"name": "##[error]c", "image": "##vso[i]\n\u2003::set-output name=a::b"}]},
}


@pytest.mark.parametrize("validation", ["on", "off"])
@pytest.mark.parametrize("output", DECISION_FORMATS)
def test_no_text_of_a_manifest_is_a_command_to_a_ci_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str, validation: str
) -> None:
    file = tmp_path / "commands.json"
    file.write_text(json.dumps(COMMANDS))
    with pytest.raises(SystemExit):
        main(["review", str(file), "-o", output, "--object-validation", validation])
    said = "".join(capsys.readouterr())
    lines = [line for line in re.split(r"[\r\n]", said) if not line.startswith("::error file=")]
    assert not [line for line in lines if "##[" in line or "##vso[" in line]
    assert not [line for line in lines if line.lstrip().startswith("::")]
    if output in {"json", "jsonl", "yaml"} and validation == "off":
        (decision,) = json.loads(said) if output == "json" else yaml.safe_load_all(said)
        assert decision["object"]["metadata"] == COMMANDS["metadata"]


def test_a_million_empty_lines_are_written_in_linear_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": METADATA,
        "data": {"a": "\n" * 1_000_000},
    }
    code, said = problem_of(tmp_path, json.dumps(manifest).encode(), capsys, "yaml")
    assert (code, said) == (0, "")
