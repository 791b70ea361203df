"""``-o sarif``: a SARIF 2.1.0 log of one run, for code scanning."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.json_values import JSONObject, encode
from pratique.apimachinery.source_documents import Position
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument
from pratique_cli.outputs.findings import (
    FindingLevel,
    ReviewFinding,
    StepOrigin,
    findings,
    relative_path,
    relative_uri,
)
from pratique_cli.outputs.texts import subject

if TYPE_CHECKING:
    from typing import BinaryIO

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
"""The schema of the log."""
ROOT = "%SRCROOT%"
"""The base of relative URIs, by the name that code scanning uses."""


def locations(file: str, place: Position | None, about: str, field: str = "") -> JSONObject:
    """The member ``locations`` of a result or notification; empty if nothing is known."""
    location: JSONObject = {}
    path = relative_path(file)
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


def encodable(text: str) -> str:
    """Escape lone surrogates, which file names may contain and UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


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
        """Keep a notification that the tool could not do its work; results are for findings."""
        error = problem.error
        self._notifications.append(
            {
                "level": "error",
                "descriptor": {"id": "undecided" if problem.review else "unreadable"},
                "message": {"text": encodable(str(error))},
                **locations(error.file, error.place, subject(problem.review) if problem.review else ""),
            }
        )

    def finish(self, counts: ReviewCounts) -> None:
        """Write the rest of the run."""
        invocation: JSONObject = {"executionSuccessful": not (counts.undecided or counts.unreadable)}
        if self._notifications:
            invocation["toolExecutionNotifications"] = self._notifications
        rest = {
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {ROOT: {"description": {"text": "The folder in which pratique ran."}}},
            "invocations": [invocation],
            "tool": {"driver": self._driver()},
        }
        # The members of a JSON object have no order; these follow "results".
        members = _indented(rest, 4).lstrip().removeprefix("{\n")
        end = "\n      ]" if self._before == ",\n" else f"{_HEAD}]"
        self._stream.write(f"{end},\n{members}\n  ]\n}}\n".encode())
        self._stream.flush()

    def _driver(self) -> JSONObject:
        summaries = {controller.name: controller.summary for controller in load_catalogue()}
        kinds = {notification["descriptor"]["id"] for notification in self._notifications}
        descriptors = [
            {"id": kind, "shortDescription": {"text": _NOTIFICATION_TEXTS[kind]}} for kind in sorted(kinds)
        ]
        return {
            "name": "pratique",
            "version": importlib.metadata.version("pratique"),
            "rules": [_descriptor(origin, level, summaries) for origin, level in self._rules.items()],
            **({"notifications": descriptors} if descriptors else {}),
        }


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
    about, file = subject(reviewed.review), reviewed.document.file
    return {
        "ruleId": encodable(str(finding.origin)),
        "ruleIndex": index,
        "level": finding.level.value,
        "message": {"text": encodable(finding.message)},
        **locations(file, finding.place, about, finding.field),
        "partialFingerprints": {"finding/v1": _fingerprint(finding, about, file)},
    }


def _fingerprint(finding: ReviewFinding, about: str, file: str) -> str:
    """Identify a result across runs, even if it moves within its file (SARIF 2.1.0, 3.27.17)."""
    parts = (relative_path(file) or "", str(finding.origin), about, finding.field, finding.text)
    return hashlib.sha256("\0".join(map(encodable, parts)).encode()).hexdigest()


def _indented(value: JSONObject, columns: int) -> str:
    margin = " " * columns
    return margin + msgspec.json.format(encode(value), indent=2).decode().replace("\n", f"\n{margin}")


def catalogue_sarif(controllers: Sequence[JSONObject]) -> bytes:
    """Write a log without results, with the controllers as rules."""
    driver = {
        "name": "pratique",
        "version": importlib.metadata.version("pratique"),
        "rules": [
            {
                "id": controller["name"],
                "name": controller["name"],
                "shortDescription": {"text": controller["summary"]},
                "defaultConfiguration": {"enabled": controller["default"], "level": "error"},
            }
            for controller in controllers
        ],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"results": [], "tool": {"driver": driver}}]}
    return msgspec.json.format(encode(log), indent=2) + b"\n"
