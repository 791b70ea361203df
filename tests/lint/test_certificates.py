"""Certificate authorities that have expired or will soon."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import trustme
from cryptography.x509 import load_pem_x509_certificate

from support.lint_findings import findings_of, validating, webhook, write

MONTH = 30 * 24 * 60 * 60


def end_of(pem: bytes) -> float:
    return load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


@pytest.mark.parametrize(
    ("until_end", "found"),
    [
        (MONTH + 1, []),
        (MONTH, ["ca-bundle-expires-soon"]),
        (1, ["ca-bundle-expires-soon"]),
        (0, ["ca-bundle-expired"]),
        (-MONTH, ["ca-bundle-expired"]),
    ],
)
def test_an_authority_is_reported_before_it_expires(until_end: int, found: list[str], tmp_path: Path) -> None:
    pem = trustme.CA().cert_pem.bytes()
    bundle = base64.b64encode(pem).decode()
    config = validating(webhook(clientConfig={"url": "https://hooks.example.com", "caBundle": bundle}))
    path = write(tmp_path, [config])
    findings = findings_of(path, now=end_of(pem) - until_end)
    assert [finding.lint_rule.name for finding in findings] == found


def bundle_rules(pem: bytes, tmp_path: Path, now: float) -> list[str]:
    bundle = base64.b64encode(pem).decode()
    config = validating(webhook(clientConfig={"url": "https://hooks.example.com", "caBundle": bundle}))
    return [finding.lint_rule.name for finding in findings_of(write(tmp_path, [config]), now=now)]


def test_an_authority_that_is_not_yet_valid_is_an_error(tmp_path: Path) -> None:
    pem = trustme.CA().cert_pem.bytes()
    begin = load_pem_x509_certificate(pem).not_valid_before_utc.timestamp()
    assert bundle_rules(pem, tmp_path, begin - 1) == ["ca-bundle-expired"]
    assert bundle_rules(pem, tmp_path, begin) == []


def test_unreadable_blocks_beside_a_certificate_are_ignored(tmp_path: Path) -> None:
    pem = trustme.CA().cert_pem.bytes()
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    now = end_of(pem) - MONTH - 1
    assert bundle_rules(broken + pem, tmp_path, now) == []
    assert bundle_rules(broken, tmp_path, now) == ["ca-bundle-unreadable"]
