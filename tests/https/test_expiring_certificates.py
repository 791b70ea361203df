"""Warnings about certificates that expire soon, and about files that became unusable."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest

from pratique.https.tls import EXPIRY_WARNING_SECONDS, ReloadedCertificate, keep_certificates_fresh
from support.waiting import until


def number_in(file: Path) -> int:
    return int(file.read_text())


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    file = tmp_path / "number"
    file.write_text("1")
    return file


def test_an_unusable_certificate_warns_until_it_is_usable(file: Path) -> None:
    certificate = ReloadedCertificate("number", lambda: number_in(file), (file,))
    file.write_text("no number")
    asyncio.run(certificate.refresh())
    assert certificate.warning() == "number kept, the new one cannot be used"
    file.write_text("1")
    asyncio.run(certificate.refresh())
    assert not certificate.warning()


@pytest.mark.parametrize(
    ("left", "warned"),
    [
        (EXPIRY_WARNING_SECONDS + 60, ""),
        (EXPIRY_WARNING_SECONDS - 60, "number ends "),
        (-60, "number ended "),
    ],
)
def test_a_certificate_that_expires_within_a_week_warns(file: Path, left: float, warned: str) -> None:
    end = time.time() + left
    certificate = ReloadedCertificate("number", lambda: number_in(file), (file,), ends_at=lambda _: end)
    assert certificate.ends_at == end
    assert certificate.warning().startswith(warned)
    assert bool(certificate.warning()) is bool(warned)


def test_an_expiring_certificate_is_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate = ReloadedCertificate(
        "number", lambda: number_in(file), (file,), ends_at=lambda _: time.time() + 60
    )

    async def warned() -> bool:
        return "certificate to be renewed" in caplog.messages

    async def run() -> None:
        watching = asyncio.ensure_future(keep_certificates_fresh([certificate]))
        await until(120, warned)
        watching.cancel()
        await asyncio.wait([watching])

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
