"""Circuit breakers: the machine by itself, and before real webhooks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pratique.admission.controllers import BOTH, Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import UnreachableError
from pratique.cluster.store import ANY_NAMESPACE
from pratique.configuration.loading import load_configurations
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique.https.clients import HttpsClients
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.engines.local import InProcessTransport
from pratique_frontdoor.settings import FrontDoorSettings
from pratique_frontdoor.transports.circuit_breakers import (
    Circuit,
    CircuitBreakers,
    CircuitState,
    WebhookCallStatus,
)
from pratique_frontdoor.webhooks.clients import WebhookCredentials, WebhookTransports
from support.chains import pod_review, webhook_controllers
from support.front_doors.reviews import review_document
from support.observed_stacks import observed_stack
from support.services.faulty_services import black_hole, refused
from support.waiting import until, within
from support.webhook_servers import (
    Authority,
    WebhookServer,
    allowed,
    authority,
    closed_port,
    denied,
    hanging,
    in_turn,
    reset,
    respond,
    serve,
)

if TYPE_CHECKING:
    from typing import Self

FAILURES = 3
OPEN = "failed to call webhook: circuit breaker is open after 3 failed calls in a row"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Circuits(RuleBasedStateMachine):
    """Calls of many reviews on one circuit, in any order and with any ending."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.changes: list[CircuitState] = [CircuitState.CLOSED]
        self.circuit = Circuit(FAILURES, 10, self.clock, self.changes.append)
        self.calls: list[tuple[int, CircuitState]] = []
        self.probes: list[int] = []

    @rule()
    def call(self) -> None:
        before = self.circuit.state
        try:
            ticket = self.circuit.begin()
        except UnreachableError:
            assert before is CircuitState.OPEN or self.probes
        else:
            assert before is not CircuitState.OPEN
            self.calls.append((ticket, before))
            if before is CircuitState.HALF_OPEN:
                self.probes.append(ticket)

    @rule(which=st.integers(0), ending=st.sampled_from(WebhookCallStatus))
    def end(self, which: int, ending: WebhookCallStatus) -> None:
        if not self.calls:
            return
        ticket, begun_in = self.calls.pop(which % len(self.calls))
        self.circuit.end(ticket, ending)
        if begun_in is CircuitState.HALF_OPEN:
            self.probes.remove(ticket)
            expected = {
                WebhookCallStatus.ANSWERED: CircuitState.CLOSED,
                WebhookCallStatus.FAILED: CircuitState.OPEN,
                WebhookCallStatus.UNKNOWN: CircuitState.HALF_OPEN,
            }
            assert self.circuit.state is expected[ending]

    @rule(seconds=st.floats(0, 100))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def recover(self) -> None:
        """Whatever came before: after the longest time, and with no trial under way, one answer closes it."""
        if self.probes:
            return
        self.clock.now += 8 * 10
        self.circuit.end(self.circuit.begin(), WebhookCallStatus.ANSWERED)
        assert self.circuit.state is CircuitState.CLOSED

    @invariant()
    def at_most_one_call_tries(self) -> None:
        assert len(self.probes) <= 1

    @invariant()
    def each_change_is_told_once(self) -> None:
        # A trial that told nothing lets another one begin: half-open may follow itself, nothing else may.
        pairs = list(zip(self.changes, self.changes[1:], strict=False))
        assert all(pair is not other or pair is CircuitState.HALF_OPEN for pair, other in pairs)
        assert self.changes.count(CircuitState.OPEN) == self.circuit.opened


TestCircuits = Circuits.TestCase


def state_of(circuit: Circuit) -> CircuitState:
    return circuit.state


def fail(circuit: Circuit, times: int = 1) -> None:
    for ticket in [circuit.begin() for _ in range(times)]:
        circuit.end(ticket, WebhookCallStatus.FAILED)


def test_a_circuit_opens_after_the_configured_number_of_failures() -> None:
    circuit = Circuit(FAILURES, 10, Clock())
    fail(circuit, FAILURES - 1)
    assert state_of(circuit) is CircuitState.CLOSED
    circuit.end(circuit.begin(), WebhookCallStatus.ANSWERED)
    fail(circuit, FAILURES - 1)
    assert state_of(circuit) is CircuitState.CLOSED
    fail(circuit)
    assert state_of(circuit) is CircuitState.OPEN


