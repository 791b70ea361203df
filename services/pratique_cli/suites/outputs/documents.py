"""``-o json``, ``jsonl`` and ``yaml``: results as documents for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from frontdoor.decisions import to_document
from pratique.json_values import encode
from pratique_cli.outputs.changes import path_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from pratique.errors import InputError
    from pratique.json_values import JSONObject
    from pratique_cli.suites.coverages import Coverage, Entry
    from pratique_cli.suites.results import Mismatch, Result, Score


def result_document(result: Result) -> JSONObject:
    """Write what became of one case; the decision where it was not as expected."""
    case, observed = result.case, result.observed
    told = observed.decision if observed and result.mismatches else None
    return {
        "suite": case.suite,
        "name": case.name,
        "file": case.document.file,
        "line": case.line,
        "outcome": result.ending.value,
        "durationMs": round(result.seconds * 1000, 3),
        "mismatches": [_mismatch(result, mismatch) for mismatch in result.mismatches],
        "error": None if result.error is None else str(result.error),
        "decision": None if told is None else to_document(told),
    }


def _mismatch(result: Result, mismatch: Mismatch) -> JSONObject:
    place = result.position(mismatch)
    return {
        "member": path_text(mismatch.path[len(result.case.path) :]),
        "line": place.line,
        "column": place.column,
        "expected": mismatch.expected,
        "got": mismatch.got,
        "difference": list(mismatch.difference),
    }


def score_document(score: Score, problems: list[InputError], coverage: Coverage | None) -> JSONObject:
    """Write what holds for the run as a whole."""
    summary = {
        "passed": score.passed,
        "failed": score.failed,
        "unreadable": score.unreadable,
        "undecided": score.undecided,
        "notRun": score.left,
    }
    told: JSONObject = {"summary": summary, "problems": [_problem(each) for each in problems]}
    if coverage is not None:
        entries = [_entry(each) for each in coverage.entries]
        told["coverage"] = {"percent": round(coverage.percent, 1), "entries": entries}
    return told


def _problem(error: InputError) -> JSONObject:
    place = {} if error.place is None else {"line": error.place.line, "column": error.place.column}
    return {"file": error.file, **place, "text": str(error)}


def _entry(entry: Entry) -> JSONObject:
    written = {} if entry.source is None else {"file": entry.source.file, "line": entry.line}
    return {
        "kind": entry.kind,
        "name": entry.name,
        **written,
        **({"expression": entry.expression} if entry.expression else {}),
        "matched": entry.matched,
        "denied": entry.denied,
        "mutated": entry.mutated,
        "warned": entry.warned,
        "audited": entry.audited,
    }


class JsonReport:
    """``-o json``: one object, whose members are written as soon as they are known."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write UTF-8 to ``stream``."""
        self._stream = stream
        self._problems: list[InputError] = []
        self._before = b'{"results": [\n'

    def write(self, result: Result) -> None:
        """Write one element of ``results``."""
        element = msgspec.json.format(encode(result_document(result)), indent=2)
        self._stream.write(self._before + element)
        self._stream.flush()
        self._before = b",\n"

    def miss(self, error: InputError) -> None:
        """Keep a problem for the end."""
        self._problems.append(error)

    def finish(self, score: Score, coverage: Coverage | None) -> None:
        """Write the other members."""
        rest = msgspec.json.format(encode(score_document(score, self._problems, coverage)), indent=2)
        beginning = b"\n]" if self._before == b",\n" else b'{"results": []'
        self._stream.write(beginning + b"," + rest.removeprefix(b"{") + b"\n")
        self._stream.flush()


class Documents:
    """``-o jsonl`` and ``yaml``: one document for each case, and one for the run as a whole."""

    def __init__(self, stream: BinaryIO, dump: Callable[[JSONObject], bytes]) -> None:
        """Write UTF-8 to ``stream``, each document as ``dump`` makes it."""
        self._stream = stream
        self._dump = dump
        self._problems: list[InputError] = []

    def write(self, result: Result) -> None:
        """Write one document."""
        self._put(result_document(result))

    def miss(self, error: InputError) -> None:
        """Keep a problem for the end."""
        self._problems.append(error)

    def finish(self, score: Score, coverage: Coverage | None) -> None:
        """Write the last document."""
        self._put(score_document(score, self._problems, coverage))

    def _put(self, document: JSONObject) -> None:
        self._stream.write(self._dump(document))
        self._stream.flush()
