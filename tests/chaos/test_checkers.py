"""The checker finds every fault: histories with one fault each, and one without."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.chains import FIRST, SECOND, ticket
from chaos.checkers import Availability, availability, violations
from chaos.evidence import RECOVERY_SECONDS, SWAP_SECONDS, Evidence
from chaos.growths import MORE_CHILDREN, MORE_DESCRIPTORS, MORE_KIB
from chaos.histories import (
    SILENCE,
    Answered,
    Asked,
    Began,
    Counted,
    Event,
    Failed,
    Struck,
    Waited,
    read_history,
    write_history,
)
from chaos.invariants import GRACE_SECONDS
from chaos.oracles import Oracle, Right, open_oracle
from chaos.schedules import DOOR, MUTATORS, SWAP
from chaos.workloads import Request, Workload

SEED = 1
WORKLOAD = Workload(SEED)
BEGAN = Began(SEED, 60, 25)
STRIKE = Struck(1, 2, "pause", MUTATORS[0])
COUNTED = Counted(0, DOOR, 7, descriptors=20, threads=10, tasks=5, children=0, resident_kib=90_000)
REFUSAL = {"code": 403, "message": "not today"}
FAILURE = {
    "code": 500,
    "message": 'Internal error occurred: admission controller "Chaperone" failed: raised RuntimeError',
}
OUTAGE = {
    "code": 500,
    "message": 'Internal error occurred: failed calling admission controller "Priority": rpc error: code = Unavailable',
}
STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503}
SEEN = {"/mutate": ("mutated",), "/validate": ("judged",), "/admit": ("mutated", "judged")}


@pytest.fixture(name="oracle", scope="module")
def _oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with open_oracle(tmp_path_factory.mktemp("oracle")) as oracle:
        yield oracle


@dataclasses.dataclass(frozen=True)
class Scene:
    """A request of a certain kind, and its right answer."""

    request: Request
    right: Right

    def asked(self, at: float = 10) -> Asked:
        scenario = self.request
        return Asked(at, scenario.number, scenario.path, scenario.uid, scenario.timeout)

    def answered(self, at: float = 10.1, code: int = 200, **response: Any) -> Answered:
        """The right answer, with given changes."""
        right: dict[str, Any] = {"uid": self.request.uid, "allowed": self.right.allowed}
        right["auditAnnotations"] = self.seen()
        if self.right.allowed:
            right |= patch_of(self.request, self.right.object)
        else:
            right["status"] = {"code": self.right.code, "message": self.right.message}
        body = {"response": right | response} if code == 200 else STATUS | {"code": code}
        return Answered(at, self.request.number, code, json.dumps(body))

    def seen(self) -> dict[str, str]:
        """The chaperone's annotation for it."""
        written = ticket(self.request.uid, self.request.body["request"]["name"])
        return {f"chaperone_{phase}": written for phase in SEEN[self.request.path]}


def patch_of(request: Request, made: Any) -> dict[str, str]:
    if made == request.body["request"]["object"]:
        return {}
    operations = [{"op": "replace", "path": "", "value": made}]
    return {"patch": base64.b64encode(json.dumps(operations).encode()).decode(), "patchType": "JSONPatch"}


def scene(oracle: Oracle, path: str, fits: Callable[[list[Right]], bool]) -> Scene:
    """The first request for a path with the wanted answers of both configurations."""
    for number in range(1000):
        request = WORKLOAD.request(number)
        rights = [*oracle.right(request, [FIRST]), *oracle.right(request, [SECOND])]
        if request.path == path and fits(rights):
            return Scene(request, rights[0])
    raise AssertionError(path)


def allowed(rights: list[Right]) -> bool:
    return all(right.allowed and right.object is not None for right in rights)


def denied(rights: list[Right]) -> bool:
    return not any(right.allowed for right in rights)


def found(oracle: Oracle, tmp_path: Path, *events: Event) -> list[str]:
    """The letters of violated invariants, after a round trip through a file."""
    history = read_history(write_history(tmp_path / "history.jsonl", [BEGAN, *events]))
    return [violation.invariant for violation in violations(Evidence(history, oracle))]


def test_a_correct_history_has_no_findings(oracle: Oracle, tmp_path: Path) -> None:
    events: list[Event] = [STRIKE, COUNTED]
    for path, fits in (("/admit", allowed), ("/mutate", allowed), ("/validate", allowed), ("/admit", denied)):
        scenario = scene(oracle, path, fits)
        events += [scenario.asked(), scenario.answered()]
    assert found(oracle, tmp_path, *events, COUNTED) == []


