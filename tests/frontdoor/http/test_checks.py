"""What a front door proves to have checked of a review, and what it leaves to its services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_reading import LARGE_BYTES
from pratique.apimachinery.json_values import MIN_PROVED_BYTES
from pratique.processes.large_texts import SEPARATE_PROCESS_BYTES
from pratique.rpc.check_digests import CheckDigests
from pratique_frontdoor.chain.decisions import Decision, OutageError
from pratique_frontdoor.recording.recorders import open_recorder
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine
from support.front_doors.reviews import review_body, review_body_of, review_document
from support.front_doors.running import Door, open_door
from support.hostile_json import HOSTILE

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


class CallingEngine(AllowingEngine):
    """Allows what its services can read; they may say that they have checked it."""

    calls_services = True
    services_check = True
    service_fails = False
    unchecked: int = 0

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        self.unchecked += review.is_unchecked
        if self.service_fails:
            raise OutageError(Phase.VALIDATE, "refused", "the validators cannot be asked")
        if self.services_check:
            for document in review.documents:
                document.checked_elsewhere()
        return await super().decide(review, phases, deadline, explain=explain)


@pytest.fixture(name="shared", scope="module")
def _shared() -> Iterator[tuple[CallingEngine, Door]]:
    """A front door for all tests of one, and its engine."""
    engine = CallingEngine()
    with open_door(engine) as door:
        yield engine, door


@pytest.fixture(name="engine")
def _engine(shared: tuple[CallingEngine, Door]) -> CallingEngine:
    """The engine as if it were new."""
    engine, _ = shared
    vars(engine).clear()
    vars(engine).update(vars(CallingEngine()))
    return engine


@pytest.fixture(name="door")
def _door(shared: tuple[CallingEngine, Door]) -> Door:
    return shared[1]


def written(raw: bytes, size: int = MIN_PROVED_BYTES) -> bytes:
    """A review with an object of that size, as an API server writes it."""
    body = json.dumps(review_document(object="-the object-"), separators=(",", ":")).encode()
    return body.replace(b'"-the object-"', b'{"x":"%s",%s' % (b"x" * size, raw[1:]))


PATHS = ["/validate", "/mutate", "/admit", "/explain"]
TWICE = HOSTILE["a member twice"][0]


@pytest.mark.parametrize("size", [MIN_PROVED_BYTES, LARGE_BYTES])
@pytest.mark.parametrize("path", PATHS)
def test_what_a_service_has_checked_is_decided(
    door: Door, engine: CallingEngine, path: str, size: int
) -> None:
    assert door.post(path, written(b'{"a":1}', size)).code == 200
    assert engine.unchecked == 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("problem", HOSTILE)
def test_what_no_service_has_checked_is_checked_before_it_is_answered(
    door: Door, engine: CallingEngine, path: str, problem: str
) -> None:
    engine.services_check = False
    answer = door.post(path, written(HOSTILE[problem][0]))
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"].startswith(f"the body {HOSTILE[problem][1]}".partition(" byte ")[0])


def test_an_outage_because_of_a_bad_object_is_a_bad_request(door: Door, engine: CallingEngine) -> None:
    engine.service_fails = True
    assert door.post("/validate", written(b'{"a":1}')).code == 503
    answer = door.post("/validate", written(TWICE))
    assert (answer.code, engine.unchecked) == (400, 2)
    assert answer.json["message"].startswith("the body holds a member twice")


def test_objects_that_a_recorder_reads_are_checked_first(tmp_path: Path) -> None:
    engine = CallingEngine()
    recorder = open_recorder(FrontDoorSettings(record=tmp_path / "reviews.jsonl"))
    with open_door(engine, recorder=recorder) as door:
        assert door.post("/validate", written(b'{"a":1}')).code == 200
        assert door.post("/validate", written(TWICE)).code == 400
    assert recorder is not None
    recorder.close()
    assert (engine.unchecked, len(engine.asked)) == (0, 1)


def test_objects_that_this_process_decides_on_are_checked_first() -> None:
    engine = AllowingEngine()
    with open_door(engine) as door:
        assert door.post("/validate", written(TWICE)).code == 400
    assert not engine.asked
