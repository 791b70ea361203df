"""Running one handler: whatever it does costs its own outcome, and shows nothing of the object."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable

import pytest

from pratique.admission.controllers import Handler, Phase
from pratique.admission.results import (
    ALLOWED,
    Answer,
    Denied,
    Edits,
    Failed,
    FailureKind,
    Outcome,
    Patch,
    Patched,
    allow,
    patch,
    warn,
)
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError, ReviewError
from pratique.apimachinery.patches import apply_patch
from pratique.hosting.running import handler_runners
from support.services import controllers
from support.services.controllers import SECRET, hosted
from support.services.reviews import review_of

BRIEF = Call("c", 0.05)
TIMED_OUT = Failed(FailureKind.TIMEOUT, "context deadline exceeded")


def outcome_of(
    handler: Handler, call: Call = BRIEF, review: Review | None = None, *, trusted: bool = False
) -> Outcome:
    runner = handler_runners([hosted("c", handler, trusted=trusted)], Phase.VALIDATE)["c"]
    return asyncio.run(runner.run(review or review_of(), call)).outcome


class Called:
    """A policy with state, as an object that is called."""

    def __call__(self, _review: Review) -> Answer:
        return warn("sync")


class AsyncCalled:
    """The same, async."""

    async def __call__(self, _review: Review) -> Answer:
        return warn("async")


async def asynchronous(_review: Review) -> Answer:
    return warn("async")


def returning_a_coroutine(review: Review) -> object:
    return asynchronous(review)


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "not trusted"])
@pytest.mark.parametrize(
    "handler",
    [
        controllers.allowing,
        Called(),
        asynchronous,
        AsyncCalled(),
        returning_a_coroutine,
        functools.partial(asynchronous),
        lambda _: allow(),
    ],
    ids=["function", "object", "async function", "async object", "coroutine", "partial", "lambda"],
)
def test_every_kind_of_callable_can_be_a_handler(handler: Handler, *, trusted: bool) -> None:
    outcome = outcome_of(handler, trusted=trusted)
    assert outcome.decision is ALLOWED
    assert outcome.controller == "c"
    assert 0 < outcome.duration_seconds < 5


def test_warnings_and_annotations_are_kept() -> None:
    outcome = outcome_of(lambda _: warn("careful", audit_annotations={"k": "v"}))
    assert (outcome.warnings, outcome.audit_annotations) == (("careful",), {"k": "v"})


class Unusual(BaseException):
    """Not even an Exception."""


ERRORS = [
    ValueError(SECRET),
    KeyError(SECRET),
    TimeoutError(SECRET),
    RecursionError(SECRET),
    MemoryError(SECRET),
    SystemExit(SECRET),
    GeneratorExit(SECRET),
    asyncio.CancelledError(SECRET),
    Unusual(SECRET),
]


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "not trusted"])
@pytest.mark.parametrize("when", [controllers.raising, controllers.raising_later])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_reported_by_its_type_alone(
    error: BaseException,
    when: Callable[[BaseException], Handler],
    caplog: pytest.LogCaptureFixture,
    *,
    trusted: bool,
) -> None:
    with caplog.at_level(logging.DEBUG):
        outcome = outcome_of(when(error), trusted=trusted)
    assert outcome.decision == Failed(FailureKind.ERROR, f"raised {type(error).__name__}")
    assert SECRET not in caplog.text
    [record] = [entry for entry in caplog.records if entry.name == "pratique.hosting.running"]
    assert "handler (services/controllers.py:" in vars(record)["error"]
    assert SECRET not in str(vars(record))


def test_a_refusal_error_denies() -> None:
    status = statuses.not_found("", "namespaces", "shop")
    assert outcome_of(controllers.raising(RefusalError(status))).decision == Denied(status)


@pytest.mark.parametrize("handler", [controllers.hanging, controllers.stubborn])
def test_a_handler_that_never_answers_times_out(handler: Handler) -> None:
    assert outcome_of(handler).decision == TIMED_OUT


def test_a_handler_that_blocks_times_out() -> None:
    release = threading.Event()
    try:
        assert outcome_of(controllers.blocking(release)).decision == TIMED_OUT
    finally:
        release.set()


def test_the_deadline_applies_if_the_call_allows_more() -> None:
    runner = handler_runners([hosted("c", controllers.hanging)], Phase.VALIDATE)["c"]

    async def run() -> Outcome:
        return (await runner.run(review_of(), Call("c", 60), Deadline.after(0.05))).outcome

    assert asyncio.run(run()).decision == TIMED_OUT


def test_without_any_limit_a_handler_can_take_its_time() -> None:
    async def slow(_review: Review) -> Answer:
        await asyncio.sleep(0.05)
        return allow()

    assert outcome_of(slow, Call("c")).decision is ALLOWED


@pytest.mark.parametrize("trusted", [True, False])
def test_a_handler_that_can_wait_knows_its_deadline(*, trusted: bool) -> None:
    known: list[Deadline | None] = []

    async def handler(review: Review) -> Answer:
        known.append(review.deadline)
        return allow()

    began = Deadline.after(0)
    outcome_of(handler, Call("c", 20), trusted=trusted)
    outcome_of(handler, Call("c"), trusted=trusted)
    first, second = known
    assert first is not None
    assert began.at + 20 <= first.at <= Deadline.after(20).at
    assert second is None


def test_cancelling_a_review_cancels_its_handler() -> None:
    began, seen = threading.Event(), []

    async def noticing(_review: Review) -> Answer:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return allow()

    async def run() -> None:
        runner = handler_runners([hosted("c", noticing)], Phase.VALIDATE)["c"]
        running = asyncio.ensure_future(runner.run(review_of(), Call("c")))
        while not began.is_set():  # noqa: ASYNC110 - it may be set by another thread
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0)

    asyncio.run(run())
    assert seen == ["cancelled"]


def test_a_keyboard_interrupt_is_not_the_controllers_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        outcome_of(controllers.raising(KeyboardInterrupt()), trusted=True)


@pytest.mark.parametrize("raw", [b"{", b'{"a": \xff}', b"[" * 100_000, b"{} {}"])
def test_an_object_that_is_not_json_is_not_the_controllers_failure(raw: bytes) -> None:
    with pytest.raises(ReviewError, match=r"^review\.object is not JSON$"):
        outcome_of(lambda review: review.object and allow(), review=review_of(raw))


def test_trusted_controllers_run_in_the_callers_thread() -> None:
    threads = []

    def noting(_review: Review) -> Answer:
        threads.append(threading.current_thread())
        return allow()

    outcome_of(noting, trusted=True)
    outcome_of(noting, trusted=False)
    assert threads[0] is threading.main_thread()
    assert threads[1] is not threading.main_thread()


def test_only_the_handlers_of_the_phase_run() -> None:
    only_mutating = hosted("m", controllers.allowing, mutating_only=True)
    assert list(handler_runners([only_mutating], Phase.MUTATE)) == ["m"]
    assert list(handler_runners([only_mutating], Phase.VALIDATE)) == []


LABELLING = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
COPYING = {"op": "copy", "from": "/metadata/name", "path": "/metadata/generateName"}


def edited(review: Review) -> Answer:
    edits = Edits(review.object)
    edits.set(("metadata", "labels"), {"a": "b"})
    return edits.answer()


@pytest.mark.parametrize("handler", [edited, lambda _: patch(operations=[LABELLING])])
def test_the_outcome_has_the_object_after_its_operations(handler: Handler) -> None:
    hosts = [hosted("c", handler, trusted=True)]
    ran = asyncio.run(handler_runners(hosts, Phase.MUTATE)["c"].run(review_of(), BRIEF))
    assert isinstance(ran.outcome.decision, Patched)
    assert ran.outcome.document is ran.document
    assert ran.document.data == apply_patch(review_of().object, ran.outcome.decision.operations)


@pytest.mark.parametrize(
    "handler", [lambda _: allow(), lambda _: patch({"kind": "Pod"}), lambda _: patch(operations=[COPYING])]
)
def test_the_outcome_has_no_object_for_operations_that_were_not_applied(handler: Handler) -> None:
    hosts = [hosted("c", handler, trusted=True)]
    ran = asyncio.run(handler_runners(hosts, Phase.MUTATE)["c"].run(review_of(), BRIEF))
    assert ran.outcome.document is None


def test_the_object_of_an_untrusted_controller_is_never_used() -> None:
    lying = Patch((LABELLING,), {"kind": "Secret"})
    ran = asyncio.run(
        handler_runners([hosted("c", lambda _: lying)], Phase.MUTATE)["c"].run(review_of(), BRIEF)
    )
    assert isinstance(ran.outcome.decision, Patched)
    assert ran.outcome.document is None
