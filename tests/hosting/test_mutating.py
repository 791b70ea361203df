"""Mutating controllers, one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec
import pytest

from pratique.admission.controllers import Handler
from pratique.admission.results import (
    ALLOWED,
    Answer,
    Denied,
    Failed,
    FailureKind,
    Outcome,
    Patched,
    allow,
    patch,
)
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.patches import apply_patch
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.hosting.running import MutatorHost
from support.services import controllers
from support.services.controllers import hosted, labelling
from support.services.reviews import POD, review_of


def mutate(handlers: Mapping[str, Handler], review: Review | None = None, calls: str = "") -> list[Outcome]:
    """Host ``handlers``, and call them in their order or in that of ``calls``."""
    host = MutatorHost([hosted(name, handler) for name, handler in handlers.items()], ANY_NAMESPACE)
    sent = [Call(name, 0.1) for name in calls or handlers]
    return asyncio.run(host.mutate(review or review_of(), sent))


def kinds(outcomes: list[Outcome]) -> list[type]:
    return [type(outcome.decision) for outcome in outcomes]


def test_each_controller_sees_the_object_as_the_previous_one_left_it() -> None:
    outcomes = mutate({"a": labelling("a"), "b": labelling("b"), "c": labelling("c")})
    document = POD
    for outcome in outcomes:
        assert isinstance(outcome.decision, Patched)
        document = apply_patch(document, outcome.decision.operations)
    assert document["metadata"]["labels"] == {"a": "0", "b": "1", "c": "2"}


def test_controllers_run_in_the_order_of_the_calls() -> None:
    handlers = {"a": labelling("a"), "b": labelling("b")}
    assert [outcome.controller for outcome in mutate(handlers, calls="bab")] == ["b", "a", "b"]


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (controllers.denying, Denied),
        (controllers.raising(ValueError()), Failed),
        (controllers.hanging, Failed),
        (lambda _: patch(operations=[{"op": "remove", "path": "/no/such"}]), Failed),
    ],
    ids=["denied", "raised", "hung", "patch that does not fit"],
)
def test_nothing_runs_after_the_first_denied_or_failed_outcome(handler: Handler, kind: type) -> None:
    ran: list[Review] = []

    def noting(review: Review) -> Answer:
        ran.append(review)
        return allow()

    assert kinds(mutate({"a": labelling("a"), "b": handler, "c": noting})) == [Patched, kind]
    assert ran == []


def test_an_unknown_controller_ends_the_outcomes() -> None:
    outcomes = mutate({"a": controllers.allowing}, calls="axa")
    assert kinds(outcomes) == [type(ALLOWED), Failed]
    assert isinstance(outcomes[1].decision, Failed)
    assert outcomes[1].decision.kind is FailureKind.UNKNOWN_CONTROLLER


def test_a_controller_without_a_mutating_handler_is_not_hosted() -> None:
    both = hosted("v", controllers.allowing)
    validating = msgspec.structs.replace(both, handlers=msgspec.structs.replace(both.handlers, mutate=None))
    [outcome] = asyncio.run(MutatorHost([validating], ANY_NAMESPACE).mutate(review_of(), [Call("v")]))
    assert isinstance(outcome.decision, Failed)


def test_the_object_is_not_parsed_unless_a_controller_reads_it() -> None:
    review = review_of(b"not JSON")
    host = MutatorHost([hosted("a", controllers.allowing, trusted=True)], ANY_NAMESPACE)
    assert kinds(asyncio.run(host.mutate(review, [Call("a")] * 3))) == [type(ALLOWED)] * 3


def counting(counts: list[str]) -> Callable[[Review], Answer]:
    """Make a handler that looks at the object and notes which one it was."""

    def handler(review: Review) -> Answer:
        counts.append(str(id(review.object)))
        return allow()

    return handler


def test_the_object_is_parsed_once_for_all_controllers() -> None:
    seen: list[str] = []
    mutate({"a": counting(seen), "b": counting(seen), "c": counting(seen)}, review_of(b'{"a": 1}'))
    assert len(set(seen)) == 1


def test_the_reviewed_object_stays_unchanged() -> None:
    review = review_of(Document.from_data(POD).raw)
    mutate({"a": labelling("a"), "b": labelling("b")}, review)
    assert review.object == POD


def test_controllers_look_up_objects_in_the_hosts_cluster() -> None:
    cluster, seen = ObjectStore(), []

    def looking(review: Review) -> Answer:
        seen.append(review.cluster)
        return allow()

    host = MutatorHost([hosted("a", looking)], cluster)
    asyncio.run(host.mutate(review_of(), [Call("a")]))
    assert seen == [cluster]


def test_a_chain_ends_at_its_deadline_with_the_outcomes_so_far() -> None:
    handlers: dict[str, Handler] = {
        "a": controllers.allowing,
        "b": controllers.hanging,
        "c": controllers.denying,
    }
    host = MutatorHost([hosted(name, handler) for name, handler in handlers.items()], ANY_NAMESPACE)

    async def run() -> list[Outcome]:
        return await host.mutate(review_of(), [Call("a"), Call("b"), Call("c")], Deadline.after(0.1))

    outcomes = asyncio.run(run())
    assert outcomes[-1].decision == Failed(FailureKind.TIMEOUT, "context deadline exceeded")
    assert len(outcomes) == 2
