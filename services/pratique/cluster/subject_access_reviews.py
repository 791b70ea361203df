"""An authorizer that asks an API server by SubjectAccessReview, and remembers its answers.

Evaluation stays synchronous: a question whose answer is not in memory ends it early, with an error that gets the
answer, and it is evaluated again. See ``docs/adr/0038-subject-access-reviews.md``.
Sources: ``k8s.io/apiserver/plugin/pkg/authorizer/webhook/webhook.go``, ``k8s.io/apiserver/pkg/util/webhook/webhook.go``
and ``pkg/registry/authorization/subjectaccessreview/rest.go``.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import logging
import random
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

import msgspec

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.prepared_types import prepared
from pratique.cluster.api_server import ApiServer, ApiServerError, ConnectionLostError
from pratique.cluster.authorization import (
    AUTHORIZED_SECONDS,
    UNAUTHORIZED_SECONDS,
    AuthorizationAttributes,
    AuthorizationDecision,
    UnansweredError,
)

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_log = logging.getLogger(__name__)

_GROUP = "authorization.k8s.io"
_PATH = f"/apis/{_GROUP}/v1/subjectaccessreviews"
_CACHED_ANSWERS = 8192
_MAX_CACHED_LENGTH = 10_000
"""Longer questions are not remembered, because who makes the request may choose what is in them."""
_CALL_SECONDS = 10.0
"""How long a question may take, its repetitions included."""
_ATTEMPTS, _FIRST_PAUSE_SECONDS, _PAUSE_FACTOR, _PAUSE_JITTER = 5, 0.5, 1.5, 0.2
_CODES_TO_RETRY = frozenset({429, 500, 503, 504})
"""An API server sends 503 with a Retry-After, by which the webhook authorizer asks again."""
_CONCURRENT_CALLS = 32
"""Leaves connections to the watches of the same client, which has 100."""
MAX_QUESTIONS = 100
"""The most questions of one review; those beyond are errors."""


class _AccessReviewStatus(msgspec.Struct, frozen=True, rename="camel"):
    """``SubjectAccessReviewStatus``."""

    allowed: bool
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class _Question(msgspec.Struct, frozen=True):
    """The ``spec`` of a SubjectAccessReview, as JSON: equal questions have equal texts."""

    text: bytes
    is_cacheable: bool

    @classmethod
    def of(cls, attributes: AuthorizationAttributes) -> Self:
        """Word the question of a request."""
        user = attributes.user
        who = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
        spec = {**_of_request(attributes), **{name: value for name, value in who.items() if value}}
        chosen = (getattr(attributes, name) for name in _CHOSEN_FIELDS)
        is_cacheable = sum(len(text.encode()) for text in chosen) < _MAX_CACHED_LENGTH
        return cls(msgspec.json.encode(spec, order="deterministic"), is_cacheable)


_CHOSEN_FIELDS = tuple(name for name in AuthorizationAttributes.__struct_fields__ if name != "user")


def _of_request(attributes: AuthorizationAttributes) -> JSONObject:
    if attributes.path:
        return {"nonResourceAttributes": {"path": attributes.path, "verb": attributes.verb}}
    named: JSONObject = {
        "namespace": attributes.namespace,
        "verb": attributes.verb,
        "group": attributes.group,
        "version": "*",
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    }
    selectors: JSONObject = {
        name: {"rawSelector": selector}
        for name, selector in (
            ("fieldSelector", attributes.field_selector),
            ("labelSelector", attributes.label_selector),
        )
        if selector
    }
    return {"resourceAttributes": {**{key: value for key, value in named.items() if value}, **selectors}}


class AnswerCache:
    """Answers by their questions, the least recently used ones dropped; used from any thread."""

    def __init__(self, size: int = _CACHED_ANSWERS) -> None:
        """Keep at most ``size`` answers."""
        self._size = size
        self._lock = threading.Lock()
        self._answers: collections.OrderedDict[bytes, tuple[float, AuthorizationDecision]] = (
            collections.OrderedDict()
        )

    def find(self, question: bytes) -> AuthorizationDecision | None:
        """The answer to a question, if it is still remembered."""
        with self._lock:
            found = self._answers.get(question)
            if found is None:
                return None
            if time.monotonic() >= found[0]:
                del self._answers[question]
                return None
            self._answers.move_to_end(question)
            return found[1]

    def add(self, question: bytes, answer: AuthorizationDecision, seconds: float) -> None:
        """Remember an answer for that long."""
        with self._lock:
            self._answers[question] = (time.monotonic() + seconds, answer)
            self._answers.move_to_end(question)
            if len(self._answers) > self._size:
                self._answers.popitem(last=False)


class SubjectAccessReviews:
    """Asks one API server what users may do. Used in one event loop; what is remembered is read from any thread."""

    def __init__(
        self,
        server: ApiServer,
        authorized_seconds: float = AUTHORIZED_SECONDS,
        unauthorized_seconds: float = UNAUTHORIZED_SECONDS,
    ) -> None:
        """Remember nothing yet.

        Args:
            server: The API server, called as a user who may create SubjectAccessReviews.
            authorized_seconds: How long to remember that something is allowed.
            unauthorized_seconds: How long to remember that it is not.
        """
        self._server = server
        self._seconds = {True: authorized_seconds, False: unauthorized_seconds}
        self._cache = AnswerCache()
        self._asked: dict[bytes, asyncio.Task[AuthorizationDecision]] = {}
        self._calls = asyncio.Semaphore(_CONCURRENT_CALLS)
        self._decisions = dict.fromkeys(("allowed", "denied", "no_opinion", "error"), 0)
        self._cache_hits = 0

    def authorizer(self) -> SubjectAccessReviewAuthorizer:
        """The authorizer for one review."""
        return SubjectAccessReviewAuthorizer(self)

    def find(self, question: _Question) -> AuthorizationDecision | None:
        """The remembered answer to a question."""
        found = self._cache.find(question.text)
        self._cache_hits += found is not None
        return found

    async def ask(self, question: _Question, until: float | None) -> AuthorizationDecision:
        """Ask the API server; whoever asks the same meanwhile shares the answer. An error is an answer, too."""
        task = self._asked.get(question.text)
        if task is None:
            task = self._asked[question.text] = asyncio.create_task(self._decide(question))
            task.add_done_callback(lambda _: self._asked.pop(question.text))
        seconds = None if until is None else max(0.0, until - time.monotonic())
        await asyncio.wait((task,), timeout=seconds)
        if not task.done() or task.cancelled():
            return _failed("context deadline exceeded")
        return task.result()

    async def close(self) -> None:
        """Ask no more."""
        tasks = tuple(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of questions and answers."""
        from prometheus_client.metrics_core import CounterMetricFamily  # noqa: PLC0415 - as asked

        reviews = CounterMetricFamily(
            "pratique_access_reviews_total",
            "Questions to the API server what a user may do, by its decision.",
            labels=["decision"],
        )
        for decision, count in self._decisions.items():
            reviews.add_metric([decision], count)
        yield reviews
        yield CounterMetricFamily(
            "pratique_access_review_cache_hits_total",
            "Such questions that remembered answers answered.",
            value=self._cache_hits,
        )

    async def _decide(self, question: _Question) -> AuthorizationDecision:
        try:
            async with self._calls, asyncio.timeout(_CALL_SECONDS):
                status = await self._call(question)
        except TimeoutError:
            return self._fail(f"the API server did not answer within {_CALL_SECONDS:g} s")
        except (ApiServerError, msgspec.ValidationError) as error:
            return self._fail(str(error))
        decision = _decision(status)
        self._decisions[_label(status)] += 1
        if question.is_cacheable:
            self._cache.add(question.text, decision, self._seconds[status.allowed])
        return decision

    async def _call(self, question: _Question) -> _AccessReviewStatus:
        review: JSONObject = {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "SubjectAccessReview",
            "spec": msgspec.json.decode(question.text),
        }
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(_ATTEMPTS):
            try:
                answered = await self._server.create(_PATH, review)
            except ApiServerError as error:
                is_transient = error.code in _CODES_TO_RETRY or isinstance(error, ConnectionLostError)
                if not is_transient or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return msgspec.convert(answered.get("status"), prepared(_AccessReviewStatus))
            await asyncio.sleep(pause * (1 + _PAUSE_JITTER * random.random()))  # noqa: S311 - spreads load
            pause *= _PAUSE_FACTOR
        raise AssertionError  # the last attempt returns or raises

    def _fail(self, problem: str) -> AuthorizationDecision:
        self._decisions["error"] += 1
        _log.error("the API server cannot be asked what a user may do", extra={"reason": problem})
        return _failed(problem)


