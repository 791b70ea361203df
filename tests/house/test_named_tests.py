"""Pages that say which test shows what: each of these tests is there, and no row is without one."""

from __future__ import annotations

import pytest

from support.documented_tests import ROOT, NamedTest, badly_named_in, is_there, named_in, rows_of

PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("threat-model", "reliability", "supply-chain")
}
NON_GOALS = {"6", "17"}
"""Who is root on the node or in the cluster is beyond what a webhook can do anything about."""
NO_ANALOGUE = {"12"}
"""Discovery documents are the API server's own."""
LISTED = [*range(1, 37), 40, 41, 42, 43, 44, 45, 50, 60, 61, 70]
"""The numbers of the list of tests of reliability."""

each_page = pytest.mark.parametrize("page", PAGES)


@each_page
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = named_in(PAGES[page])
    assert len(named) > 4
    assert [str(test) for test in named if not is_there(test)] == []


@each_page
def test_every_test_is_named_in_full(page: str) -> None:
    assert badly_named_in(PAGES[page]) == []


def test_every_threat_has_a_row_with_a_test() -> None:
    rows = rows_of(PAGES["threat-model"], "Threats")
    assert list(rows) == [str(number) for number in range(1, 19)]
    assert {number for number, cells in rows.items() if not named_in(cells[-1])} == NON_GOALS


def test_every_mitigation_is_answered() -> None:
    rows = rows_of(PAGES["threat-model"], "Mitigations")
    assert list(rows) == [f"M{number}" for number in range(1, 11)]
    helping = {
        one for cells in rows_of(PAGES["threat-model"], "Threats").values() for one in cells[1].split(", ")
    }
    assert helping - {"none"} < rows.keys()


def test_every_incident_has_a_test() -> None:
    rows = rows_of(PAGES["threat-model"], "What has gone wrong elsewhere")
    assert len(rows) == 10
    assert all(named_in(cells[-1]) for cells in rows.values())


def test_the_whole_list_of_tests_of_reliability_is_there() -> None:
    rows = rows_of(PAGES["reliability"], "The list")
    assert list(rows) == [f"R-{number:02}" for number in LISTED]


def test_where_no_test_is_named_nothing_was_seen() -> None:
    rows = rows_of(PAGES["reliability"], "The list")
    assert [number for number, cells in rows.items() if not named_in(cells[2]) and cells[3] != "—"] == []


def test_every_conformance_test_has_an_analogue() -> None:
    rows = rows_of(PAGES["reliability"], "Conformance tests of webhooks")
    assert list(rows) == [str(number) for number in range(1, 23)]
    assert {number for number, cells in rows.items() if not named_in(cells[-1])} == NO_ANALOGUE


@pytest.mark.parametrize(
    "name",
    [
        NamedTest("tests/house/test_named_tests.py", "test_of_which_there_is_none"),
        NamedTest("tests/house/test_of_which_there_is_none.py"),
        NamedTest("tests/house/test_named_tests.py", "PAGES"),
    ],
    ids=str,
)
def test_a_test_that_is_not_there_is_found(name: NamedTest) -> None:
    assert not is_there(name)


@pytest.mark.parametrize(
    "text", ["`::test_x`", "`test_x.py::test_y`", "`tests/a/test_x.py::test_y (3 rows)`"]
)
def test_a_name_in_part_is_found(text: str) -> None:
    assert badly_named_in(text) == [text]
