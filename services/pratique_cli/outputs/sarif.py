"""``-o sarif``: a SARIF 2.1.0 log of one run, for code scanning."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.source_documents import STDIN, Position
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.encoding import indented_json
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument
from pratique_cli.outputs.changes import subject
from pratique_cli.outputs.findings import (
    FindingLevel,
    ReviewFinding,
    StepOrigin,
    encodable,
    findings,
    relative_path,
    relative_uri,
)

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
"""The schema of the log."""
ROOT = "%SRCROOT%"
"""The base of relative URIs, by the name that code scanning uses."""
_STDIN_URI = "stdin"
"""Stands for standard input without a name: GitHub refuses a log with a result that has no physical location."""


def locations(file: str, place: Position | None, about: str, field: str = "") -> JSONObject:
    """The member ``locations`` of a result or notification; empty if nothing is known."""
    location: JSONObject = {}
    path = relative_path(file) or (_STDIN_URI if file == STDIN else None)
    if path is not None:
        artifact = {"uri": relative_uri(path)} | ({} if path.startswith("/") else {"uriBaseId": ROOT})
        location["physicalLocation"] = {"artifactLocation": artifact}
        if place is not None:
            region = {"startLine": place.line, "startColumn": place.column}
            location["physicalLocation"]["region"] = region
    if about:
        name = f"{about} {field}" if field else about
        location["logicalLocations"] = [{"fullyQualifiedName": encodable(name), "kind": "resource"}]
    return {"locations": [location]} if location else {}


def fingerprint(*parts: str) -> str:
    """Identify a result across runs, even if it moves within its file (SARIF 2.1.0, 3.27.17)."""
    return hashlib.sha256("\0".join(map(encodable, parts)).encode()).hexdigest()


def notification(kind: str, error: InputError, about: str = "") -> JSONObject:
    """Make a notification that the tool could not do its work; results are for findings."""
    return {
        "level": "error",
        "descriptor": {"id": kind},
        "message": {"text": encodable(str(error))},
        **locations(error.file, error.place, about),
    }


def run_properties(
    rules: Sequence[JSONObject], notifications: Sequence[JSONObject], texts: Mapping[str, str]
) -> JSONObject:
    """Make the members of a run except its results; ``texts`` describes each kind of notification."""
    invocation: JSONObject = {"executionSuccessful": not notifications}
    if notifications:
        invocation["toolExecutionNotifications"] = list(notifications)
    return {
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder in which pratique ran."}}},
        "invocations": [invocation],
        "tool": {"driver": _driver(rules, notifications, texts)},
    }


def _driver(
    rules: Sequence[JSONObject], notifications: Sequence[JSONObject], texts: Mapping[str, str]
) -> JSONObject:
    kinds = sorted({entry["descriptor"]["id"] for entry in notifications})
    descriptors = [{"id": kind, "shortDescription": {"text": texts[kind]}} for kind in kinds]
    return {
        "name": "pratique",
        "version": importlib.metadata.version("pratique"),
        "rules": list(rules),
        **({"notifications": descriptors} if descriptors else {}),
    }


def sarif_log(run: JSONObject) -> bytes:
    """Encode a log of one run."""
    return indented_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


_NOTIFICATION_TEXTS = {
    "undecided": "There was no decision in time.",
    "unreadable": "The document is neither an AdmissionReview nor an object of a known kind.",
}
_HEAD = f"""\
{{
  "$schema": "{SCHEMA}",
  "version": "2.1.0",
  "runs": [
    {{
      "results": ["""


class SarifOutput:
    """Writes each result at once, and the rules at the end, when all are known. Memory holds no results."""

    def __init__(self, stream: BinaryIO, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` adds to denials which step last changed the field."""
        self._stream = stream
        self._blame = blame
        # Written with the first result: a run that cannot start writes no log.
        self._before = f"{_HEAD}\n"
        self._rules: dict[StepOrigin, FindingLevel] = {}
        self._notifications: list[JSONObject] = []

    def write(self, reviewed: ReviewedDocument) -> None:
        """Write a result for each cause of a denial and each warning."""
        for finding in findings(reviewed, blame=self._blame):
            is_error = FindingLevel.ERROR in {finding.level, self._rules.get(finding.origin)}
            self._rules[finding.origin] = FindingLevel.ERROR if is_error else FindingLevel.WARNING
            index = list(self._rules).index(finding.origin)
            result = _result(reviewed, finding, index)
            self._stream.write((self._before + _indented(result, 8)).encode())
            self._before = ",\n"
        self._stream.flush()

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Keep a notification for the end."""
        kind = "undecided" if problem.review else "unreadable"
        about = subject(problem.review) if problem.review else ""
        self._notifications.append(notification(kind, problem.error, about))

    def finish(self, counts: ReviewCounts) -> None:  # noqa: ARG002 - the notifications tell
        """Write the rest of the run."""
        summaries = {controller.name: controller.summary for controller in load_catalogue()}
        rules = [_descriptor(origin, level, summaries) for origin, level in self._rules.items()]
        rest = run_properties(rules, self._notifications, _NOTIFICATION_TEXTS)
        # The members of a JSON object have no order; these follow "results".
        members = _indented(rest, 4).lstrip().removeprefix("{\n")
        end = "\n      ]" if self._before == ",\n" else f"{_HEAD}]"
        self._stream.write(f"{end},\n{members}\n  ]\n}}\n".encode())
        self._stream.flush()


def _descriptor(origin: StepOrigin, level: FindingLevel, summaries: dict[str, str]) -> JSONObject:
    name = " ".join(filter(None, (origin.controller, origin.name))) or "Admission"
    if origin.name:
        configuration = f" of {origin.configuration}" if origin.configuration else ""
        summary = f"{origin.name}{configuration}, by {origin.controller}."
    else:
        summary = summaries.get(origin.controller, "Findings of the admission chain itself.")
    return {
        "id": encodable(str(origin)),
        "name": encodable(name),
        "shortDescription": {"text": encodable(summary)},
        "defaultConfiguration": {"level": level.value},
    }


def _result(reviewed: ReviewedDocument, finding: ReviewFinding, index: int) -> JSONObject:
    about, file, origin = subject(reviewed.review), reviewed.document.file, encodable(str(finding.origin))
    identity = fingerprint(relative_path(file) or "", origin, about, finding.field, finding.text)
    return {
        "ruleId": origin,
        "ruleIndex": index,
        "level": finding.level.value,
        "message": {"text": encodable(finding.message)},
        **locations(file, finding.place, about, finding.field),
        "partialFingerprints": {"finding/v1": identity},
    }


def _indented(value: JSONObject, columns: int) -> str:
    margin = " " * columns
    return margin + indented_json(value).decode().rstrip().replace("\n", f"\n{margin}")


def catalogue_sarif(controllers: Sequence[JSONObject]) -> bytes:
    """Write a log without results, with the controllers as rules."""
    rules = [
        {
            "id": controller["name"],
            "name": controller["name"],
            "shortDescription": {"text": controller["summary"]},
            "defaultConfiguration": {"enabled": controller["default"], "level": "error"},
        }
        for controller in controllers
    ]
    return sarif_log({"results": [], "tool": {"driver": _driver(rules, [], {})}})
