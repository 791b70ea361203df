"""``-o sarif``: a SARIF 2.1.0 log, with a result for everything that is not as expected."""

from __future__ import annotations

import hashlib
import importlib.metadata
from typing import TYPE_CHECKING

import msgspec

from pratique.json_values import encode
from pratique_cli.outputs.artifacts import relative_path
from pratique_cli.outputs.changes import path_text
from pratique_cli.outputs.sarif_places import ROOT, SCHEMA, locations, speakable
from pratique_cli.suites.results import Ending

if TYPE_CHECKING:
    from typing import BinaryIO

    from pratique.errors import InputError
    from pratique.json_values import JSONObject
    from pratique_cli.suites.coverages import Coverage
    from pratique_cli.suites.results import Mismatch, Result, Score

_KINDS = {
    Ending.UNDECIDED: "There was no decision in time.",
    Ending.UNREADABLE: "The suite, or what it names, cannot be used.",
}


class Sarif:
    """Writes the log at the end; memory holds what is not as expected."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._results: list[JSONObject] = []
        self._notifications: list[JSONObject] = []
        self._rules: dict[str, str] = {}

    def write(self, result: Result) -> None:
        """Keep a result for each mismatch; what could not be run is the tool's own trouble."""
        self._results += [self._result(result, mismatch) for mismatch in result.mismatches]
        if result.error is not None:
            self._notify(result.ending, result.error, result.case.full_name)

    def miss(self, error: InputError) -> None:
        """Keep that something cannot be read."""
        self._notify(Ending.UNREADABLE, error, "")

    def finish(self, score: Score, coverage: Coverage | None) -> None:  # noqa: ARG002 - a log has no place for it
        """Write the log."""
        invocation: JSONObject = {"executionSuccessful": not self._notifications}
        if self._notifications:
            invocation["toolExecutionNotifications"] = self._notifications
        run = {
            "results": self._results,
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {ROOT: {"description": {"text": "The folder in which pratique ran."}}},
            "invocations": [invocation],
            "tool": {"driver": self._driver()},
        }
        log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
        self._stream.write(msgspec.json.format(encode(log), indent=2) + b"\n")
        self._stream.flush()

    def _notify(self, ending: Ending, error: InputError, about: str) -> None:
        self._notifications.append(
            {
                "level": "error",
                "descriptor": {"id": ending.value},
                "message": {"text": speakable(str(error))},
                **locations(error.file, error.place, about),
            }
        )

    def _result(self, result: Result, mismatch: Mismatch) -> JSONObject:
        case = result.case
        rule, member = speakable(case.full_name), path_text(mismatch.path[len(case.path) :])
        self._rules.setdefault(rule, speakable(case.name))
        known = (relative_path(case.document.file) or "", rule, member)
        fingerprint = hashlib.sha256("\0".join(map(speakable, known)).encode()).hexdigest()
        return {
            "ruleId": rule,
            "ruleIndex": list(self._rules).index(rule),
            "level": "error",
            "message": {"text": speakable(mismatch.text)},
            **locations(case.document.file, result.position(mismatch), case.full_name, member),
            "partialFingerprints": {"mismatch/v1": fingerprint},
        }

    def _driver(self) -> JSONObject:
        ids = {each["descriptor"]["id"] for each in self._notifications}
        told = [
            {"id": kind.value, "shortDescription": {"text": _KINDS[kind]}} for kind in _KINDS if kind in ids
        ]
        return {
            "name": "pratique",
            "version": importlib.metadata.version("pratique"),
            "rules": [
                {"id": rule, "name": rule, "shortDescription": {"text": name}}
                for rule, name in self._rules.items()
            ],
            **({"notifications": told} if told else {}),
        }
