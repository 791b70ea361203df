from __future__ import annotations

import json

import pytest

from pratique.apimachinery.json_values import JSON
from support.front_doors.reviews import review_body, review_document
from support.front_doors.running import JSON_TYPE, Answer, Door

NOT_FOUND = ("NotFound", "the server could not find the requested resource")
NOT_ALLOWED = ("MethodNotAllowed", "the server does not allow this method on the requested resource")
MEDIA_TYPE = (
    "UnsupportedMediaType",
    "the body of the request was in an unknown format - accepted media types include: application/json",
)
ENCODING = (
    "UnsupportedMediaType",
    "the body of the request was encoded - accepted content encodings include: identity",
)
UNREADABLE = "not an AdmissionReview that can be answered: "


def without(*path: str) -> bytes:
    """A review whose member of that path is missing."""
    document = review_document()
    parent = document
    for name in path[:-1]:
        parent = parent[name]
    del parent[path[-1]]
    return json.dumps(document).encode()


def timeout_error(complaint: str) -> tuple[str, str]:
    return "BadRequest", f"invalid timeout specified in the request URL - time: {complaint}"


def assert_refused(answer: Answer, code: int, reason: str, message: str) -> None:
    assert answer.code == code
    assert answer.headers["Content-Type"] == "application/json"
    assert "Retry-After" not in answer.headers
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON: Input data was truncated"),
        (b"{", "the body is not JSON: Input data was truncated"),
        (b"hello", "the body is not JSON: JSON is malformed: invalid character (byte 0)"),
        (b"kind: AdmissionReview", "the body is not JSON: JSON is malformed: invalid character (byte 0)"),
        (review_body() + b"x", "the body is not JSON: JSON is malformed: trailing characters (byte 609)"),
        (
            b"\xef\xbb\xbf" + review_body(),
            "the body is not JSON: JSON is malformed: invalid character (byte 0)",
        ),
        (review_body().decode().encode("utf-16"), "the body is not JSON: invalid UTF-8 at byte 0"),
        (
            review_body(name="\xff").replace(b"\\u00ff", b"\xff"),
            "the body is not JSON: invalid UTF-8 at byte 275",
        ),
        (b"null", f"{UNREADABLE}Expected `object`, got `null`"),
        (b"[]", f"{UNREADABLE}Expected `object`, got `array`"),
        (b'"AdmissionReview"', f"{UNREADABLE}Expected `object`, got `str`"),
        (b"{}", f"{UNREADABLE}Object missing required field `apiVersion`"),
        (without("kind"), f"{UNREADABLE}Object missing required field `kind`"),
        (without("request"), "the AdmissionReview has no request"),
        (
            review_body().replace(b'"request": {', b'"request": null, "was": {'),
            "the AdmissionReview has no request",
        ),
        (without("request", "uid"), "the AdmissionReview's request has no uid"),
        (review_body(uid=""), "the AdmissionReview's request has no uid"),
        (review_body(uid=7), f"{UNREADABLE}Expected `str`, got `int` - at `$.request.uid`"),
        (
            without("request", "operation"),
            f"{UNREADABLE}Object missing required field `operation` - at `$.request`",
        ),
        (without("request", "kind"), f"{UNREADABLE}Object missing required field `kind` - at `$.request`"),
        (
            without("request", "resource"),
            f"{UNREADABLE}Object missing required field `resource` - at `$.request`",
        ),
        (review_body(object=[]), f"{UNREADABLE}Expected `object | null` - at `$.request.object`"),
        (review_body(oldObject="x"), f"{UNREADABLE}Expected `object | null` - at `$.request.oldObject`"),
        (review_body(options=3), f"{UNREADABLE}Expected `object | null` - at `$.request.options`"),
        (
            review_body(dryRun="no"),
            f"{UNREADABLE}Expected `bool | null`, got `str` - at `$.request.dryRun`",
        ),
        (
            review_body(userInfo={"groups": "all"}),
            f"{UNREADABLE}Expected `array | null`, got `str` - at `$.request.userInfo.groups`",
        ),
        (
            review_body(object={}).replace(
                b'"object": {}', b'"object": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
            ),
            "the body is nested too deeply: it has more than 200 levels",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/validate", "/explain"])
def test_a_body_that_is_not_a_review_is_a_bad_request(
    allowing: Door, path: str, body: bytes, message: str
) -> None:
    assert_refused(allowing.post(path, body), 400, "BadRequest", message)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("timeout=10", timeout_error('missing unit in duration "10"')),
        ("timeout=soon", timeout_error('invalid duration "soon"')),
        ("timeout=10x", timeout_error('unknown unit "x" in duration "10x"')),
        ("timeout=%2010s", timeout_error('invalid duration " 10s"')),
        ("timeout=1e3s", timeout_error('unknown unit "e" in duration "1e3s"')),
        ("timeout=10&timeout=10s", timeout_error('missing unit in duration "10"')),
        (
            "phase=both",
            (
                "BadRequest",
                'phase: Unsupported value: "both": supported values: "admit", "mutate", "validate"',
            ),
        ),
        (
            "phase=",
            (
                "BadRequest",
                'phase: Unsupported value: "": supported values: "admit", "mutate", "validate"',
            ),
        ),
    ],
)
def test_an_invalid_query_is_a_bad_request(allowing: Door, query: str, problem: tuple[str, str]) -> None:
    assert_refused(allowing.post(f"/explain?{query}"), 400, *problem)


