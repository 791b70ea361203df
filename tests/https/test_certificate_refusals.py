from __future__ import annotations

import datetime as dt

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.https.tls_contexts import refusal_text

NOW = dt.datetime(2030, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
UNKNOWN_ISSUER, BAD_PURPOSE = 20, 26


def certificate(*names: tuple[str, str], **changes: JSON) -> JSONObject:
    return {
        "subject": ((("commonName", "hook.shop.svc"),),),
        "notBefore": "Jan  1 00:00:00 2030 GMT",
        "notAfter": "Jan  1 00:00:00 2031 GMT",
        "subjectAltName": names,
        **changes,
    }


HOOK = certificate(("DNS", "hook.shop.svc"))


def refused(peer: JSONObject, host: str = "hook.shop.svc", code: int = UNKNOWN_ISSUER) -> str:
    return refusal_text(peer, host, code, NOW)


@pytest.mark.parametrize(
    ("peer", "host", "text"),
    [
        (
            certificate(("DNS", "a.svc"), ("DNS", "b.svc")),
            "hook.shop.svc",
            "certificate is valid for a.svc, b.svc, not hook.shop.svc",
        ),
        (
            certificate(("DNS", "*.shop.svc")),
            "a.b.shop.svc",
            "certificate is valid for *.shop.svc, not a.b.shop.svc",
        ),
        (
            certificate(("IP Address", "10.0.0.1"), ("URI", "x")),
            "hook.shop.svc",
            "certificate is not valid for any names, but wanted to match hook.shop.svc",
        ),
        (certificate(), "hook.shop.svc", "certificate relies on legacy Common Name field, use SANs instead"),
        (
            certificate(),
            "other.shop.svc",
            "certificate is not valid for any names, but wanted to match other.shop.svc",
        ),
        (
            certificate(("DNS", "hook.shop.svc")),
            "10.0.0.1",
            "cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            certificate(("IP Address", "10.0.0.2"), ("IP Address", "FD00:0:0:0:0:0:0:1\n")),
            "10.0.0.1",
            "certificate is valid for 10.0.0.2, fd00::1, not 10.0.0.1",
        ),
        (
            certificate(*[("DNS", f"n{number}") for number in range(100)]),
            "hook.shop.svc",
            "certificate is valid for 100 names, but none matched hook.shop.svc",
        ),
        (
            certificate(*[("IP Address", f"10.0.1.{number}") for number in range(100)]),
            "10.0.0.1",
            "certificate is valid for 100 IP SANs, but none matched 10.0.0.1",
        ),
    ],
)
def test_a_certificate_for_another_name_is_refused_with_its_names(
    peer: JSONObject, host: str, text: str
) -> None:
    assert refused(peer, host) == f"x509: {text}"


@pytest.mark.parametrize(
    ("names", "host"),
    [
        ([("DNS", "hook.shop.svc")], "hook.shop.svc"),
        ([("DNS", "HOOK.shop.svc")], "hook.SHOP.svc"),
        ([("DNS", "hook.shop.svc")], "hook.shop.svc."),
        ([("DNS", "*.shop.svc")], "hook.shop.svc"),
        ([("IP Address", "10.0.0.1")], "10.0.0.1"),
        ([("IP Address", "0:0:0:0:0:0:0:1")], "::1"),
    ],
)
def test_a_certificate_with_the_right_name_is_refused_for_its_issuer(
    names: list[tuple[str, str]], host: str
) -> None:
    assert refused(certificate(*names), host) == "x509: certificate signed by unknown authority"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"notAfter": "May  6 07:08:08 2030 GMT"},
            "current time 2030-05-06T07:08:09Z is after 2030-05-06T07:08:08Z",
        ),
        (
            {"notBefore": "May  6 07:08:10 2030 GMT"},
            "current time 2030-05-06T07:08:09Z is before 2030-05-06T07:08:10Z",
        ),
    ],
)
def test_an_expired_certificate_is_refused_before_its_name_is_checked(changes: JSONObject, text: str) -> None:
    expected = f"x509: certificate has expired or is not yet valid: {text}"
    assert refused(certificate(("DNS", "other"), **changes)) == expected


def test_a_certificate_for_another_use_is_refused() -> None:
    assert refused(HOOK, code=BAD_PURPOSE) == "x509: certificate specifies an incompatible key usage"


def test_an_unreadable_certificate_counts_as_signed_by_an_unknown_authority() -> None:
    assert refused({}) == "x509: certificate signed by unknown authority"
