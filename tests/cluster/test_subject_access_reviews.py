"""The authorizer that asks an API server: its questions, what it remembers, and what it does without an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import (
    AuthorizationAttributes,
    AuthorizationDecision,
    UnansweredError,
    continue_evaluation,
)
from pratique.cluster.store import ObjectStore
from pratique.cluster.subject_access_reviews import MAX_QUESTIONS, AnswerCache
from support.access_review_servers import AccessReviewServer, access_review_server, asking
from support.chains import pod_review

ALLOWED, REFUSED = AuthorizationDecision(allowed=True), AuthorizationDecision(allowed=False)
ANSWER = {"status": {"allowed": True}}


def question(user: str = "ann", **fields: str) -> AuthorizationAttributes:
    given = {"verb": "get", "resource": "pods", **fields}
    return AuthorizationAttributes(user=UserInfo(user), **given)


@pytest.fixture(name="server")
def _server() -> Iterator[AccessReviewServer]:
    with access_review_server() as server:
        yield server


def reviewing(store: ObjectStore) -> Review:
    """A review of the store, with an authorizer of its own."""
    return pod_review({}, cluster=store)


async def ask(
    store: ObjectStore, attributes: AuthorizationAttributes, until: float | None = None
) -> AuthorizationDecision:
    """Ask for one review, as evaluations do."""
    authorizer = reviewing(store).authorizer

    async def evaluate() -> AuthorizationDecision:
        return authorizer.authorize(attributes)

    return await continue_evaluation(evaluate, Exception(), until)


def answers(
    server: AccessReviewServer, folder: Path, *asked: AuthorizationAttributes, seconds: tuple[float, ...] = ()
) -> list[AuthorizationDecision]:
    async def run() -> list[AuthorizationDecision]:
        async with asking(server, folder, *seconds) as store:
            return [await ask(store, attributes) for attributes in asked]

    return asyncio.run(run())


def test_answers_are_remembered_for_the_next_review(server: AccessReviewServer, tmp_path: Path) -> None:
    asked = (question(), question("bob"), question(), question("bob"))
    assert answers(server, tmp_path, *asked) == [ALLOWED, REFUSED, ALLOWED, REFUSED]
    assert [spec["user"] for spec in server.asked] == ["ann", "bob"]


@pytest.mark.parametrize(("seconds", "users"), [((0.0, 30.0), ["ann"]), ((300.0, 0.0), ["bob"])])
def test_what_is_allowed_and_what_is_not_are_remembered_for_times_of_their_own(
    server: AccessReviewServer, tmp_path: Path, seconds: tuple[float, float], users: list[str]
) -> None:
    answers(server, tmp_path, question(), question("bob"), question(), question("bob"), seconds=seconds)
    assert [spec["user"] for spec in server.asked[2:]] == users


def test_a_question_names_the_user_and_all_that_is_asked(server: AccessReviewServer, tmp_path: Path) -> None:
    user = UserInfo("eve", "u1", ("staff",), {"scopes": ("all",)})
    whole = AuthorizationAttributes(
        user=user, verb="list", group="apps", resource="deployments", subresource="scale", namespace="shop",
        name="web", field_selector="metadata.name=web", label_selector="app=web",
    )  # fmt: skip
    answers(server, tmp_path, whole, AuthorizationAttributes(user=user, verb="get", path="/healthz"))
    who = {"user": "eve", "uid": "u1", "groups": ["staff"], "extra": {"scopes": ["all"]}}
    resource = {
        "verb": "list", "group": "apps", "version": "*", "resource": "deployments", "subresource": "scale",
        "namespace": "shop", "name": "web", "fieldSelector": {"rawSelector": "metadata.name=web"},
        "labelSelector": {"rawSelector": "app=web"},
    }  # fmt: skip
    path = {"verb": "get", "path": "/healthz"}
    assert server.asked == [{**who, "resourceAttributes": resource}, {**who, "nonResourceAttributes": path}]


@pytest.mark.parametrize(
    ("status", "decision"),
    [
        ({"allowed": True, "reason": "RBAC"}, AuthorizationDecision(allowed=True, reason="RBAC")),
        (
            {"allowed": False, "denied": True, "reason": "no"},
            AuthorizationDecision(allowed=False, reason="no"),
        ),
        (
            {"allowed": False, "evaluationError": "no such role"},
            AuthorizationDecision(allowed=False, error="no such role"),
        ),
        (
            {"allowed": True, "denied": True},
            AuthorizationDecision(
                allowed=False, error="webhook subject access review returned both allow and deny response"
            ),
        ),
    ],
)
def test_decisions_are_those_of_the_api_server(
    server: AccessReviewServer, tmp_path: Path, status: dict[str, Any], decision: AuthorizationDecision
) -> None:
    server.script = [(201, {"status": status})]
    assert answers(server, tmp_path, question(), question()) == [decision, decision]
    assert len(server.asked) == 1


@pytest.mark.parametrize("code", [500, 503, 504, 429, 0])
def test_what_passes_is_tried_again(server: AccessReviewServer, tmp_path: Path, code: int) -> None:
    server.script = [(code, {"message": "later"})]
    assert answers(server, tmp_path, question()) == [ALLOWED]
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("code", "body", "error"),
    [
        (403, {"message": "you may not ask"}, "you may not ask"),
        (404, {"message": "no such thing"}, "no such thing"),
        (201, {"status": {}}, "required field `allowed`"),
        (201, {"status": {"allowed": "yes"}}, "Expected `bool`"),
    ],
)
def test_an_error_allows_nothing_and_is_not_remembered(
    server: AccessReviewServer, tmp_path: Path, code: int, body: dict[str, Any], error: str
) -> None:
    server.script = [(code, body)]
    failed, second = answers(server, tmp_path, question(), question())
    assert not failed.allowed
    assert error in failed.error
    assert second == ALLOWED


def test_long_questions_are_not_remembered(server: AccessReviewServer, tmp_path: Path) -> None:
    names = [question(name="n" * length) for length in (9_000, 9_000, 10_000, 10_000)]
    answers(server, tmp_path, *names)
    assert len(server.asked) == 3


def test_who_asks_the_same_meanwhile_shares_the_answer(server: AccessReviewServer, tmp_path: Path) -> None:
    async def run() -> list[AuthorizationDecision]:
        server.released.clear()
        async with asking(server, tmp_path) as store:
            waiting = [asyncio.create_task(ask(store, question())) for _ in range(20)]
            await asyncio.to_thread(server.arrived.wait, 60)
            server.released.set()
            return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == [ALLOWED] * 20
    assert len(server.asked) == 1


def test_a_deadline_is_an_error_and_the_late_answer_is_remembered(
    server: AccessReviewServer, tmp_path: Path
) -> None:
    async def run() -> tuple[AuthorizationDecision, AuthorizationDecision]:
        server.released.clear()
        async with asking(server, tmp_path) as store:
            late = await ask(store, question(), time.monotonic() + 0.05)
            server.released.set()
            return late, await ask(store, question())

    late, second = asyncio.run(run())
    assert late == AuthorizationDecision(allowed=False, error="context deadline exceeded")
    assert second == ALLOWED
    assert len(server.asked) == 1


def test_a_review_asks_only_so_often_and_sees_one_answer_to_a_question(
    server: AccessReviewServer, tmp_path: Path
) -> None:
    async def run() -> tuple[list[AuthorizationDecision], AuthorizationDecision]:
        async with asking(server, tmp_path, 0.0, 0.0) as store:
            authorizer = reviewing(store).authorizer

            async def evaluate() -> list[AuthorizationDecision]:
                return [authorizer.authorize(question(name=f"n{number}")) for number in range(MAX_QUESTIONS)]

            found = await continue_evaluation(evaluate, Exception(), None)
            return found, authorizer.authorize(question(name="one too many"))

    found, further = asyncio.run(run())
    assert found == [ALLOWED] * MAX_QUESTIONS
    assert f"at most {MAX_QUESTIONS} times" in further.error
    assert len(server.asked) == MAX_QUESTIONS


def test_a_cache_drops_what_was_not_used_for_longest() -> None:
    cache = AnswerCache(2)
    for text in (b"a", b"b"):
        cache.add(text, ALLOWED, 60)
    assert cache.find(b"a") == ALLOWED
    cache.add(b"c", ALLOWED, 60)
    assert (cache.find(b"a"), cache.find(b"b"), cache.find(b"c")) == (ALLOWED, None, ALLOWED)


def test_an_unanswered_question_is_no_exception_that_policies_catch() -> None:
    assert not issubclass(UnansweredError, Exception)
