from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.front_doors.engines import AllowingEngine, DenyingEngine, FailingEngine, HangingEngine
from support.front_doors.running import Door, open_door

PROBES = ["/livez", "/readyz", "/healthz"]
CHECKS = {"/livez": ["ping"], "/healthz": ["ping", "chain"], "/readyz": ["ping", "chain", "shutdown"]}


@pytest.mark.parametrize("path", PROBES)
def test_a_working_front_door_is_healthy(allowing: Door, path: str) -> None:
    answer = allowing.get(path)
    assert (answer.code, answer.text) == (200, "ok")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", PROBES)
def test_checks_are_listed_on_request(allowing: Door, path: str) -> None:
    lines = [*(f"[+]{check} ok" for check in CHECKS[path]), f"{path[1:]} check passed"]
    assert allowing.get(f"{path}?verbose").text.splitlines() == lines


@pytest.mark.parametrize("path", ["/readyz", "/healthz"])
def test_each_reason_for_not_being_ready_is_on_a_line(path: str) -> None:
    reasons = ("mutator: not serving", "validator: cannot be reached")
    with open_door(AllowingEngine(missing=reasons)) as door:
        answer, verbose = door.get(path), door.get(f"{path}?verbose")
    assert (answer.code, answer.text.splitlines()) == (503, list(reasons))
    assert verbose.code == 503
    assert [f"[-]chain failed: {reason}" for reason in reasons] == verbose.text.splitlines()[1:3]
    assert verbose.text.endswith(f"{path[1:]} check failed\n")


def test_liveness_does_not_depend_on_the_chain() -> None:
    with open_door(AllowingEngine(missing=("everything",))) as door:
        assert door.get("/livez").code == 200


def test_a_chain_that_does_not_respond_is_not_ready() -> None:
    class Silent(HangingEngine):
        async def unready(self) -> tuple[str, ...]:
            await self.conclude(self.asked[0][0])
            return ()

    engine = Silent()
    with open_door(engine) as door:
        door.post("/validate?timeout=10ms")
        answer = door.get("/readyz")
    assert (answer.code, answer.text) == (503, "the chain did not answer within 0.8 s")


def test_a_failing_page_returns_a_status() -> None:
    with open_door(FailingEngine()) as door:
        answer = door.get("/readyz")
    assert answer.code == 500
    assert answer.json["reason"] == "InternalError"
    assert "broken" not in answer.text


def test_the_version_has_the_shape_of_kubernetes(allowing: Door) -> None:
    version = allowing.get("/version").json
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")
    assert version["admissionReviewVersions"] == ["v1", "v1beta1"]
    assert version["platform"].startswith("linux/")


def test_the_index_lists_every_path_and_all_exist(allowing: Door) -> None:
    paths = allowing.get("/").json["paths"]
    assert paths == sorted(
        [
            "/admit",
            "/explain",
            "/healthz",
            "/livez",
            "/metrics",
            "/mutate",
            "/readyz",
            "/validate",
            "/version",
        ]
    )
    assert {allowing.get(path).code for path in paths} == {200, 405}


def test_head_returns_the_headers_of_get(allowing: Door) -> None:
    answer = allowing.request("HEAD", "/livez")
    assert (answer.code, answer.body) == (200, b"")


def test_metrics_count_requests_and_observe_decisions() -> None:
    with open_door(DenyingEngine()) as door:
        door.post("/validate")
        door.post("/validate", b"{")
        door.get("/no/such/path")
        door.get("/validate")
        answer = door.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    requests = "pratique_frontdoor_requests_total"
    assert found[requests, "200", "/validate"] == 1
    assert found[requests, "400", "/validate"] == 1
    assert found[requests, "405", "/validate"] == 1
    assert found[requests, "404", "other"] == 1
    assert found["pratique_frontdoor_request_duration_seconds_count", "/validate"] == 2
    controller = "apiserver_admission_controller_admission_duration_seconds_count"
    assert found[controller, "NamespaceLifecycle", "CREATE", "true", "validate"] == 1
    assert any(name[0] == "pratique_build_info" for name in found)
    assert any(name[0] == "process_resident_memory_bytes" for name in found)


def test_unknown_paths_create_no_time_series() -> None:
    with open_door(AllowingEngine()) as door:
        before = len(door.get("/metrics").text.splitlines())
        for number in range(20):
            door.get(f"/path/{number}")
            door.post(f"/validate?timeout={number + 1}s")
        after = len(door.get("/metrics").text.splitlines())
    assert after - before < 60
