"""Status objects in the words of ``k8s.io/apimachinery/pkg/api/errors``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import FieldPath, invalid, required
from pratique.apimachinery.kinds import GroupVersionResource

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON
    from pratique.apimachinery.statuses import Status

NAME = FieldPath(("metadata", "name"))


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        (statuses.forbidden("", "pods", "p", "no"), 403, "Forbidden", 'pods "p" is forbidden: no'),
        (
            statuses.forbidden("apps", "deployments", "", "no"),
            403,
            "Forbidden",
            "deployments.apps is forbidden: no",
        ),
        (statuses.forbidden("", "", "p", "no"), 403, "Forbidden", "forbidden: no"),
        (
            statuses.not_found("apps", "deployments", "d"),
            404,
            "NotFound",
            'deployments.apps "d" not found',
        ),
        (statuses.bad_request("bad"), 400, "BadRequest", "bad"),
        (statuses.internal_error("x"), 500, "InternalError", "Internal error occurred: x"),
        (statuses.plain_error("x"), 500, "", "x"),
        (statuses.timeout("x"), 504, "Timeout", "Timeout: x"),
        (statuses.service_unavailable("x"), 503, "ServiceUnavailable", "x"),
    ],
)
def test_a_status_is_worded_as_in_kubernetes(status: Status, code: int, reason: str, message: str) -> None:
    assert (status.status, status.code, status.reason, status.message) == ("Failure", code, reason, message)


def test_an_invalid_object_has_a_cause_per_error() -> None:
    status = statuses.invalid("apps", "Deployment", "d", [required(NAME, "why"), invalid(NAME, "x", "no")])
    assert status.code == 422
    assert status.message == (
        'Deployment.apps "d" is invalid: [metadata.name: Required value: why, metadata.name: Invalid value: "x": no]'
    )
    assert status.details is not None
    assert [(cause.reason, cause.field) for cause in status.details.causes] == [
        ("FieldValueRequired", "metadata.name"),
        ("FieldValueInvalid", "metadata.name"),
    ]


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("given", {"metadata": {"name": "other"}}, "given"),
        ("", {"metadata": {"name": "own", "generateName": "g-"}}, "own"),
        ("", {"metadata": {"generateName": "g-"}}, "g-"),
        ("", {"metadata": {}}, "Unknown"),
        ("", {"metadata": 3}, "Unknown"),
        ("", None, "Unknown"),
    ],
)
def test_an_object_is_named_as_far_as_it_has_a_name(name: str, document: JSON, expected: str) -> None:
    resource = GroupVersionResource("", "v1", "pods")
    request = SimpleNamespace(name=name, object=document, resource=resource)
    status = statuses.admission_forbidden(request, "no")
    assert status.message == f'pods "{expected}" is forbidden: no'


@pytest.mark.parametrize(
    ("reason", "code", "expected"),
    [("Timeout", 504, True), ("Timeout", 1, True), ("", 504, True), ("Odd", 504, True), ("Gone", 504, False)],
)
def test_a_known_reason_counts_more_than_the_code(reason: str, code: int, *, expected: bool) -> None:
    assert statuses.has_reason(statuses.failure(code, reason, ""), 504, "Timeout") is expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [(["a"], "a"), (["a", "a"], "a"), (["a", "b", "a"], "[a, b]"), (["b", "a"], "[b, a]")],
)
def test_errors_are_aggregated_without_duplicates(texts: list[str], expected: str) -> None:
    assert statuses.aggregate(texts) == expected


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('say "hi"\\', r'"say \"hi\"\\"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x7f", r'"\x00\x7f"'),
        ("é☃", '"é☃"'),
        ("\u200b\ue000", r'"\u200b\ue000"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_a_text_is_quoted_as_by_go(text: str, quoted: str) -> None:
    assert statuses.go_quoted(text) == quoted


def test_a_status_document_has_kind_and_version() -> None:
    assert statuses.to_document(statuses.bad_request("x")) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "x",
        "reason": "BadRequest",
        "code": 400,
    }