def test_a_request_without_an_answer_is_found(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", allowed)
    assert "a" in found(oracle, tmp_path, scenario.asked())


def test_a_request_with_two_answers_is_found(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", allowed)
    assert found(oracle, tmp_path, scenario.asked(), scenario.answered(), scenario.answered()) == ["a"]


def test_an_answer_to_another_request_is_found(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", allowed)
    assert found(oracle, tmp_path, scenario.asked(), scenario.answered(uid="another")) == ["a"]


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/admit"])
def test_swapped_answers_are_found_even_with_the_right_uid(oracle: Oracle, tmp_path: Path, path: str) -> None:
    scenario = scene(oracle, path, allowed)
    twin = next(
        dataclasses.replace(scenario, request=other)
        for other in map(WORKLOAD.request, range(scenario.request.number + 1, 10_000))
        if (other.review, other.path) == (scenario.request.review, path)
    )
    swapped: list[Event] = [
        scenario.asked(),
        twin.asked(),
        scenario.answered(auditAnnotations=twin.seen()),
        twin.answered(auditAnnotations=scenario.seen()),
    ]
    assert found(oracle, tmp_path, scenario.asked(), twin.asked(), scenario.answered(), twin.answered()) == []
    assert found(oracle, tmp_path, *swapped) == ["a", "a"]


def test_a_denial_of_another_request_and_an_unsigned_permission_are_found(
    oracle: Oracle, tmp_path: Path
) -> None:
    scenario, other = scene(oracle, "/validate", denied), scene(oracle, "/validate", allowed)
    foreign = scenario.answered(auditAnnotations=other.seen())
    assert found(oracle, tmp_path, scenario.asked(), foreign) == ["a"]
    assert found(oracle, tmp_path, scenario.asked(), scenario.answered(auditAnnotations={})) == []
    assert found(oracle, tmp_path, other.asked(), other.answered(auditAnnotations={})) == ["a"]


def test_a_late_answer_and_silence_are_found(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", allowed)
    assert found(
        oracle,
        tmp_path,
        scenario.asked(),
        scenario.answered(at=10.1 + scenario.request.timeout + GRACE_SECONDS),
    ) == ["b"]
    silence = Failed(15 + scenario.request.timeout, scenario.request.number, SILENCE)
    calm = Struck(50, 51, "pause", MUTATORS[0])  # so that not everything has to be right yet
    assert found(oracle, tmp_path, calm, scenario.asked(), silence) == ["b"]


def test_waiting_for_a_processor_excuses_a_late_answer(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", allowed)
    late = scenario.answered(at=10 + scenario.request.timeout + GRACE_SECONDS + 0.4)
    assert found(oracle, tmp_path, Waited(12, 0.5), scenario.asked(), late) == []
    assert found(oracle, tmp_path, Waited(12, 0.3), scenario.asked(), late) == ["b"]
    assert found(oracle, tmp_path, Waited(9, 0.5), scenario.asked(), late) == ["b"]


def test_silence_is_excused_while_the_front_door_is_cut_off(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", allowed)
    silence = Failed(15 + scenario.request.timeout, scenario.request.number, SILENCE)
    assert found(oracle, tmp_path, Struck(12, 22, "pause", DOOR), scenario.asked(), silence) == []


def test_a_permission_against_the_oracle_is_found(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", denied)
    struck = Struck(30, 31, "kill", DOOR)
    assert found(oracle, tmp_path, struck, scenario.asked(), scenario.answered(allowed=True)) == ["c"]


def test_a_patch_with_another_result_is_found(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/mutate", allowed)
    struck = Struck(30, 31, "kill", DOOR)
    other: dict[str, Any] = patch_of(scenario.request, {"kind": "Pod"})
    assert found(oracle, tmp_path, struck, scenario.asked(), scenario.answered(**other)) == ["d"]


@pytest.mark.parametrize("status", [FAILURE, REFUSAL])
def test_a_failure_after_the_recovery_is_found(
    oracle: Oracle, tmp_path: Path, status: dict[str, Any]
) -> None:
    scenario = scene(oracle, "/admit", allowed)
    asked, answer = (
        scenario.asked(STRIKE.until + RECOVERY_SECONDS),
        scenario.answered(allowed=False, status=status),
    )
    assert "e" in found(oracle, tmp_path, STRIKE, asked, answer)


def test_a_failure_before_the_recovery_is_excused(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", allowed)
    asked, answer = scenario.asked(at=6.9), scenario.answered(allowed=False, status=FAILURE)
    broken: list[Event] = [
        scenario.asked(at=6.8),
        Failed(6.9, scenario.request.number, "ServerDisconnectedError"),
    ]
    assert found(oracle, tmp_path, STRIKE, asked, answer) == []
    assert found(oracle, tmp_path, STRIKE, *broken) == []


@pytest.mark.parametrize(
    "more",
    [
        {"descriptors": 21 + MORE_DESCRIPTORS},
        {"threads": 100},
        {"tasks": 100},
        {"children": 1 + MORE_CHILDREN},
        {"resident_kib": 90_001 + MORE_KIB},
    ],
    ids=lambda more: next(iter(more)),
)
def test_growth_is_found(oracle: Oracle, tmp_path: Path, more: dict[str, int]) -> None:
    grown = msgspec.structs.replace(COUNTED, **more)
    another = msgspec.structs.replace(grown, pid=8)
    assert found(oracle, tmp_path, COUNTED, grown) == ["f"]
    assert found(oracle, tmp_path, COUNTED, another) == []


def test_complaints_of_a_nemesis_are_found(oracle: Oracle, tmp_path: Path) -> None:
    struck = Struck(1, 2, "terminate", DOOR, "frontdoor ended with 1 on SIGTERM")
    assert found(oracle, tmp_path, struck) == ["f"]


def test_a_denial_without_reason_and_a_bad_request_are_found(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/admit", allowed)
    struck = Struck(30, 31, "kill", DOOR)
    asked: list[Event] = [struck, scenario.asked()]
    assert found(oracle, tmp_path, *asked, scenario.answered(allowed=False, status=REFUSAL)) == ["g"]
    assert found(oracle, tmp_path, *asked, scenario.answered(code=400)) == ["g"]
    assert found(oracle, tmp_path, *asked, scenario.answered(allowed=False, status=FAILURE)) == []
    assert found(oracle, tmp_path, *asked, scenario.answered(code=503)) == []
    assert found(oracle, tmp_path, *asked, scenario.answered(code=504)) == []


def test_an_outage_as_a_decision_and_a_decision_during_an_outage_are_found(
    oracle: Oracle, tmp_path: Path
) -> None:
    scenario = scene(oracle, "/admit", allowed)
    asked: list[Event] = [Struck(30, 31, "kill", DOOR), scenario.asked()]
    decision = json.dumps({"response": {"uid": scenario.request.uid, "allowed": False}})
    assert found(oracle, tmp_path, *asked, scenario.answered(allowed=False, status=OUTAGE)) == ["g"]
    assert found(oracle, tmp_path, *asked, Answered(10.1, scenario.request.number, 503, decision)) == ["g"]
    assert found(oracle, tmp_path, *asked, scenario.answered(code=500)) == ["g"]


def test_either_configuration_is_right_only_while_they_are_swapped(oracle: Oracle, tmp_path: Path) -> None:
    scenario = scene(oracle, "/validate", lambda rights: not rights[0].allowed and rights[1].allowed)
    after = 10 + SWAP_SECONDS
    struck: list[Event] = [Struck(10, 10, SWAP, SECOND), Struck(30, 31, "kill", DOOR)]
    old, new = scenario.answered, {"allowed": True}
    assert found(oracle, tmp_path, *struck, scenario.asked(9), old(9.1)) == []
    assert found(oracle, tmp_path, *struck, scenario.asked(9), old(9.1, **new)) == ["c"]
    assert found(oracle, tmp_path, *struck, scenario.asked(11), old(11.1)) == []
    assert found(oracle, tmp_path, *struck, scenario.asked(11), old(11.1, **new)) == []
    assert found(oracle, tmp_path, *struck, scenario.asked(after), old(after + 0.1)) == ["g"]
    assert found(oracle, tmp_path, *struck, scenario.asked(after), old(after + 0.1, **new)) == []


def test_availability_counts_failures_that_one_lost_replica_does_not_excuse(oracle: Oracle) -> None:
    scenario = scene(oracle, "/admit", allowed)
    broken: list[Event] = [scenario.asked(), scenario.answered(allowed=False, status=FAILURE)]
    hurt = [Struck(9, 11, "kill", name) for name in (*MUTATORS, DOOR)]

    def available(*struck: Struck) -> Availability:
        return availability(Evidence([BEGAN, *struck, *broken], oracle))

    assert available(hurt[0]) == Availability(due=1, right=0)
    assert available(*hurt[:2]) == Availability(due=0, right=0)
    assert available(hurt[2]) == Availability(due=0, right=0)
