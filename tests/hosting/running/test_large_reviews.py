"""Built-in handlers leave the event loop for large reviews, and end with the time of their call."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import msgspec
import pytest

from pratique.admission.controllers import Handler
from pratique.admission.results import (
    ALLOWED,
    Answer,
    Failed,
    FailureKind,
    Outcome,
    Patched,
    allow,
    deny,
    patch,
)
from pratique.admission.reviews import Call, Review
from pratique.cluster.store import ANY_NAMESPACE
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique.processes.review_threads import INLINE_SECONDS, INLINE_VALUES
from support.services.controllers import hosted, labelling
from support.services.reviews import POD, review_of
from support.waiting import within
from support.watched_documents import WatchedDocument

PATIENCE_SECONDS = 120
LARGE = 1_000_000
MAIN = threading.main_thread().name
TIMED_OUT = Failed(FailureKind.TIMEOUT, "context deadline exceeded")


def received(values: int) -> Review:
    """A review that a service has received, of so many values."""
    raw = json.dumps(POD).encode()
    return msgspec.structs.replace(review_of(raw), received_values=values)


class Noting:
    """A handler that notes in which threads it runs."""

    def __init__(self, answer: Answer, seconds: float = 0.0) -> None:
        self.answer, self.seconds = answer, seconds
        self.threads: list[str] = []

    def __call__(self, _review: Review) -> Answer:
        self.threads.append(threading.current_thread().name)
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return self.answer


def validated(review: Review, *handlers: Handler, seconds: float | None = None) -> list[Outcome]:
    """The outcomes of built-in handlers in the validating phase."""
    members = [hosted(f"c{number}", handler, trusted=True) for number, handler in enumerate(handlers)]
    host = ValidatorHost(members, ANY_NAMESPACE)
    return asyncio.run(host.validate(review, [Call(one.controller.name, seconds) for one in members]))


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (0, MAIN),
        (INLINE_VALUES, MAIN),
        (INLINE_VALUES + 1, "pratique-reviews"),
        (LARGE, "pratique-large-reviews"),
    ],
)
def test_a_handler_runs_where_the_size_of_the_review_says(values: int, name: str) -> None:
    handler = Noting(deny("no"))
    assert [outcome.decision for outcome in validated(received(values), handler)] == [
        outcome.decision for outcome in validated(received(0), Noting(deny("no")))
    ]
    assert handler.threads == [name]


def test_handlers_after_a_slow_one_leave_the_loop() -> None:
    slow, after = Noting(allow(), INLINE_SECONDS * 2), Noting(allow())
    validated(received(1), slow, after)
    assert (slow.threads, after.threads) == ([MAIN], ["pratique-reviews"])


@pytest.mark.parametrize("values", [1, LARGE])
def test_mutations_are_applied_in_order_wherever_they_run(values: int) -> None:
    members = [hosted(name, labelling(name), trusted=True) for name in ("a", "b", "c")]
    host = MutatorHost(members, ANY_NAMESPACE)
    outcomes = asyncio.run(host.mutate(received(values), [Call(name) for name in ("a", "b", "c")]))
    changes = [
        outcome.decision.operations[0]["value"]
        for outcome in outcomes
        if isinstance(outcome.decision, Patched)
    ]
    assert changes == [{"a": "0"}, "1", "2"]


def test_an_error_in_a_thread_is_the_handlers_failure() -> None:
    def failing(_review: Review) -> Answer:
        raise LookupError

    [outcome] = validated(received(LARGE), failing)
    assert outcome.decision == Failed(FailureKind.ERROR, "raised LookupError")


def test_a_handler_ends_with_the_time_of_its_call_and_the_loop_turns_meanwhile() -> None:
    began, ended = threading.Event(), threading.Event()

    def endless(_review: Review) -> Answer:
        began.set()
        try:
            while True:
                pass
        finally:
            ended.set()

    async def run() -> list[Outcome]:
        host = ValidatorHost([hosted("c", endless, trusted=True)], ANY_NAMESPACE)
        running = asyncio.ensure_future(host.validate(received(LARGE), [Call("c", 0.5)]))
        await asyncio.to_thread(began.wait, PATIENCE_SECONDS)  # the loop turns, or this would not be over
        return await running

    [outcome] = asyncio.run(run())
    assert outcome.decision == TIMED_OUT
    assert within(PATIENCE_SECONDS, ended.is_set)
    assert validated(received(LARGE), Noting(allow()))[0].decision == ALLOWED


def test_a_large_patch_is_computed_in_a_thread() -> None:
    document = WatchedDocument(json.dumps(POD).encode())
    review = received(LARGE).with_object(document)
    changed = {**POD, "metadata": {"name": "other"}}
    host = MutatorHost([hosted("c", lambda _: patch(changed), trusted=True)], ANY_NAMESPACE)
    [outcome] = asyncio.run(host.mutate(review, [Call("c")]))
    assert isinstance(outcome.decision, Patched)
    assert set(document.threads) == {"pratique-large-reviews"}
