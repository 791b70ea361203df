"""Pages that say which test shows what: each of these tests exists, and no entry lacks one."""

from __future__ import annotations

import re

import pytest

from support.documented_tests import ROOT, NamedTest, badly_named_in, entries_of, is_there, named_in

PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("threat-model", "reliability", "supply-chain")
}
NON_GOALS = {"6", "17"}
"""No webhook can do anything about someone who is root on the node or in the cluster."""
NO_ANALOGUE = {"12"}
"""Discovery documents are the API server's own."""
LISTED = [*range(1, 37), 40, 41, 42, 43, 44, 45, 46, 50, 60, 61, 70]
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


def test_every_threat_has_an_entry_with_a_test() -> None:
    entries = entries_of(PAGES["threat-model"], "Threats")
    assert list(entries) == [str(number) for number in range(1, 19)]
    assert without_tests(entries) == NON_GOALS


def test_every_mitigation_is_answered() -> None:
    section = PAGES["threat-model"].partition("\n## Mitigations\n")[2].partition("\n## ")[0]
    mitigations = re.findall(r"^- \*\*(M\d+)\*\*", section, re.MULTILINE)
    assert mitigations == [f"M{number}" for number in range(1, 11)]
    threats = entries_of(PAGES["threat-model"], "Threats").values()
    helping = {mitigation for threat in threats for mitigation in threat["Helps"].split(", ")}
    assert helping - {"none"} < set(mitigations)


def test_every_incident_has_a_test() -> None:
    entries = entries_of(PAGES["threat-model"], "What has gone wrong elsewhere")
    assert len(entries) == 10
    assert not without_tests(entries)


def test_the_whole_list_of_tests_of_reliability_is_there() -> None:
    entries = entries_of(PAGES["reliability"], "The list")
    assert list(entries) == [f"R-{number:02}" for number in LISTED]


def test_where_no_test_is_named_nothing_was_seen() -> None:
    entries = entries_of(PAGES["reliability"], "The list")
    assert [number for number in without_tests(entries) if entries[number]["Seen"] != "—"] == []


def test_every_conformance_test_has_an_analogue() -> None:
    entries = entries_of(PAGES["reliability"], "Conformance tests of webhooks")
    assert list(entries) == [str(number) for number in range(1, 23)]
    assert without_tests(entries) == NO_ANALOGUE


def without_tests(entries: dict[str, dict[str, str]]) -> set[str]:
    return {key for key, fields in entries.items() if not named_in(fields.get("Tests", ""))}


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
