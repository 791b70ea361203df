from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from pratique_frontdoor.chain.decisions import limited_warnings
from support import vector_cases

LISTS = [case for case in vector_cases.kind("warning") if "warnings" in case["input"]]
STEPS = [case for case in vector_cases.kind("warning") if "steps" in case["input"]]


def header(text: str, agent: str = "") -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 {agent or "-"} "{escaped}"'


@pytest.mark.parametrize("case", LISTS, ids=vector_cases.source)
def test_the_warnings_are_those_the_api_server_shows(case: JSONObject) -> None:
    agents = {warning["text"]: warning["agent"] for warning in case["input"]["warnings"]}
    shown = limited_warnings(warning["text"] for warning in case["input"]["warnings"])
    assert [header(text, agents[text]) for text in shown] == case["expected"]["warningHeaders"]


@pytest.mark.parametrize("case", STEPS, ids=vector_cases.source)
def test_too_many_warnings_are_truncated_as_in_the_api_server(case: JSONObject) -> None:
    limits, (first, second) = case["input"]["limits"], case["input"]["steps"]
    for texts, name in ((first, "afterStep1"), (first + second, "afterStep2")):
        shown = limited_warnings(texts, total=limits["totalRunes"], length=limits["itemRunes"])
        assert [header(text) for text in shown] == case["expected"][name]


@pytest.mark.parametrize("text", ["", "a\nb", "a\tb", "\x00", "\x7f", "\x85", "\ud800", "bell\a"], ids=ascii)
def test_a_text_that_fits_no_header_is_dropped(text: str) -> None:
    assert limited_warnings([text, "kept"]) == ["kept"]


@pytest.mark.parametrize("text", [" ", 'say "no"', "back\\slash", "ñandú", "\u2028", "\ufffd"])
def test_any_other_text_is_kept(text: str) -> None:
    assert limited_warnings([text]) == [text]


def test_warnings_that_just_fit_are_not_truncated() -> None:
    fitting = ["a" * 4000, "b" * 96]
    assert limited_warnings(fitting) == fitting
    assert limited_warnings([*fitting, "c"]) == ["a" * 256, "b" * 96, "c"]


def test_duplicates_are_compared_before_truncation() -> None:
    texts = ["a" * 4096, "b", "a" * 300, "a" * 4096]
    assert limited_warnings(texts) == ["a" * 256, "b", "a" * 256]


def test_nothing_is_added_once_truncated_warnings_reach_the_limit() -> None:
    texts = [f"{number:04}" + "x" * 300 for number in range(100)]
    shown = limited_warnings(texts)
    assert len(shown) == 4096 // 256
    assert all(len(text) == 256 for text in shown)


TEXTS = st.lists(st.text(max_size=40), max_size=30)


@given(TEXTS, st.integers(1, 60), st.integers(1, 20))
def test_every_warning_is_a_prefix_of_an_input_in_the_same_order(
    texts: list[str], total: int, each: int
) -> None:
    left = iter(texts)
    for shown in limited_warnings(texts, total=total, length=each):
        assert any(text.startswith(shown) for text in left)


@given(TEXTS)
def test_few_short_warnings_are_kept_whole_and_once(texts: list[str]) -> None:
    shown = limited_warnings(texts)
    assert limited_warnings(shown) == shown
    assert len(set(shown)) == len(shown)
