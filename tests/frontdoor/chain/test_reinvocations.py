"""Which webhooks see the object a second time."""

from __future__ import annotations

from pratique.apimachinery.json_values import Document
from pratique_frontdoor.chain.decisions import Reinvocation

BEFORE, AFTER = Document.from_data({"a": 1}), Document.from_data({"a": 2})


def test_nothing_runs_again_without_a_change() -> None:
    state = Reinvocation()
    state.invoked("a", changed=False, if_needed=True)
    assert not state.wanted


def test_a_change_asks_for_a_second_round() -> None:
    state = Reinvocation()
    state.invoked("a", changed=True, if_needed=False)
    assert state.wanted


def test_a_later_change_reinvokes_an_earlier_webhook() -> None:
    state = Reinvocation()
    state.invoked("early", changed=False, if_needed=True)
    state.invoked("late", changed=True, if_needed=True)
    assert not state.skips("early", 1)


def test_a_webhook_is_not_reinvoked_by_its_own_change() -> None:
    state = Reinvocation()
    state.invoked("a", changed=True, if_needed=True)
    assert state.skips("a", 1)


def test_a_webhook_with_never_skips_the_second_round() -> None:
    state = Reinvocation()
    state.invoked("early", changed=False, if_needed=False)
    state.invoked("late", changed=True, if_needed=False)
    assert state.skips("early", 1)


def test_a_change_between_the_rounds_reinvokes_all_webhooks_with_if_needed() -> None:
    state = Reinvocation()
    state.invoked("a", changed=True, if_needed=True)
    state.end(BEFORE)
    state.begin(AFTER, 1)
    assert not state.skips("a", 1)


def test_an_unchanged_object_between_the_rounds_reinvokes_no_webhook() -> None:
    state = Reinvocation()
    state.invoked("a", changed=True, if_needed=True)
    state.end(BEFORE)
    state.begin(Document.from_data({"a": 1}), 1)
    assert state.skips("a", 1)


def test_no_webhook_skips_the_first_round() -> None:
    assert not Reinvocation().skips("a", 0)


def test_a_webhook_can_be_reinvoked_during_the_second_round() -> None:
    state = Reinvocation()
    state.invoked("a", changed=False, if_needed=True)
    state.invoked("b", changed=True, if_needed=True)
    state.invoked("a", changed=True, if_needed=True)
    assert not state.skips("b", 1)
