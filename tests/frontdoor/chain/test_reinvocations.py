"""Which webhooks see the object a second time."""

from __future__ import annotations

from pratique.apimachinery.json_values import Document
from pratique_frontdoor.chain.decisions import Reinvocation

BEFORE, AFTER = Document.from_data({"a": 1}), Document.from_data({"a": 2})


def test_nothing_runs_again_where_nothing_changed() -> None:
    state = Reinvocation()
    state.invoked("a", changed=False, if_needed=True)
    assert not state.wanted


def test_a_change_asks_for_a_second_round() -> None:
    state = Reinvocation()
    state.invoked("a", changed=True, if_needed=False)
    assert state.wanted


def test_a_later_change_brings_an_earlier_webhook_back() -> None:
    state = Reinvocation()
    state.invoked("early", changed=False, if_needed=True)
    state.invoked("late", changed=True, if_needed=True)
    assert not state.skips("early", 1)


def test_a_webhook_is_not_brought_back_by_its_own_change() -> None:
    state = Reinvocation()
    state.invoked("a", changed=True, if_needed=True)
    assert state.skips("a", 1)


def test_a_webhook_that_never_wants_reinvocation_sits_the_second_round_out() -> None:
    state = Reinvocation()
    state.invoked("early", changed=False, if_needed=False)
    state.invoked("late", changed=True, if_needed=False)
    assert state.skips("early", 1)


def test_a_change_between_the_rounds_brings_back_all_that_asked() -> None:
    state = Reinvocation()
    state.invoked("a", changed=True, if_needed=True)
    state.end(BEFORE)
    state.begin(AFTER, 1)
    assert not state.skips("a", 1)


def test_an_unchanged_object_between_the_rounds_brings_nobody_back() -> None:
    state = Reinvocation()
    state.invoked("a", changed=True, if_needed=True)
    state.end(BEFORE)
    state.begin(Document.from_data({"a": 1}), 1)
    assert state.skips("a", 1)


def test_in_the_first_round_nobody_sits_out() -> None:
    assert not Reinvocation().skips("a", 0)


def test_a_webhook_can_be_brought_back_during_the_second_round() -> None:
    state = Reinvocation()
    state.invoked("a", changed=False, if_needed=True)
    state.invoked("b", changed=True, if_needed=True)
    state.invoked("a", changed=True, if_needed=True)
    assert not state.skips("b", 1)
