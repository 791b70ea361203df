"""Validating controllers, side by side."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

from pratique.admission.controllers import Handler
from pratique.admission.late_reviews import OUT_OF_TIME
from pratique.admission.results import Allowed, Answer, Denied, Failed, FailureKind, Outcome, allow
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import ReviewError
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.hosting.running import ValidatorHost
from support.services import controllers
from support.services.controllers import hosted, labelling
from support.services.reviews import review_of


def validate(
    handlers: dict[str, Handler], review: Review | None = None, calls: str = "", *, trusted: bool = False
) -> list[Outcome]:
    """Host ``handlers``, and call them in their order or in that of ``calls``."""
    host = ValidatorHost(
        [hosted(name, handler, trusted=trusted) for name, handler in handlers.items()], ANY_NAMESPACE
    )
    sent = [Call(name, 0.2) for name in calls or handlers]
    return asyncio.run(host.validate(review or review_of(), sent))


def kinds(outcomes: list[Outcome]) -> list[type]:
    return [type(outcome.decision) for outcome in outcomes]


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "not trusted"])
def test_verdicts_come_in_the_order_of_the_calls(*, trusted: bool) -> None:
    handlers: dict[str, Handler] = {"a": controllers.allowing, "d": controllers.denying}
    outcomes = validate(handlers, calls="dadxa", trusted=trusted)
    assert "".join(outcome.controller for outcome in outcomes) == "dadxa"
    assert kinds(outcomes) == [Denied, Allowed, Denied, Failed, Allowed]


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (controllers.raising(ValueError()), FailureKind.ERROR),
        (controllers.raising_later(SystemExit()), FailureKind.ERROR),
        (controllers.hanging, FailureKind.TIMEOUT),
        (controllers.stubborn, FailureKind.TIMEOUT),
        (labelling("a"), FailureKind.ERROR),
    ],
    ids=["raises", "exits", "hangs", "goes on when cancelled", "patches"],
)
def test_a_failing_controller_affects_only_its_own_verdict(handler: Handler, kind: FailureKind) -> None:
    outcomes = validate({"a": controllers.allowing, "x": handler, "d": controllers.denying})
    assert kinds(outcomes) == [Allowed, Failed, Denied]
    assert isinstance(outcomes[1].decision, Failed)
    assert outcomes[1].decision.kind is kind


def test_a_review_that_took_all_its_time_twice_fails_at_once_the_third_time() -> None:
    began: list[str] = []

    async def hanging(review: Review) -> Answer:
        began.append(review.uid)
        return await controllers.hanging(review)

    async def run() -> list[Outcome]:
        host = ValidatorHost([hosted("a", hanging)], ANY_NAMESPACE)
        reviews = [msgspec.structs.replace(review_of(), uid=uid) for uid in "abc"]
        return [outcome for review in reviews for outcome in await host.validate(review, [Call("a", 0.6)])]

    assert [outcome.decision for outcome in asyncio.run(run())] == [OUT_OF_TIME] * 3
    assert began == ["a", "b"]


def test_waiting_controllers_wait_concurrently() -> None:
    async def run() -> list[Outcome]:
        together = asyncio.Barrier(3)

        async def meeting(_review: Review) -> Answer:
            await together.wait()
            return allow()

        host = ValidatorHost([hosted(name, meeting) for name in "abc"], ANY_NAMESPACE)
        return await host.validate(review_of(), [Call(name, 5) for name in "abc"])

    assert kinds(asyncio.run(run())) == [Allowed] * 3


def test_blocking_controllers_block_concurrently() -> None:
    together = threading.Barrier(3, timeout=120)

    def meeting(_review: Review) -> Answer:
        together.wait()
        return allow()

    host = ValidatorHost([hosted(name, meeting) for name in "abc"], ANY_NAMESPACE)
    outcomes = asyncio.run(host.validate(review_of(), [Call(name, 5) for name in "abc"]))
    assert kinds(outcomes) == [Allowed] * 3


def test_hanging_calls_of_one_controller_do_not_delay_another() -> None:
    release = threading.Event()
    host = ValidatorHost(
        [hosted("hangs", controllers.blocking(release)), hosted("answers", controllers.allowing)],
        ANY_NAMESPACE,
    )

    async def run() -> tuple[list[Outcome], list[Outcome]]:
        stuck = [Call("hangs", 0.2)] * 50
        return await asyncio.gather(
            host.validate(review_of(), stuck), host.validate(review_of(), [Call("answers", 0.2)])
        )

    try:
        stuck, [answered] = asyncio.run(run())
    finally:
        release.set()
    assert kinds([answered]) == [Allowed]
    assert kinds(stuck) == [Failed] * 50


def test_everything_is_answered_by_the_deadline() -> None:
    host = ValidatorHost([hosted("a", controllers.allowing), hosted("h", controllers.hanging)], ANY_NAMESPACE)

    async def run() -> list[Outcome]:
        return await host.validate(review_of(), [Call("h"), Call("a"), Call("h", 60)], Deadline.after(0.1))

    assert kinds(asyncio.run(run())) == [Failed, Allowed, Failed]


def test_an_object_that_is_not_json_rejects_the_whole_call() -> None:
    handlers: dict[str, Handler] = {"h": controllers.hanging, "a": lambda review: review.object and allow()}
    with pytest.raises(ReviewError, match=r"^review\.object is not JSON$"):
        validate(handlers, review_of(b"{"), "hah")


def test_controllers_look_up_objects_in_the_hosts_cluster() -> None:
    cluster, seen = ObjectStore(), []

    def looking(review: Review) -> Answer:
        seen.append(review.cluster)
        return allow()

    asyncio.run(ValidatorHost([hosted("a", looking)], cluster).validate(review_of(), [Call("a")]))
    assert seen == [cluster]


def test_hosts_know_no_transport() -> None:
    import subprocess
    import sys

    code = "import sys, pratique.hosting.running, pratique.hosting.running; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