@pytest.mark.parametrize(
    ("method", "path", "code", "problem", "allow"),
    [
        ("GET", "/validate", 405, NOT_ALLOWED, "POST"),
        ("HEAD", "/admit", 405, None, "POST"),
        ("PUT", "/mutate", 405, NOT_ALLOWED, "POST"),
        ("PATCH", "/explain", 405, NOT_ALLOWED, "POST"),
        ("DELETE", "/admit", 405, NOT_ALLOWED, "POST"),
        ("OPTIONS", "/admit", 405, NOT_ALLOWED, "POST"),
        ("POST", "/readyz", 405, NOT_ALLOWED, "GET, HEAD"),
        ("POST", "/", 405, NOT_ALLOWED, "GET, HEAD"),
        ("GET", "/nothing", 404, NOT_FOUND, None),
        ("POST", "/validate/", 404, NOT_FOUND, None),
        ("POST", "/Validate", 404, NOT_FOUND, None),
        ("POST", "//validate", 404, NOT_FOUND, None),
        ("POST", "/validate/../admit", 404, NOT_FOUND, None),
        ("POST", "/validate%2f", 404, NOT_FOUND, None),
        ("POST", "/validate%00", 404, NOT_FOUND, None),
    ],
)
def test_only_known_paths_and_methods_are_served(  # noqa: PLR0917 - a table's columns
    allowing: Door, method: str, path: str, code: int, problem: tuple[str, str] | None, allow: str | None
) -> None:
    answer = allowing.request(method, path, review_body(), JSON_TYPE)
    assert answer.headers["Allow"] == allow
    if problem is None:
        assert (answer.code, answer.body) == (code, b"")
    else:
        assert_refused(answer, code, *problem)


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({}, MEDIA_TYPE),
        ({"Content-Type": ""}, MEDIA_TYPE),
        ({"Content-Type": "text/plain"}, MEDIA_TYPE),
        ({"Content-Type": "application/yaml"}, MEDIA_TYPE),
        ({"Content-Type": "application/jsonl"}, MEDIA_TYPE),
        ({"Content-Type": "application/x-www-form-urlencoded"}, MEDIA_TYPE),
        ({"Content-Type": "application/vnd.kubernetes.protobuf"}, MEDIA_TYPE),
        ({"Content-Type": "application/json; charset=utf-16"}, MEDIA_TYPE),
        ({"Content-Type": "application/json; charset=iso-8859-1"}, MEDIA_TYPE),
        ({"Content-Type": "json"}, MEDIA_TYPE),
        *(
            (JSON_TYPE | {"Content-Encoding": encoding}, ENCODING)
            for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip", "")
        ),
    ],
)
def test_a_body_in_another_format_has_an_unsupported_media_type(
    allowing: Door, headers: dict[str, str], problem: tuple[str, str]
) -> None:
    answer = allowing.request("POST", "/validate", review_body(), headers)
    assert_refused(answer, 415, *problem)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "application/json;charset=UTF-8"},
        {"Content-Type": 'application/json; charset="utf-8"'},
        {"Content-Type": "Application/JSON"},
        {"Content-Type": "application/json ; version=1"},
        JSON_TYPE | {"Content-Encoding": "identity"},
    ],
)
def test_every_spelling_of_the_json_media_type_is_accepted(allowing: Door, headers: dict[str, str]) -> None:
    assert allowing.request("POST", "/validate", review_body(), headers).code == 200


@pytest.mark.parametrize("value", ["\ud800", float("nan"), float("inf")])
def test_json_extensions_of_python_are_a_bad_request(allowing: Door, value: JSON) -> None:
    answer = allowing.post("/validate", review_body(object={"a": value}))
    assert answer.code == 400
    assert answer.json["message"].startswith("the body is not JSON: ")
