"""Reviews that were late or deadly twice fail at once, for a while."""

from __future__ import annotations

import pytest

from pratique.admission import late_reviews
from pratique.admission.late_reviews import LateReviews, late_reviews_metric
from pratique.admission.results import Failed, FailureKind
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.requests import UserInfo
from support.chains import pod_review

SECONDS = 30.0
"""How long they do so."""


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def late_twice(review: Review, clock: Clock) -> LateReviews:
    found = LateReviews("validator", clock)
    found.fail(review, 1)
    found.fail(review, 0)
    return found


def test_a_review_is_called_again_after_one_failure() -> None:
    found = LateReviews("validator", Clock())
    found.fail(pod_review(), 0)
    assert not found.refuse(pod_review())


def test_calls_that_failed_together_count_once() -> None:
    clock = Clock()
    found = LateReviews("validator", clock)
    clock.seconds = 1
    found.fail(pod_review(), 1)
    clock.seconds = 1.1
    found.fail(pod_review(), 1)
    assert not found.refuse(pod_review())


def test_a_review_that_failed_twice_is_refused_and_counted_whatever_its_uid() -> None:
    before = counted()
    assert late_twice(pod_review(), Clock()).refuse(pod_review(uid="another"))
    assert counted() == before + 1


def counted() -> float:
    [metric] = late_reviews_metric().collect()
    return sum(sample.value for sample in metric.samples)


@pytest.mark.parametrize(
    "other",
    [
        pod_review(name="other"),
        pod_review(namespace="other"),
        pod_review(subresource="ephemeralcontainers"),
        pod_review(user=UserInfo("somebody")),
        pod_review({"metadata": {"name": "web"}}),
        pod_review(old_object_document=Document.from_data({})),
        pod_review(options_document=Document.from_data({})),
    ],
    ids=["name", "namespace", "subresource", "user", "object", "old object", "options"],
)
def test_a_review_that_asks_something_else_is_called(other: Review) -> None:
    assert not late_twice(pod_review(), Clock()).refuse(other)


def test_parts_of_a_review_do_not_run_into_each_other() -> None:
    assert not late_twice(pod_review(name="ab", namespace="c"), Clock()).refuse(
        pod_review(name="b", namespace="ca")
    )


def test_a_refused_review_is_called_again_after_a_while_and_starts_over() -> None:
    clock = Clock()
    found = late_twice(pod_review(), clock)
    clock.seconds = SECONDS
    assert not found.refuse(pod_review())
    found.fail(pod_review(), 0)
    assert not found.refuse(pod_review())


def test_a_review_that_is_answered_is_forgotten() -> None:
    found = late_twice(pod_review(), Clock())
    found.answer(pod_review())
    assert not found.refuse(pod_review())


def test_a_refused_call_fails_as_the_last_one_did() -> None:
    found, ended = LateReviews("validator", Clock()), Failed(FailureKind.ERROR, "its process ended")
    found.fail(pod_review(), 0)
    found.fail(pod_review(), 0, ended)
    assert found.refuse(pod_review()) == ended


def test_only_the_latest_reviews_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_reviews, "_MAX_REVIEWS", 2)
    found = late_twice(pod_review(), Clock())
    found.fail(pod_review(name="second"), 0)
    assert found.refuse(pod_review())
    found.fail(pod_review(name="third"), 0)
    assert not found.refuse(pod_review())
