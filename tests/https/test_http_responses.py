from __future__ import annotations

import json

import pytest

from pratique.apimachinery.errors import BadAnswerError
from pratique.https.requests import HttpResponse, response_body


def refusal(status: int, body: bytes = b"boom", content_type: str = "text/plain") -> str:
    with pytest.raises(BadAnswerError) as raised:
        response_body(HttpResponse(status=status, body=body, content_type=content_type))
    return str(raised.value)


@pytest.mark.parametrize("status", [101, 200, 201, 202, 203, 205, 206])
@pytest.mark.parametrize(
    "content_type", ["", "application/json", "text/html; charset=utf-8", "x", "image/png"]
)
def test_a_response_is_read_whatever_its_content_type(status: int, content_type: str) -> None:
    assert response_body(HttpResponse(status=status, body=b"{}", content_type=content_type)) == b"{}"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "the server rejected our request for an unknown reason"),
        (401, "the server has asked for the client to provide credentials"),
        (403, "boom"),
        (404, "the server could not find the requested resource"),
        (405, "the server does not allow this method on the requested resource"),
        (406, "boom"),
        (409, "the server reported a conflict"),
        (415, "boom"),
        (422, "the server rejected our request due to an error in our request"),
        (429, "the server has received too many requests and has asked us to try again later"),
        (500, 'an error on the server ("boom") has prevented the request from succeeding'),
        (502, 'an error on the server ("boom") has prevented the request from succeeding'),
        (503, "the server is currently unable to handle the request"),
        (
            504,
            (
                "the server was unable to return a response in the time allotted, "
                "but may still be processing the request"
            ),
        ),
        (599, 'an error on the server ("boom") has prevented the request from succeeding'),
        (207, "the server responded with the status code 207 but did not return more information"),
        (300, "the server responded with the status code 300 but did not return more information"),
        (304, "the server responded with the status code 304 but did not return more information"),
        (402, "the server responded with the status code 402 but did not return more information"),
        (418, "the server responded with the status code 418 but did not return more information"),
    ],
)
def test_a_failure_is_explained_by_its_code(status: int, text: str) -> None:
    assert refusal(status) == text


@pytest.mark.parametrize(
    ("body", "content_type", "shown"),
    [
        (b"boom\n", "", "boom"),
        (b" boom ", "text/html; charset=utf-8", "boom"),
        (b"boom", "TEXT/plain", "boom"),
        (b"boom", "application/json", "unknown"),
        (b"", "text/plain", ""),
        (b"a\nb", "text/plain", "a\\nb"),
        (b'say "no"', "text/plain", 'say \\"no\\"'),
        (b"x" * 3000, "text/plain", "x" * 2048),
    ],
)
def test_only_a_text_body_is_shown(body: bytes, content_type: str, shown: str) -> None:
    text = f'an error on the server ("{shown}") has prevented the request from succeeding'
    assert refusal(500, body, content_type) == text


@pytest.mark.parametrize("body", [b"", b" "])
def test_an_unacceptable_type_without_a_text_is_explained(body: bytes) -> None:
    text = "the server was unable to respond with a content type that the client supports"
    assert refusal(406, body) == refusal(406, b"{}", "application/json") == text


@pytest.mark.parametrize("status", [300, 400, 404, 500, 503])
@pytest.mark.parametrize("api_version", ["v1", "", None])
def test_a_status_in_the_body_takes_precedence_over_the_code(status: int, api_version: str | None) -> None:
    told = {"kind": "Status", "apiVersion": api_version, "status": "Failure", "message": "no: full"}
    assert refusal(status, json.dumps(told).encode(), "application/json") == "no: full"


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"Status","apiVersion":"v1","status":"Success","message":"m"}',
        b'{"kind":"Status","apiVersion":"v2","status":"Failure","message":"m"}',
        b'{"kind":"Other","apiVersion":"v1","status":"Failure","message":"m"}',
        b'{"status":"Failure","message":"m"}',
        b'{"kind":"Status","status":"Failure","message":1}',
        b'{"kind":"Status"',
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b"[]",
    ],
    ids=lambda body: body[:40],
)
def test_a_body_that_is_no_failure_status_is_ignored(body: bytes) -> None:
    assert refusal(404, body) == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("content_type", "shown"),
    [("", "application/json"), ("text/plain", "text/plain"), ("text/x; a=b", "text/x; a=b")],
)
def test_an_empty_response_is_an_error(content_type: str, shown: str) -> None:
    expected = f"0-length response with status code: 200 and content type: {shown}"
    assert refusal(200, b"", content_type) == expected


@pytest.mark.parametrize("status", [200, 500])
def test_a_malformed_content_type_is_refused_first(status: int) -> None:
    expected = "Internal error occurred: mime: expected token after slash"
    assert refusal(status, b"{}", "application/") == expected


@pytest.mark.parametrize(
    ("status", "retry_after", "seconds"),
    [
        (429, "1", 1),
        (503, "0", 0),
        (500, "+2", 2),
        (599, "-5", 0),
        (429, "", None),
        (429, "soon", None),
        (429, "1.5", None),
        (429, "\u0661", None),
        (429, "Wed, 21 Oct 2015 07:28:00 GMT", None),
        (400, "1", None),
        (200, "1", None),
    ],
)
def test_only_a_retryable_response_with_retry_after_is_retried(
    status: int, retry_after: str, seconds: int | None
) -> None:
    answer = HttpResponse(status=status, body=b"", retry_after=retry_after)
    assert answer.retry_seconds == seconds
