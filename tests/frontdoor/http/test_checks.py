"""What a front door proves to have checked of a review."""

from __future__ import annotations

from pathlib import Path

import pytest

from pratique.apimachinery.json_reading import LARGE_BYTES
from pratique.apimachinery.json_values import MIN_PROVED_BYTES
from pratique.processes.large_texts import SEPARATE_PROCESS_BYTES
from pratique.rpc.check_digests import CheckDigests
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine
from support.front_doors.reviews import review_body, review_body_of
from support.front_doors.running import open_door

KEY = b"k" * 32


def digest_and_text(settings: FrontDoorSettings, body: bytes) -> tuple[bytes, bytes]:
    """The object's proof and text as the engine gets them."""
    engine = AllowingEngine()
    with open_door(engine, settings) as door:
        assert door.post("/validate", body).code == 200
    document = engine.asked[0][0].object_document
    return document.check_digest, document.raw


def with_key(folder: Path) -> FrontDoorSettings:
    key = folder / "key"
    key.write_bytes(KEY)
    return FrontDoorSettings(checks_key_file=key)


@pytest.mark.parametrize("size", [MIN_PROVED_BYTES + 4096, LARGE_BYTES + 4096, SEPARATE_PROCESS_BYTES + 4096])
def test_a_front_door_with_a_key_proves_what_it_checked(size: int, tmp_path: Path) -> None:
    digest, raw = digest_and_text(with_key(tmp_path), review_body_of(size))
    assert len(raw) > MIN_PROVED_BYTES
    assert CheckDigests(KEY).proves(digest, raw)


def test_a_front_door_with_a_client_certificate_proves_what_it_checked(tmp_path: Path) -> None:
    settings = FrontDoorSettings(services_cert_file=tmp_path / "tls.crt")
    assert CheckDigests().proves(*digest_and_text(settings, review_body_of(MIN_PROVED_BYTES + 4096)))


def test_a_front_door_that_no_service_would_believe_proves_nothing() -> None:
    assert digest_and_text(FrontDoorSettings(), review_body_of(MIN_PROVED_BYTES + 4096))[0] == b""


def test_short_objects_are_not_worth_a_proof(tmp_path: Path) -> None:
    assert digest_and_text(with_key(tmp_path), review_body())[0] == b""