def test_each_failed_trial_doubles_the_open_time_up_to_eight_times_and_an_answer_resets_it() -> None:
    clock = Clock()
    circuit = Circuit(1, 10, clock)
    for seconds in (10, 20, 40, 80, 80):
        fail(circuit)
        clock.now += seconds - 0.001
        assert state_of(circuit) is CircuitState.OPEN
        clock.now += 0.002
        assert state_of(circuit) is CircuitState.HALF_OPEN
    circuit.end(circuit.begin(), WebhookCallStatus.ANSWERED)
    fail(circuit)
    clock.now += 10.001
    assert state_of(circuit) is CircuitState.HALF_OPEN


def test_calls_begun_before_the_circuit_opened_do_not_change_it() -> None:
    circuit = Circuit(1, 10, Clock())
    tickets = [circuit.begin() for _ in range(50)]
    for ticket in tickets[:25]:
        circuit.end(ticket, WebhookCallStatus.FAILED)
    assert circuit.opened == 1
    for ticket in tickets[25:]:
        circuit.end(ticket, WebhookCallStatus.ANSWERED)
    assert state_of(circuit) is CircuitState.OPEN


# Before real webhooks


def webhook(name: str, url: str, ca_bundle: bytes, policy: str, seconds: int = 30) -> dict[str, Any]:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    return {
        "name": name,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_bundle).decode()},
        "rules": [everything],
        "failurePolicy": policy,
        "sideEffects": "None",
        "timeoutSeconds": seconds,
        "admissionReviewVersions": ["v1"],
    }


def written(folder: Path, kind: str, *webhooks: dict[str, Any]) -> Path:
    file = folder / f"{kind}.json"
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": list(webhooks),
    }
    file.write_text(json.dumps(document), "utf-8")
    return file


