"""The time of a review is one budget, and every call gets what is left."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.results import Allowed, Answer, Failed, FailureKind, Outcome, allow
from pratique.admission.reviews import Call, Review
from pratique.configuration.settings import ChainSettings
from pratique.rpc import handlers
from pratique.rpc.servers import RpcServer, RpcService, ServerSettings
from pratique_frontdoor.http.messages import query_reader
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.remote import remote_door
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import MUTATOR, VALIDATOR, Kind, serving

CONTROLLER = "AlwaysPullImages"
ROUNDING = 0.01
"""Seconds: gRPC rounds times up to three digits, and these are of one before the point."""
SERVICES = Path(__file__).parents[2] / "services"


@contextlib.asynccontextmanager
async def watched(kind: Kind, half: Any, remaining: dict[str, list[float | None]]) -> AsyncIterator[str]:
    """A service whose every method notes how long its callers give it."""

    def noting(service: RpcService, name: str, method: Any) -> Any:
        async def handler(request: bytes, context: Any) -> Any:
            remaining.setdefault(name, []).append(context.time_remaining())
            return await method.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(handler)

    services = [
        RpcService(item.name, {name: noting(item, name, method) for name, method in item.methods.items()})
        for item in kind.services([hosted(CONTROLLER, half)])
    ]
    server = RpcServer(services, ServerSettings(drain_seconds=0))
    try:
        yield await server.start()
    finally:
        await server.stop()


def test_each_call_gets_the_time_that_earlier_calls_left() -> None:
    remaining: dict[str, list[float | None]] = {}
    policies: list[float] = []

    async def half(review: Review, *, seconds: float) -> Answer:
        assert review.deadline is not None
        policies.append(review.deadline.remaining_seconds)
        await asyncio.sleep(seconds)
        return allow()

    async def run() -> tuple[int, Any]:
        async with (
            watched(MUTATOR, functools.partial(half, seconds=0.5), remaining) as mutator,
            watched(VALIDATOR, functools.partial(half, seconds=0), remaining) as validator,
        ):
            chain = ChainSettings(admission_control=(CONTROLLER,))
            settings = FrontDoorSettings(mutator=mutator, validators=(validator,), chain=chain)
            async with remote_door(settings) as door:
                await door.engine.unready()
                return await door.post("/admit?timeout=9s")

    code, _ = asyncio.run(run())
    assert code == 200
    [mutating], [validating] = remaining["Mutate"], remaining["Validate"]
    assert mutating is not None
    assert validating is not None
    assert 0 < mutating <= 8.8 + ROUNDING
    assert 0 < validating <= mutating - 0.5 + ROUNDING
    assert policies[0] < mutating
    assert policies[1] < validating
    assert all(item is not None and item <= 1 + ROUNDING for item in remaining["Describe"])


@given(st.integers(1, 120), st.sampled_from(["s", "m", "000ms"]))
def test_no_review_gets_more_time_than_its_caller_or_the_front_door_allows(number: int, unit: str) -> None:
    settings = FrontDoorSettings()
    given_seconds = number * 60 if unit == "m" else number
    seconds = query_reader(settings)(f"timeout={number}{unit}".encode()).seconds
    assert 0 < seconds < min(given_seconds, settings.max_timeout_seconds)


TIMEOUTS = ("timeout", "timeout_millis")


def test_no_call_is_made_without_a_deadline() -> None:
    """Every call of an rpc in the services' code says how long it may take."""
    found: dict[str, list[bool]] = {}
    for file in SERVICES.rglob("*.py"):
        text = file.read_text()
        if "admission/v1" in file.as_posix() or not any(
            item in text for item in ("import grpc\n", "StreamedCall(")
        ):
            continue
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and (name := _rpc(call)):
                found.setdefault(name, []).append(any(keyword.arg in TIMEOUTS for keyword in call.keywords))
    assert {name: all(given) for name, given in found.items()} == dict.fromkeys(
        ("alone", "StreamedCall", "Describe", "ask"), True
    )


def _rpc(call: ast.Call) -> str:
    """The name by which a stub's method is called; empty where it is something else that is called.

    Streams go on for as long as they may. Each call on one is a message, and says how long it may take.
    """
    match call.func:
        case ast.Attribute(attr="Describe" | "Mutate" | "Validate" as name):
            return name
        case ast.Name(id="ask" | "alone" | "StreamedCall" as name):
            return name
    return ""


SLOW_NAMES = [f"C{number}" for number in range(1, 9)]


def test_controllers_that_would_be_too_late_never_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_MAX_MARGIN_SECONDS", 10)  # leaves a tenth, for a machine that is busy
    started: list[str] = []

    def slow(name: str) -> Any:
        async def half(_review: Review) -> Answer:
            started.append(name)
            await asyncio.sleep(1.2)
            return allow()

        return hosted(name, half)

    async def run() -> tuple[list[Outcome], float]:
        async with serving(MUTATOR, *map(slow, SLOW_NAMES)) as channel:
            began = time.perf_counter()
            # That an answer comes at all says that it was in time: the call ends with its deadline.
            outcomes = await MUTATOR.ask(channel, review_of(), list(map(Call, SLOW_NAMES)), 4)
            return outcomes, time.perf_counter() - began

    outcomes, seconds = asyncio.run(run())
    print(f"answered after {seconds:.3f} s of 4 s")  # noqa: T201 - the figure
    assert started == SLOW_NAMES[: len(started)]
    assert len(started) <= 4
    assert outcomes[-1].decision == Failed(FailureKind.TIMEOUT, "context deadline exceeded")
    assert all(isinstance(outcome.decision, Allowed) for outcome in outcomes[:-1])


@pytest.mark.parametrize("kind", [MUTATOR, VALIDATOR], ids=str)
def test_a_hanging_call_is_answered_before_the_callers_timeout(kind: Kind) -> None:
    async def run() -> tuple[int, Any]:
        async with watched(kind, controllers.hanging, {}) as address:
            chain = ChainSettings(admission_control=(CONTROLLER,))
            settings = FrontDoorSettings(mutator=address, validators=(address,), chain=chain)
            async with remote_door(settings) as door, asyncio.timeout(120):
                return await door.post(f"/{'mutate' if kind is MUTATOR else 'validate'}?timeout=1s")

    code, body = asyncio.run(run())
    assert code == 504 or body["response"]["allowed"] is False
