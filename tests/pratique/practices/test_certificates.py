"""Certificate authorities that have expired or will soon."""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from practising import findings_of, validating, webhook, write

if TYPE_CHECKING:
    from pathlib import Path

MONTH = 30 * 24 * 60 * 60


def end_of(pem: bytes) -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=pem.decode())
    return ssl.cert_time_to_seconds(str(context.get_ca_certs()[0]["notAfter"]))


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
def test_a_certificate_authority_is_renewed_in_time(until_end: int, found: list[str], tmp_path: Path) -> None:
    pem = trustme.CA().cert_pem.bytes()
    bundle = base64.b64encode(pem).decode()
    config = validating(webhook(clientConfig={"url": "https://hooks.example.com", "caBundle": bundle}))
    path = write(tmp_path, [config])
    findings = findings_of(path, now=end_of(pem) - until_end)
    assert [finding.practice.rule for finding in findings] == found
