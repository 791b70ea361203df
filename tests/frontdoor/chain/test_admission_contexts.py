"""The state that passes from stage to stage: the current object, and what has happened so far."""

from __future__ import annotations

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.matching import compile_selector_or_status
from pratique.admission.reviews import Deadline
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.selectors import LabelSelector
from pratique_frontdoor.chain.decisions import AdmissionContext, OutageError, Record
from support.chains import POD, pod_review

DENIAL = statuses.bad_request("no")
OTHER_DENIAL = statuses.bad_request("not this either")


def context() -> AdmissionContext:
    return AdmissionContext(pod_review(), Deadline.after(30))


def test_selectors_match_the_current_object() -> None:
    ongoing, selector = context(), compile_selector_or_status(LabelSelector(match_labels={"app": "web"}))
    assert ongoing.match_context.selects_object(selector) is True
    ongoing.change_object(Document.from_data(POD | {"metadata": {"labels": {"app": "other"}}}))
    assert ongoing.match_context.selects_object(selector) is False


def test_an_unchanged_object_is_prepared_for_selectors_once() -> None:
    ongoing = context()
    assert ongoing.match_context is ongoing.match_context


def test_records_are_merged_in_the_given_order() -> None:
    record = Record()
    record.merge(
        [Record(denials=[DENIAL], warnings=["a"]), Record(denials=[OTHER_DENIAL], warnings=["b", "a"])]
    )
    assert (record.denials, record.warnings) == ([DENIAL, OTHER_DENIAL], ["a", "b", "a"])


def test_an_audit_annotation_keeps_its_first_value() -> None:
    record = Record(audit_annotations={"a/b": "first"})
    record.merge([Record(audit_annotations={"a/b": "second", "a/c": "other"})])
    assert record.audit_annotations == {"a/b": "first", "a/c": "other"}


def test_an_outage_counts_only_without_a_denial() -> None:
    outage = OutageError.timeout(Phase.VALIDATE)
    Record().raise_outage_unless_denied()
    Record(denials=[DENIAL], outages=[outage]).raise_outage_unless_denied()
    with pytest.raises(OutageError, match="the validators did not answer in time"):
        Record(outages=[outage, OutageError.late(Phase.VALIDATE)]).raise_outage_unless_denied()


@pytest.mark.parametrize(
    ("outage", "service", "cause", "code"),
    [
        (OutageError.timeout(Phase.MUTATE), "mutator", "timeout", 504),
        (OutageError.late(Phase.VALIDATE), "validator", "late", 504),
        (OutageError.mismatch(Phase.MUTATE, "LimitRanger"), "mutator", "mismatch", 503),
    ],
)
def test_an_outage_names_the_service_and_the_cause(
    outage: OutageError, service: str, cause: str, code: int
) -> None:
    assert (outage.service, outage.cause, outage.status.code) == (service, cause, code)
