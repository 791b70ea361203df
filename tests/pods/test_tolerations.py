"""Tolerations: matching, supersets, merging, validation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.results import Edits
from pratique.apimachinery.field_errors import ROOT, join
from pratique.apimachinery.json_values import JSON
from pratique.pods import tolerations
from pratique.pods.tolerations import EQUAL, EXISTS, NO_EXECUTE, Supersets, Toleration
from support.strategies.json_values import values
from support.strategies.tolerations import any_tolerations, lists

ALL = Toleration(operator="Exists")
FOO = Toleration("foo", "Exists")
FOO_BAR = Toleration("foo", "Equal", "bar")
FOO_BAZ = Toleration("foo", "Equal", "baz")
FOO_NO_SCHEDULE = Toleration("foo", "Exists", "", "NoSchedule")
FOO_NO_EXECUTE = Toleration("foo", "Exists", "", "NoExecute")
FOO_TEN = Toleration("foo", "Exists", "", "NoExecute", 10)
FOO_ZERO = Toleration("foo", "Exists", "", "NoExecute", 0)
IMPLIED = Toleration("foo", "", "bar")


@pytest.mark.parametrize(
    ("general", "special", "expected"),
    [
        (ALL, FOO_BAR, True),
        (ALL, FOO_TEN, True),
        (FOO, ALL, False),
        (FOO, FOO_BAR, True),
        (FOO_BAR, FOO, False),
        (FOO_BAR, FOO_BAZ, False),
        (FOO, FOO_NO_SCHEDULE, True),
        (FOO_NO_SCHEDULE, FOO, False),
        (FOO_NO_SCHEDULE, FOO_NO_EXECUTE, False),
        (FOO_NO_EXECUTE, FOO_TEN, True),
        (FOO_TEN, FOO_NO_EXECUTE, False),
        (FOO_TEN, FOO_ZERO, True),
        (FOO_ZERO, FOO_TEN, False),
        (FOO, Toleration("fool", "Exists"), False),
        (IMPLIED, FOO_BAR, True),
        (FOO_BAR, IMPLIED, False),
        (IMPLIED, IMPLIED, True),
        (FOO, IMPLIED, True),
        (Toleration("foo", "Lt", "1"), Toleration("foo", "Lt", "2"), False),
        (Toleration("", "Equal", "bar"), FOO_BAR, False),
    ],
)
def test_supersets_are_decided_as_in_kubernetes(
    general: Toleration, special: Toleration, *, expected: bool
) -> None:
    assert Supersets([general]).has(special) is expected
    assert is_superset(general, special) is expected


def is_superset(general: Toleration, special: Toleration) -> bool:
    """``isSuperset``, as Kubernetes compares two tolerations."""
    if general == special:
        return True
    if special.key != general.key and (general.key or general.operator != EXISTS):
        return False
    if general.effect not in {"", special.effect} or expires_before(general, special):
        return False
    if general.operator in {EQUAL, ""}:
        return special.operator == EQUAL and special.value == general.value
    return general.operator == EXISTS


def expires_before(general: Toleration, special: Toleration) -> bool:
    limit = general.toleration_seconds
    if general.effect != NO_EXECUTE or limit is None:
        return False
    return special.toleration_seconds is None or special.toleration_seconds > limit


@given(lists(), any_tolerations())
def test_supersets_are_those_that_a_comparison_of_each_pair_finds(
    some: list[Toleration], special: Toleration
) -> None:
    found = [general for general in some if is_superset(general, special)]
    assert Supersets(some).has(special) is bool(found)
    assert Supersets(some).has_strict(special) is any(not is_superset(special, general) for general in found)


def merged(*all_of_them: Toleration) -> list[Toleration]:
    return [all_of_them[index] for index in tolerations.merge_tolerations(all_of_them)]


@pytest.mark.parametrize(
    ("given_ones", "expected"),
    [
        ([], []),
        ([FOO, FOO], [FOO]),
        ([FOO_BAR, FOO_BAZ], [FOO_BAR, FOO_BAZ]),
        ([FOO_BAR, FOO_BAZ, FOO], [FOO]),
        ([FOO_BAR, ALL, FOO_BAZ], [ALL]),
        ([FOO_TEN, FOO_NO_EXECUTE], [FOO_NO_EXECUTE]),
        ([IMPLIED, FOO_BAR], [IMPLIED]),
    ],
)
def test_covered_tolerations_are_left_out(given_ones: list[Toleration], expected: list[Toleration]) -> None:
    assert merged(*given_ones) == expected


@given(lists())
def test_merging_loses_nothing_that_was_tolerated(some: list[Toleration]) -> None:
    assert all(any(is_superset(kept, toleration) for kept in merged(*some)) for toleration in some)


@given(lists())
def test_merging_is_idempotent(some: list[Toleration]) -> None:
    once = merged(*some)
    assert merged(*once) == once


@given(lists(), lists())
def test_duplicates_are_merged_away(own: list[Toleration], added: list[Toleration]) -> None:
    once = merged(*own, *added)
    assert merged(*once, *added) == once


@pytest.mark.parametrize("covered", [1, 1_000])
def test_covered_tolerations_leave_a_pod_whatever_their_number(covered: int) -> None:
    edits = Edits({"spec": {"tolerations": [FOO_BAR.document] * covered + [FOO_NO_EXECUTE.document]}})
    tolerations.merge_into_pod(edits, [FOO])
    assert edits.document == {"spec": {"tolerations": [FOO.document]}}
    assert len(edits.operations) <= 3


@given(lists())
def test_a_list_allows_itself_and_its_merged_form(some: list[Toleration]) -> None:
    assert tolerations.all_covered(some, some)
    assert tolerations.all_covered(some, merged(*some))
    assert tolerations.all_covered(some, [])


@given(lists(), lists())
def test_conflicts_are_symmetric(first: list[Toleration], second: list[Toleration]) -> None:
    assert tolerations.is_conflict(first, second) is tolerations.is_conflict(second, first)
    assert not tolerations.is_conflict(first, [])
    assert not tolerations.is_conflict(first, first)


@given(lists(), lists())
def test_a_listed_toleration_is_covered(own: list[Toleration], allowed: list[Toleration]) -> None:
    distinct = list({toleration.key_and_effect: toleration for toleration in own}.values())
    if tolerations.all_listed(distinct, allowed):
        assert tolerations.all_covered(distinct, allowed)


@given(any_tolerations())
def test_a_toleration_round_trips(toleration: Toleration) -> None:
    assert tolerations.read_toleration(toleration.document) == toleration
    assert "" not in toleration.document.values()


@given(values())
def test_any_json_reads_as_a_toleration(value: JSON) -> None:
    assert isinstance(tolerations.read_toleration(value), Toleration)
    assert isinstance(tolerations.pod_tolerations({"spec": {"tolerations": value}}), list)


@given(any_tolerations(), st.none() | st.integers(0, 5))
def test_matching_ignores_toleration_seconds(toleration: Toleration, seconds: int | None) -> None:
    other = Toleration(toleration.key, toleration.operator, toleration.value, toleration.effect, seconds)
    assert tolerations.match_toleration(toleration, other)


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        (FOO_TEN, None),
        (ALL, None),
        (IMPLIED, None),
        (
            Toleration("a b", "Exists"),
            (
                "p[0].key: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.',"
                " and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
                "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ),
        (
            Toleration("", "Equal"),
            (
                'p[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty,'
                ' which means "match all values and all keys"'
            ),
        ),
        (
            Toleration("foo", "Exists", "", "NoSchedule", 1),
            "p[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        (
            Toleration("foo", "Exists", "x"),
            (
                'p[0].operator: Invalid value: {"key":"foo","operator":"Exists","value":"x"}:'
                " value must be empty when `operator` is 'Exists'"
            ),
        ),
        (
            Toleration("foo", "Lt"),
            'p[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists"',
        ),
        (
            Toleration("foo", "Exists", "", "Now"),
            'p[0].effect: Unsupported value: "Now": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
    ],
)
def test_invalid_tolerations_are_refused_in_kubernetes_words(
    toleration: Toleration, text: str | None
) -> None:
    faults = tolerations.validate_tolerations([toleration], ROOT / "p")
    assert (join(faults) if faults else None) == text


def test_an_invalid_toleration_value_is_refused() -> None:
    (fault,) = tolerations.validate_tolerations([Toleration("foo", "Equal", "a b")], ROOT / "p")
    assert str(fault).startswith(
        'p[0].operator: Invalid value: "a b": a valid label must be an empty string or'
    )
