from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique_cli.outputs import ReviewCounts
from pratique_cli.outputs.sarif import SarifOutput
from support.ci_reports import read_sarif
from support.hostile_reviews import HOSTILE, denied_hostilely, hostile_manifest, missed_hostilely

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

TEXT = {"text": str}
LOCATION = {
    "physicalLocation?": {
        "artifactLocation": {"uri": str, "uriBaseId?": str},
        "region?": {"startLine": int, "startColumn": int},
    },
    "logicalLocations?": [{"fullyQualifiedName": str, "kind": str}],
}
DESCRIPTOR = {"id": str, "shortDescription": TEXT}
NOTIFICATION = {"level": str, "descriptor": {"id": str}, "message": TEXT, "locations?": [LOCATION]}
# What of SARIF 2.1.0 we write, in the words of its schema: members that are there, with "?" those that may be,
# and no others; all objects of the schema that are named here refuse members that it does not know.
LOG: dict[str, Any] = {
    "$schema": str,
    "version": str,
    "runs": [
        {
            "columnKind": str,
            "originalUriBaseIds": {"%SRCROOT%": {"description": TEXT}},
            "tool": {
                "driver": {
                    "name": str,
                    "version": str,
                    "rules": [DESCRIPTOR | {"name": str, "defaultConfiguration": {"level": str}}],
                    "notifications?": [DESCRIPTOR],
                }
            },
            "invocations": [{"executionSuccessful": bool, "toolExecutionNotifications?": [NOTIFICATION]}],
            "results": [
                {
                    "ruleId": str,
                    "ruleIndex": int,
                    "level": str,
                    "message": TEXT,
                    "locations": [LOCATION],
                    "partialFingerprints": {"finding/v1": str},
                }
            ],
        }
    ],
}


def check_shape(value: Any, shape: Any) -> None:
    if isinstance(shape, type):
        assert type(value) is shape
    elif isinstance(shape, list):
        for item in value:
            check_shape(item, shape[0])
    else:
        assert set(value) <= {name.removesuffix("?") for name in shape}
        for name, inner in shape.items():
            if not name.endswith("?") or name.removesuffix("?") in value:
                check_shape(value[name.removesuffix("?")], inner)


def read(log: str | bytes) -> dict[str, Any]:
    """Parse a log, check it against the specification (the comments name its sections), and return its run."""
    read_sarif(log)
    read_log = json.loads(log)
    check_shape(read_log, LOG)
    assert read_log["version"] == "2.1.0"  # 3.13.2
    (run,) = read_log["runs"]
    assert run["columnKind"] in {"utf16CodeUnits", "unicodeCodePoints"}  # 3.14.27
    driver = run["tool"]["driver"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)  # 3.49.3
    known = {entry["id"] for entry in driver.get("notifications", [])}
    notifications = run["invocations"][0].get("toolExecutionNotifications", [])
    assert {notification["descriptor"]["id"] for notification in notifications} == known  # 3.52.3
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]  # 3.27.5, 3.27.6
        assert result["message"]["text"]  # 3.11.8
    for item in (*run["results"], *notifications):
        assert item["level"] in {"none", "note", "warning", "error"}  # 3.27.10
        check_locations(item.get("locations", []))
    found: dict[str, Any] = run
    return found


def check_locations(locations: list[dict[str, Any]]) -> None:
    for location in locations:
        physical = location.get("physicalLocation")
        if physical is None:
            continue
        uri = physical["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]+", uri)  # 3.4.3: RFC 3986
        is_absolute = uri.startswith("file:///")
        assert physical["artifactLocation"].get("uriBaseId") == (None if is_absolute else "%SRCROOT%")
        assert min(physical.get("region", {"startLine": 1}).values()) > 0  # 3.30.5, 3.30.6


def region_of(result: dict[str, Any]) -> tuple[int, int]:
    region = result["locations"][0]["physicalLocation"]["region"]
    return region["startLine"], region["startColumn"]


def log_of(*write: Callable[[SarifOutput], None]) -> dict[str, Any]:
    stream = io.BytesIO()
    output = SarifOutput(stream)
    for item in write:
        item(output)
    output.finish(ReviewCounts())
    return read(stream.getvalue())


POD = """\
# a comment
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
  - name: web
    image: registry.example.com/web
    imagePullPolicy: Never
  - {name: side, image: registry.example.com/side, imagePullPolicy: Never}
"""
PULL = ("--admission-control", "AlwaysPullImages", "--phase", "validate", "-o", "sarif")


