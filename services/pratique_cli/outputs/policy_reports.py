"""``-o policyreport`` and ``-o openreports``: what was decided on each object, as objects that a cluster stores.

The Kubernetes Policy Working Group defines PolicyReport and ClusterPolicyReport (``wgpolicyk8s.io/v1alpha2``), which
Kyverno, Trivy and others write and dashboards read. The OpenReports project goes on with them as Report and
ClusterReport (``openreports.io/v1alpha1``).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject, member
from pratique_cli.encoding import dump_yaml
from pratique_cli.outputs import ReviewCounts, ReviewedDocument, UndecidedDocument
from pratique_cli.outputs.findings import FindingLevel, ReviewFinding, StepOrigin, encodable, findings

SOURCE = "pratique"
"""The name of the reports, and who wrote them."""
MOST_RESULTS = 1000
"""The results in one report: etcd stores no object of more than 1.5 MiB."""
_RESULTS = ("pass", "fail", "warn", "error", "skip")
_FAILED_FROM = 500
"""The lowest code of a denial that says nothing about the object, as a webhook or policy has failed."""


class ReportKinds(msgspec.Struct, frozen=True):
    """The kinds of one API group of reports."""

    api_version: str
    namespaced: str
    cluster: str


POLICY_REPORTS = ReportKinds("wgpolicyk8s.io/v1alpha2", "PolicyReport", "ClusterPolicyReport")
OPEN_REPORTS = ReportKinds("openreports.io/v1alpha1", "Report", "ClusterReport")


class PolicyReportOutput:
    """Keeps the results until all are known, and writes the reports of each namespace, then those of the cluster."""

    def __init__(self, stream: BinaryIO, kinds: ReportKinds, *, blame: bool = False) -> None:
        """Write UTF-8 to ``stream``; ``blame`` adds to denials which step last changed the field."""
        self._stream = stream
        self._kinds = kinds
        self._blame = blame
        self._results: defaultdict[str, list[JSONObject]] = defaultdict(list)

    def write(self, reviewed: ReviewedDocument) -> None:
        """Keep a result for each cause of a denial and each warning; one that passes if there is none."""
        review = reviewed.review
        status = reviewed.decision.status
        failed = status is not None and (status.code or 0) >= _FAILED_FROM
        found = [_finding_result(finding, failed=failed) for finding in findings(reviewed, blame=self._blame)]
        self._add(review, found or [_result(StepOrigin(""), "pass", "admitted")])

    def write_problem(self, problem: UndecidedDocument) -> None:
        """Keep a result that there was no decision; a document that cannot be read is about no object."""
        if problem.review is not None:
            self._add(problem.review, [_result(StepOrigin(""), "error", str(problem.error))])

    def _add(self, review: Review, results: list[JSONObject]) -> None:
        is_namespace = review.resource.resource == "namespaces" and not review.resource.group
        resources = [_reference(review, "" if is_namespace else review.namespace)]
        placed = "" if is_namespace else review.namespace
        self._results[placed] += [{**result, "resources": resources} for result in results]

    def finish(self, counts: ReviewCounts) -> None:  # noqa: ARG002 - each report has its own counts
        """Write the reports."""
        reports = (
            self._report(namespace, number, results)
            for namespace in sorted(self._results, key=lambda name: (not name, name))
            for number, results in enumerate(_batches(self._results[namespace]), 1)
        )
        self._stream.write("---\n".join(dump_yaml(report) for report in reports).encode())
        self._stream.flush()

    def _report(self, namespace: str, number: int, results: list[JSONObject]) -> JSONObject:
        counts = Counter(str(result["result"]) for result in results)
        placed: JSONObject = {"namespace": namespace} if namespace else {}
        return {
            "apiVersion": self._kinds.api_version,
            "kind": self._kinds.namespaced if namespace else self._kinds.cluster,
            "metadata": {
                "name": SOURCE if number == 1 else f"{SOURCE}-{number}",
                **placed,
                "labels": {"app.kubernetes.io/managed-by": SOURCE},
            },
            "summary": {name: counts[name] for name in _RESULTS},
            "results": results,
        }


def _batches(results: list[JSONObject]) -> Iterator[list[JSONObject]]:
    for begin in range(0, len(results), MOST_RESULTS):
        yield results[begin : begin + MOST_RESULTS]


def _finding_result(finding: ReviewFinding, *, failed: bool) -> JSONObject:
    refused = "error" if failed else "fail"
    kind = "warn" if finding.level is FindingLevel.WARNING else refused
    properties: JSONObject = {"properties": {"field": encodable(finding.field)}} if finding.field else {}
    return _result(finding.origin, kind, finding.message) | properties


def _result(origin: StepOrigin, kind: str, message: str) -> JSONObject:
    rule: JSONObject = {"rule": encodable(origin.name)} if origin.name else {}
    category: JSONObject = {"category": origin.controller} if origin.controller else {}
    return {
        "source": SOURCE,
        "policy": encodable(origin.configuration or origin.name or origin.controller or "admission"),
        **rule,
        **category,
        "result": kind,
        "scored": kind != "warn",
        "message": encodable(message),
        "timestamp": {"seconds": int(time.time()), "nanos": 0},
    }


def _reference(review: Review, namespace: str) -> JSONObject:
    metadata = member(review.object, "metadata") or member(review.old_object, "metadata")
    reference: JSONObject = {
        "apiVersion": review.kind.api_version,
        "kind": review.kind.kind,
        "name": encodable(
            str(review.name or member(metadata, "name") or member(metadata, "generateName") or "")
        ),
    }
    if namespace:
        reference["namespace"] = namespace
    uid = member(metadata, "uid")
    return reference | ({"uid": uid} if isinstance(uid, str) and uid else {})
