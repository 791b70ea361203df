"""Documents: a report as JSON, for ``-o json``, ``jsonl`` and ``yaml``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.differences import diff
from pratique.json_values import encode
from pratique_cli.proofs.verdicts import QUESTIONS, verdict

if TYPE_CHECKING:
    from frontdoor.mutator_sets import Mutator
    from pratique.json_values import JSONObject
    from pratique_cli.proofs.findings import Finding, Report
    from pratique_cli.proofs.violations import Run


def written(document: JSONObject, output: str) -> bytes:
    """Write a document as ``json``, ``jsonl`` or ``yaml``."""
    if output == "yaml":
        from pratique_cli.yaml_texts import dump_yaml  # noqa: PLC0415 - YAML takes a tenth of a second to import

        return dump_yaml(document).encode()
    raw = encode(document)
    return (msgspec.json.format(raw, indent=2) if output == "json" else raw) + b"\n"


def report_document(report: Report) -> JSONObject:
    """All that a report says."""
    return {
        "holds": report.holds,
        "objects": {
            "tried": report.tried,
            "given": report.given,
            "generated": dict(report.made),
            "refused": report.refused,
        },
        "seed": report.seed,
        "mutators": [_mutator(report, mutator) for mutator in report.mutators],
        "set": {question: verdict(report, None, question) for question in QUESTIONS},
        "findings": [_finding(finding) for finding in report.findings],
        "error": report.trouble or None,
    }


def _mutator(report: Report, mutator: Mutator) -> JSONObject:
    answers = {question: verdict(report, mutator, question) for question in QUESTIONS}
    return {**mutator_document(mutator), "acted": report.acted.get(mutator, 0), **answers}


def mutator_document(mutator: Mutator) -> JSONObject:
    """The name of a mutator, as steps of decisions have it."""
    return {
        "controller": mutator.controller,
        "name": mutator.name,
        "configuration": mutator.configuration,
    }


def _finding(finding: Finding) -> JSONObject:
    violation, source = finding.violation, finding.case.source
    return {
        "defect": violation.defect.value,
        "mutators": [mutator_document(mutator) for mutator in violation.mutators],
        "message": violation.text,
        "fields": list(violation.fields),
        "growth": violation.growth,
        "period": violation.period,
        "seen": finding.seen,
        "operation": finding.case.operation.value,
        "given": None if source is None else {"file": source.file, "line": source.line},
        "object": finding.document,
        "runs": [_run(run) for run in violation.runs],
    }


def _run(run: Run) -> JSONObject:
    return {
        "name": run.label,
        "object": run.before,
        "patch": list(diff(run.before, run.after)),
        "refused": run.refusal or None,
    }