class Door:
    """A chain of webhooks alone, with breakers, that stays the same from one review to the next."""

    def __init__(self, *files: Path, failures: int = FAILURES, seconds: float = 3600.0) -> None:
        settings = FrontDoorSettings(webhook_breaker_failures=failures, webhook_breaker_seconds=seconds)
        self.breakers = CircuitBreakers(settings)
        self._webhooks = WebhookTransports(HttpsClients(), {phase: WebhookCredentials() for phase in Phase})
        nobody = InProcessTransport(MutatorHost((), ANY_NAMESPACE), ValidatorHost((), ANY_NAMESPACE))
        self._chain = assemble(
            ChainParts(
                controllers=webhook_controllers(),
                configurations=load_configurations(files),
                mutator=nobody,
                validator=nobody,
                reach=self._webhooks.reach,
                breakers=self.breakers,
            )
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._webhooks.close()

    async def decide(self, seconds: float = 20.0) -> Decision:
        return await self._chain.decide(pod_review(), BOTH, Deadline.after(seconds))

    async def until_half_open(self) -> None:
        async def half_open() -> bool:
            return self.state == CircuitState.HALF_OPEN

        await until(120, half_open)

    @property
    def state(self) -> float:
        (state,) = self.breakers.states().values()
        return state


async def _received(server: WebhookServer, requests: int) -> bool:
    return len(server.received) >= requests


def only_step(decision: Decision) -> Step:
    (step,) = decision.steps
    return step


@contextlib.contextmanager
def unresponsive(how: str) -> Iterator[tuple[str, bytes]]:
    """A webhook of which no answer comes: its URL, and the authority that is trusted."""
    if how == "refuses connections":
        with closed_port() as port:
            yield f"https://127.0.0.1:{port}", authority().pem
        return
    behaviour = {"hangs": hanging(), "breaks off": reset()}.get(how, allowed())
    with serve(behaviour) as server:
        yield server.url, Authority().pem if how == "has a certificate of a stranger" else authority().pem


UNRESPONSIVE = ("refuses connections", "breaks off", "has a certificate of a stranger", "hangs")


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("how", UNRESPONSIVE)
def test_an_open_circuit_calls_no_webhook_and_the_failure_policy_decides(
    how: str, policy: str, kind: str, tmp_path: Path
) -> None:
    async def decide(file: Path) -> list[Decision]:
        async with Door(file) as door:
            failed = await asyncio.gather(*(door.decide() for _ in range(FAILURES)))
            assert door.state == CircuitState.OPEN
            return [*failed, *[await door.decide() for _ in range(2)]]

    with unresponsive(how) as (url, ca_bundle):
        decisions = asyncio.run(
            decide(written(tmp_path, kind, webhook("dead.example.com", url, ca_bundle, policy, seconds=1)))
        )
    steps = [only_step(item) for item in decisions]
    assert [OPEN in item.reason for item in steps] == [False] * FAILURES + [True] * 2
    for decision, step in zip(decisions, steps, strict=True):
        assert decision.allowed is (policy == "Ignore")
        assert step.outcome is (OutcomeStatus.FAILED_OPEN if policy == "Ignore" else OutcomeStatus.FAILED)
        assert step.code == 503
    if policy == "Fail":
        assert decisions[-1].status is not None
        assert decisions[-1].status.code == 500
        words = f'Internal error occurred: failed calling webhook "dead.example.com": {OPEN}'
        assert decisions[-1].status.message == words
    else:
        before, after = decisions[0], decisions[-1]
        assert before.audit_annotations == after.audit_annotations


ANSWERS = {
    "denies": denied("no"),
    "answers 500": respond(500, b"broken"),
    "answers with no JSON": respond(200, b"<html>"),
}


@pytest.mark.parametrize("how", ANSWERS)
def test_no_answer_of_a_webhook_opens_a_circuit(how: str, tmp_path: Path) -> None:
    async def decide(server: WebhookServer) -> None:
        hook = webhook("w.example.com", server.url, server.ca_bundle, "Fail")
        async with Door(written(tmp_path, "Validating", hook), failures=1) as door:
            for _ in range(4):
                assert not (await door.decide()).allowed
            assert door.state == CircuitState.CLOSED

    with serve(ANSWERS[how]) as server:
        asyncio.run(decide(server))
        assert len(server.received) == 4


def test_an_answer_resets_the_count_of_failures(tmp_path: Path) -> None:
    async def decide(server: WebhookServer) -> None:
        hook = webhook("w.example.com", server.url, server.ca_bundle, "Fail")
        async with Door(written(tmp_path, "Validating", hook), failures=2) as door:
            for _ in range(6):
                await door.decide()
            assert door.state == CircuitState.CLOSED

    broken = respond(500, b"broken")
    with serve(in_turn(reset(), broken, reset(), broken, reset(), broken)) as server:
        asyncio.run(decide(server))
        assert len(server.received) == 6


def test_a_webhook_that_recovers_is_called_again_after_one_trial(tmp_path: Path) -> None:
    async def decide(server: WebhookServer) -> list[bool]:
        hook = webhook("w.example.com", server.url, server.ca_bundle, "Fail")
        async with Door(written(tmp_path, "Validating", hook), failures=2, seconds=0.2) as door:
            found = [(await door.decide()).allowed for _ in range(4)]
            await door.until_half_open()
            found += [(await door.decide()).allowed for _ in range(3)]
            assert door.state == CircuitState.CLOSED
            return found

    with serve(in_turn(reset(), reset(), allowed())) as server:
        assert asyncio.run(decide(server)) == [False] * 4 + [True] * 3
        assert len(server.received) == 5


def test_only_one_of_many_concurrent_reviews_tries_a_half_open_circuit(tmp_path: Path) -> None:
    async def decide(server: WebhookServer) -> list[Decision]:
        hook = webhook("w.example.com", server.url, server.ca_bundle, "Fail", seconds=2)
        async with Door(written(tmp_path, "Validating", hook), failures=1, seconds=0.1) as door:
            await door.decide()
            await door.until_half_open()
            return await asyncio.gather(*(door.decide() for _ in range(20)))

    with serve(in_turn(reset(), hanging())) as server:
        reasons = [only_step(item).reason for item in asyncio.run(decide(server))]
        assert len(server.received) == 2
    assert sum("circuit breaker is open" in reason for reason in reasons) == 19


def test_a_cancelled_trial_lets_the_next_review_try(tmp_path: Path) -> None:
    async def decide(server: WebhookServer) -> bool:
        hook = webhook("w.example.com", server.url, server.ca_bundle, "Fail")
        async with Door(written(tmp_path, "Validating", hook), failures=1, seconds=0.1) as door:
            await door.decide()
            await door.until_half_open()
            trial = asyncio.ensure_future(door.decide())
            await until(120, lambda: _received(server, 2))
            trial.cancel()
            await asyncio.wait([trial])
            return (await door.decide()).allowed

    with serve(in_turn(reset(), hanging(), allowed())) as server:
        assert asyncio.run(decide(server))


def test_callers_with_tiny_timeouts_do_not_open_a_circuit(tmp_path: Path) -> None:
    async def decide(server: WebhookServer) -> float:
        hook = webhook("w.example.com", server.url, server.ca_bundle, "Ignore")
        async with Door(written(tmp_path, "Validating", hook), failures=1) as door:
            for _ in range(3):
                await door.decide(seconds=0.2)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await door.decide()
            return door.state

    with serve(hanging()) as server:
        assert asyncio.run(decide(server)) == CircuitState.CLOSED
        assert len(server.received) == 4


def test_each_webhook_has_its_own_circuit(tmp_path: Path) -> None:
    async def decide(server: WebhookServer, port: int) -> Decision:
        hooks = [
            webhook("alive.example.com", server.url, server.ca_bundle, "Fail"),
            webhook("dead.example.com", f"https://127.0.0.1:{port}", server.ca_bundle, "Ignore"),
        ]
        async with Door(written(tmp_path, "Mutating", *hooks), failures=1) as door:
            await door.decide()
            found = await door.decide()
            assert door.breakers.states() == {
                ("hooks", "alive.example.com", "mutate"): CircuitState.CLOSED,
                ("hooks", "dead.example.com", "mutate"): CircuitState.OPEN,
            }
            assert door.breakers.opened()["hooks", "dead.example.com", "mutate"] == 1
            return found

    with serve(allowed()) as server, closed_port() as port:
        decision = asyncio.run(decide(server, port))
        assert len(server.received) == 2
    assert [step.outcome for step in decision.steps] == [OutcomeStatus.UNCHANGED, OutcomeStatus.FAILED_OPEN]


@pytest.mark.parametrize("service", [refused, black_hole])
def test_webhooks_over_grpc_have_circuit_breakers(service: Any, tmp_path: Path) -> None:
    async def decide() -> list[str]:
        async with service() as address:
            hook = webhook("g.example.com", f"grpc://{address}", b"", "Fail")
            del hook["clientConfig"]["caBundle"]
            async with Door(written(tmp_path, "Validating", hook), failures=1) as door:
                return [only_step(await door.decide()).reason for _ in range(2)]

    first, second = asyncio.run(decide())
    assert "circuit breaker" not in first
    assert "circuit breaker is open after 1 failed call" in second


def test_each_change_is_logged_once_and_names_the_webhook(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def decide(port: int) -> None:
        hook = webhook("dead.example.com", f"https://127.0.0.1:{port}", authority().pem, "Ignore")
        async with Door(written(tmp_path, "Validating", hook), failures=1) as door:
            for _ in range(5):
                await door.decide()

    with closed_port() as port, caplog.at_level(logging.INFO, "frontdoor"):
        asyncio.run(decide(port))
    found = [record for record in caplog.records if "circuit breaker" in record.message]
    assert [item.message for item in found] == ["circuit breaker of a webhook is open"]
    assert vars(found[0])["webhook"] == "dead.example.com"


def test_without_the_flag_every_call_is_made(tmp_path: Path) -> None:
    async def decide(server: WebhookServer) -> None:
        hook = webhook("w.example.com", server.url, server.ca_bundle, "Ignore")
        async with Door(written(tmp_path, "Validating", hook), failures=0) as door:
            for _ in range(10):
                assert (await door.decide()).allowed
            assert door.breakers.states() == {}

    with serve(reset()) as server:
        asyncio.run(decide(server))
        assert len(server.received) == 10


def test_a_front_door_shows_its_breakers_and_resets_them_with_the_configuration(
    tmp_path: Path,
) -> None:
    review = review_document()
    with closed_port() as port, serve(allowed()) as server:
        dead = webhook("dead.example.com", f"https://127.0.0.1:{port}", server.ca_bundle, "Fail")
        file = written(tmp_path, "Validating", dead)
        with observed_stack("--config", str(file), "--webhook-breaker-failures", "2") as stack:
            texts = [stack.post("/explain", review)[1] for _ in range(3)]
            assert ["circuit breaker is open" in text for text in texts] == [False, False, True]
            metrics = stack.metrics()["frontdoor"]
            labels = '{configuration="hooks",name="dead.example.com",phase="validate"}'
            assert f"pratique_webhook_breaker_state{labels} 2.0" in metrics
            assert f"pratique_webhook_breaker_opened_total{labels} 1.0" in metrics
            with urllib.request.urlopen(f"http://127.0.0.1:{stack.port}/readyz?verbose") as answer:
                ready = answer.read().decode()
            assert "[+]webhooks ok, but: circuit breaker of validate webhook dead.example.com" in ready
            written(tmp_path, "Validating", webhook("dead.example.com", server.url, server.ca_bundle, "Fail"))
            assert within(120, lambda: '"allowed":true' in stack.post("/admit", review)[1])
            assert f"pratique_webhook_breaker_state{labels} 0.0" in stack.metrics()["frontdoor"]