def test_a_denial_points_to_the_field_that_it_names(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a b.yaml").write_text(POD)
    ran = pratique("review", *PULL, "sub/a b.yaml")
    run = read(ran.stdout)
    (result,) = run["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert (ran.returncode, result["level"], result["ruleId"]) == (1, "error", "AlwaysPullImages")
    assert artifact == {"uri": "sub/a%20b.yaml", "uriBaseId": "%SRCROOT%"}
    assert region_of(result) == (9, 5)
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert run["invocations"] == [{"executionSuccessful": True}]


def test_a_denial_of_a_recorded_review_points_into_the_review(pratique: Program, tmp_path: Path) -> None:
    pod = {
        "metadata": {"name": "web"},
        "spec": {"hostNetwork": True, "containers": [{"name": "a", "image": "b"}]},
    }
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"version": "v1", "kind": "Pod"},
        "resource": {"version": "v1", "resource": "pods"},
        "namespace": "shop",
        "object": {"apiVersion": "v1", "kind": "Pod"} | pod,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    text = json.dumps(review, indent=1)
    (tmp_path / "a.json").write_text(text)
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}
    (tmp_path / "c.json").write_text(json.dumps(shop))
    flags = ("--admission-control", "PodSecurity", "--cluster", "c.json", "-o", "sarif")
    (result,) = read(pratique("review", *flags, "a.json").stdout)["results"]
    lines = text.split("\n")
    line = next(number for number, item in enumerate(lines, 1) if '"hostNetwork"' in item)
    assert region_of(result) == (line, lines[line - 1].index('"') + 1)


def test_a_denial_without_a_field_points_to_its_document(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{POD}---\n{POD}")
    flags = ("--admission-control", "AlwaysDeny", "-o", "sarif")
    first, second = read(pratique("review", *flags, "a.yaml").stdout)["results"]
    assert [region_of(first), region_of(second)] == [(2, 1), (13, 1)]


def test_each_denying_step_is_a_result(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    flags = ("--admission-control", "AlwaysPullImages,PodNodeSelector,AlwaysDeny", *PULL[2:])
    run = read(pratique("review", *flags, "a.yaml").stdout)
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [result["ruleId"] for result in run["results"]] == rules == ["AlwaysPullImages", "AlwaysDeny"]


def test_an_unreadable_document_is_a_notification(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Podd\napiVersion: v1\n")
    ran = pratique("review", "-o", "sarif", "a.yaml")
    run = read(ran.stdout)
    (invocation,) = run["invocations"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert (ran.returncode, run["results"], invocation["executionSuccessful"]) == (2, [], False)
    assert ran.stderr == f"pratique: {notification['message']['text']}\n"
    assert region_of(notification) == (1, 1)


def test_standard_input_has_a_place_that_code_scanning_accepts(pratique: Program) -> None:
    (result,) = read(pratique("review", *PULL, "-", stdin=POD).stdout)["results"]
    (location,) = result["locations"]
    name = "Pod shop/web spec.containers[0].imagePullPolicy"
    assert location["logicalLocations"] == [{"fullyQualifiedName": name, "kind": "resource"}]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": "stdin", "uriBaseId": "%SRCROOT%"}
    assert location["physicalLocation"]["region"]["startLine"] == 9


def test_a_file_outside_the_folder_has_an_absolute_path(pratique: Program, tmp_path: Path) -> None:
    elsewhere = tmp_path.with_name(f"{tmp_path.name}-elsewhere")
    elsewhere.mkdir()
    (elsewhere / "a.yaml").write_text(POD)
    (result,) = read(pratique("review", *PULL, elsewhere / "a.yaml").stdout)["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": f"file://{elsewhere}/a.yaml"}


def test_a_fingerprint_survives_moving_a_finding(pratique: Program, tmp_path: Path) -> None:
    prints = []
    for text in (POD, "\n\n" + POD, POD.replace("name: web,", "name: other,")):
        (tmp_path / "a.yaml").write_text(text)
        (result,) = read(pratique("review", *PULL, "a.yaml").stdout)["results"]
        prints.append(result["partialFingerprints"]["finding/v1"])
    assert prints[0] == prints[1] != prints[2]
    assert len(prints[0]) == 2 * hashlib.sha256().digest_size


def test_hostile_names_do_not_break_the_log(pratique: Program, tmp_path: Path) -> None:
    file = 'a"%\U0001f6a2\x07.json'
    (tmp_path / file).write_text(hostile_manifest())
    flags = ("--admission-control", "AlwaysDeny", "-o", "sarif")
    (result,) = read(pratique("review", *flags, file).stdout)["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact["uri"] == "a%22%25%F0%9F%9A%A2%07.json"


@pytest.mark.parametrize("file", ["a.json", "-"])
def test_hostile_texts_do_not_break_the_log(file: str) -> None:
    run = log_of(
        lambda output: output.write(denied_hostilely(file)),
        lambda output: output.write_problem(missed_hostilely(file)),
        lambda output: output.write(denied_hostilely(file)),
    )
    expected = HOSTILE.replace("\udcff", "\\udcff")
    assert {result["message"]["text"] for result in run["results"]} == {expected}
    assert [result["level"] for result in run["results"]] == ["error", "warning"] * 2
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"] == {"text": expected}


@given(st.text(st.characters(exclude_categories=()), min_size=1))
def test_any_text_can_be_reported(text: str) -> None:
    assert len(log_of(lambda output: output.write(denied_hostilely(text=text)))["results"]) == 2


def test_each_result_is_written_at_once() -> None:
    stream = io.BytesIO()
    output = SarifOutput(stream)
    output.write(denied_hostilely(text="first"))
    assert b'"text": "first"' in stream.getvalue()