def _failed(problem: str) -> AuthorizationDecision:
    return AuthorizationDecision(allowed=False, error=problem)


def _label(status: _AccessReviewStatus) -> str:
    if status.denied:
        return "denied"
    return "allowed" if status.allowed else "no_opinion"


def _decision(status: _AccessReviewStatus) -> AuthorizationDecision:
    if status.denied and status.allowed:
        problem = "webhook subject access review returned both allow and deny response"
        return AuthorizationDecision(allowed=False, reason=status.reason, error=problem)
    return AuthorizationDecision(status.allowed, status.reason, status.evaluation_error)


class SubjectAccessReviewAuthorizer:
    """The authorizer for one review, whose answers stay the same until the review is decided."""

    __slots__ = ("_answers", "_reviews")

    def __init__(self, reviews: SubjectAccessReviews) -> None:
        """Answer by what ``reviews`` remembers and asks."""
        self._reviews = reviews
        self._answers: dict[bytes, AuthorizationDecision] = {}

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Decide on a request.

        Raises:
            UnansweredError: the API server has to be asked first.
        """
        question = _Question.of(attributes)
        answer = self._answers.get(question.text)
        if answer is not None:
            return answer
        if len(self._answers) >= MAX_QUESTIONS:
            return _failed(f"a review may ask at most {MAX_QUESTIONS} times what users may do")
        answer = self._reviews.find(question)
        if answer is None:
            raise UnansweredError(functools.partial(self._ask, question))
        self._answers[question.text] = answer
        return answer

    async def _ask(self, question: _Question, until: float | None) -> None:
        self._answers[question.text] = await self._reviews.ask(question, until)
