"""Certificates that the servers of webhooks present, if the cluster holds them."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from support.lint_findings import findings_of, service, validating, webhook, write

CA, OTHER_CA = trustme.CA(), trustme.CA()
NAME = "hook.hooks.svc"
GOOD = CA.issue_cert(NAME)
MISNAMED = ["serving-certificate-misnamed"]
DAY = 24 * 60 * 60
NOW = dt.datetime.now(dt.UTC).timestamp()
RULES = {f"serving-certificate-{item}" for item in ("misnamed", "untrusted", "expired", "expires-soon")}


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def secret(certificate: trustme.LeafCert, name: str = "pair", **fields: object) -> JSONObject:
    """A Secret with a certificate and those that come with it."""
    pem = b"".join(cert_chain_pem.bytes() for cert_chain_pem in certificate.cert_chain_pems)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "hooks"},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": encoded(pem), "tls.key": ""},
        **fields,
    }


def server(*secrets: str) -> list[JSONObject]:
    """A Service, and a Deployment behind it that mounts the Secrets."""
    volumes = [{"name": item, "secret": {"secretName": item}} for item in secrets]
    template = {"metadata": {"labels": {"app": "hook"}}, "spec": {"containers": [], "volumes": volumes}}
    of = {"namespace": "hooks"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "hook", **of},
            "spec": {"selector": {"app": "hook"}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "server", **of},
            "spec": {"template": template},
        },
    ]


def rules_of(
    tmp_path: Path, *objects: JSONObject, pem: bytes = CA.cert_pem.bytes(), now: float = NOW
) -> list[str]:
    client = {**service("hooks"), "caBundle": encoded(pem)} if pem else service("hooks")
    path = write(tmp_path, [validating(webhook(clientConfig=client))])
    return [finding.lint_rule.name for finding in findings_of(path, ObjectStore(objects), RULES, now)]


def test_a_good_certificate_has_no_findings(tmp_path: Path) -> None:
    assert rules_of(tmp_path, secret(GOOD)) == []
    assert rules_of(tmp_path, secret(GOOD), *server("pair")) == []
    assert (
        rules_of(
            tmp_path, secret(GOOD, data={}, stringData={"tls.crt": GOOD.cert_chain_pems[0].bytes().decode()})
        )
        == []
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (NAME, []),
        ("*.hooks.svc", []),
        ("hook.hooks.svc.cluster.local", MISNAMED),
        ("hook.hooks", MISNAMED),
        ("hook", MISNAMED),
        ("*.svc", MISNAMED),
    ],
)
def test_the_certificate_must_name_the_service(name: str, found: list[str], tmp_path: Path) -> None:
    assert rules_of(tmp_path, secret(CA.issue_cert(name))) == found


def test_the_common_name_does_not_count(tmp_path: Path) -> None:
    certificate = CA.issue_cert("else.example.com", common_name=NAME)
    assert rules_of(tmp_path, secret(certificate)) == MISNAMED


def test_the_certificate_must_be_signed_by_the_bundle(tmp_path: Path) -> None:
    assert rules_of(tmp_path, secret(GOOD), pem=OTHER_CA.cert_pem.bytes()) == [
        "serving-certificate-untrusted"
    ]
    both = OTHER_CA.cert_pem.bytes() + CA.cert_pem.bytes()
    assert rules_of(tmp_path, secret(GOOD), pem=both) == []


def test_without_a_bundle_trust_is_not_checked(tmp_path: Path) -> None:
    assert rules_of(tmp_path, secret(GOOD), pem=b"") == []


def test_intermediate_authorities_come_with_the_certificate(tmp_path: Path) -> None:
    between = CA.create_child_ca()
    certificate = between.issue_cert(NAME)
    assert rules_of(tmp_path, secret(certificate)) == []
    alone = {"tls.crt": encoded(certificate.cert_chain_pems[0].bytes())}
    assert rules_of(tmp_path, secret(certificate, data=alone)) == ["serving-certificate-untrusted"]


def test_a_server_certificate_cannot_sign_another(tmp_path: Path) -> None:
    """The bundle holds a certificate of the same authority, but not the authority."""
    leaf = CA.issue_cert("else.example.com").cert_chain_pems[0].bytes()
    assert rules_of(tmp_path, secret(GOOD), pem=leaf) == ["serving-certificate-untrusted"]
    assert rules_of(tmp_path, secret(GOOD), pem=GOOD.cert_chain_pems[0].bytes()) == []


@pytest.mark.parametrize(
    ("days", "found"),
    [(31, []), (29, ["serving-certificate-expires-soon"]), (-1, ["serving-certificate-expired"])],
)
def test_a_certificate_is_reported_before_it_expires(days: int, found: list[str], tmp_path: Path) -> None:
    end = x509.load_pem_x509_certificate(GOOD.cert_chain_pems[0].bytes()).not_valid_after_utc
    assert rules_of(tmp_path, secret(GOOD), now=end.timestamp() - days * DAY) == found


def test_one_matching_certificate_of_several_is_enough(tmp_path: Path) -> None:
    other = secret(OTHER_CA.issue_cert("else.example.com"), name="other")
    assert rules_of(tmp_path, other, secret(GOOD)) == []
    assert rules_of(tmp_path, other, secret(GOOD), *server("other", "pair")) == []
    assert rules_of(tmp_path, other, secret(GOOD), *server("other")) == MISNAMED


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "Opaque"},
        {"data": {}},
        {"data": {"tls.crt": "*"}},
        {"data": {"tls.crt": encoded(b"none")}},
        {"data": 1},
    ],
)
def test_secrets_without_a_certificate_are_ignored(fields: JSONObject, tmp_path: Path) -> None:
    assert rules_of(tmp_path, secret(CA.issue_cert("wrong"), **fields)) == []
