"""What one service observes: which charged objects have arrived, and which charges are old enough to be given back."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.cluster.store import ObjectStore
from pratique.controllers.quota.ledger_integrity import LedgerDamageError
from pratique.controllers.quota.ledger_observations import (
    LedgerObservations,
    count_accounts,
    has_arrived,
    was_removed,
)
from support.quota_ledgers import charge, quota, sizes_of_pods, stored_pod

WAIT = 150.0


class Clock:
    """A clock that moves on command."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("charged", "stored", "arrived"),
    [
        ({}, None, False),
        ({}, {}, True),
        ({}, {"uid": "7"}, True),
        ({"uid": "7"}, {"uid": "7"}, True),
        ({"uid": "7"}, {"uid": "8"}, False),  # an earlier object of the same name
        ({"uid": "7"}, {}, True),
        ({"name": ""}, {}, False),  # its name was still to be generated
        ({"old_resource_version": "7"}, {"version": "7"}, False),
        ({"old_resource_version": "7"}, {"version": "8"}, True),
        ({"old_resource_version": "9"}, {"version": "10"}, True),
        ({"old_resource_version": "10"}, {"version": "9"}, False),
        ({"old_resource_version": ""}, {"version": "8"}, False),
        ({"old_resource_version": "7"}, {}, False),
        ({"old_resource_version": "7"}, {"version": "newer"}, False),
        ({"old_resource_version": "7"}, {"version": "٨"}, False),
    ],
)
def test_an_object_has_arrived_if_the_cluster_holds_what_was_charged(
    charged: dict[str, Any], stored: dict[str, Any] | None, *, arrived: bool
) -> None:
    cluster = ObjectStore([] if stored is None else [stored_pod("web", **stored)])
    assert has_arrived(cluster, charge(**{"name": "web", **charged})) is arrived


@pytest.mark.parametrize(
    ("stored", "removed"), [(None, True), ({"uid": "7"}, False), ({"uid": "8"}, True), ({}, False)]
)
def test_an_object_was_removed_if_it_is_missing_or_replaced(
    stored: dict[str, Any] | None, *, removed: bool
) -> None:
    cluster = ObjectStore([] if stored is None else [stored_pod("web", **stored)])
    assert was_removed(cluster, charge("web", uid="7")) is removed


@pytest.mark.parametrize(
    ("looks", "horizon"),
    [
        ([(0, "a", 5)], 0),  # nobody knows how old the first state is
        ([(0, "a", 5), (100, "b", 7)], 0),
        ([(0, "a", 5), (149, "b", 7), (150, "c", 8)], 0),  # the second state may be older than charge 5
        ([(0, "a", 5), (150, "b", 7), (151, "c", 8)], 5),
        ([(0, "a", 5), (150, "b", 7), (300, "c", 8), (301, "d", 9)], 7),
        ([(0, "a", 5), (150, "b", 7), (300, "b", 8), (450, "b", 9)], 0),  # the state has not changed since
        ([(0, "a", 5), (1000, "a", 7), (1001, "b", 8)], 5),
    ],
)
def test_a_charge_is_given_back_only_for_a_state_younger_by_the_waiting_time(
    looks: list[tuple[float, str, int]], horizon: int
) -> None:
    clock = Clock()
    observations = LedgerObservations(WAIT, clock)
    for clock.seconds, state, latest in looks:
        observations.record_ledger(0, latest, 0)
        observations.record_cluster(state)
    assert observations.horizon == horizon


def test_charges_that_another_service_gave_back_count_as_old() -> None:
    observations = LedgerObservations(WAIT, Clock())
    observations.record_ledger(1, 5, 4)
    observations.record_cluster("a")
    observations.record_ledger(2, 5, 4)
    observations.record_cluster("b")
    assert observations.horizon == 4


@pytest.mark.parametrize(("turn", "settled"), [(0, 4), (1, 3), (0, 3)])
def test_a_ledger_that_went_back_is_damaged(turn: int, settled: int) -> None:
    observations = LedgerObservations(WAIT, Clock())
    observations.record_ledger(1, 5, 4)
    with pytest.raises(LedgerDamageError, match="an older copy has replaced it"):
        observations.record_ledger(turn, 5, settled)


def test_fewer_charges_alone_are_no_damage() -> None:
    clock = Clock()
    observations = LedgerObservations(WAIT, clock)
    for clock.seconds, state, latest in ((0, "a", 9), (3, "a", 3), (160, "b", 3), (161, "c", 3)):
        observations.record_ledger(0, latest, 0)
        observations.record_cluster(state)
    assert observations.horizon == 9


def test_an_account_without_its_quota_has_no_usage() -> None:
    cluster = ObjectStore([quota(uid="1"), stored_pod("web", size=2)])
    keys = [("shop", "quota", "1"), ("shop", "quota", "2"), ("shop", "gone", "1")]
    counts = count_accounts(cluster, keys, sizes_of_pods)
    assert [count.used is None for count in counts] == [False, True, True]


def test_an_account_that_cannot_be_counted_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> dict[str, Any]:
        raise ValueError("hunter2")

    assert count_accounts(ObjectStore([quota()]), [("shop", "quota", "1")], fail) == []
    assert caplog.messages == ["a quota was not reconciled"]
