"""What docs/performance.md shows is what was committed."""

from __future__ import annotations

import curves
import goals
import pages
import plots
import pytest
import tables
from peer_servers import SERVERS
from results import COMMITTED, Circumstances, Results, merged, read


@pytest.fixture(scope="module")
def committed() -> Results:
    return read(COMMITTED)


def test_the_page_shows_the_committed_figures(committed: Results) -> None:
    page = pages.PAGE.read_text("utf-8")
    assert "<!-- figures -->" in page
    assert pages.with_figures(page, committed) == page


def test_the_plot_shows_the_committed_figures(committed: Results) -> None:
    assert COMMITTED.with_suffix(".svg").read_text("utf-8") == plots.plot(committed)


def test_the_curves_show_the_committed_figures(committed: Results) -> None:
    kept = {path.name: path.read_text("utf-8") for path in curves.FOLDER.glob("*.svg")}
    made = {curves.file_name(name): drawing for name, drawing in curves.drawings(committed).items()}
    assert kept == made
    assert made.keys() == {curves.file_name(name) for name in curves.GROWING}


def test_the_committed_goals_are_those_that_the_figures_give(committed: Results) -> None:
    assert committed.goals == goals.judge(committed)


def test_every_section_was_measured_or_it_is_said_why_not(committed: Results) -> None:
    assert tables.TITLES.keys() - committed.left_out.keys() == committed.sections.keys()
    assert committed.measured.keys() == committed.sections.keys()


def test_every_goal_was_measured_or_it_is_said_why_not(committed: Results) -> None:
    unmeasured = [goal for goal in committed.goals if goal.figure is None]
    known = {why for why in committed.left_out.values() if why}
    assert [goal.goal for goal in unmeasured if not any(why in goal.note for why in known)] == []


def test_every_rate_has_the_cpu_time_of_a_review_beside_it(committed: Results) -> None:
    figures = [
        figures
        for section in committed.sections.values()
        for shapes in section.values()
        for figures in shapes.values()
    ]
    assert [found for found in figures if "rate" in found and "cpu" not in found] == []


def run(day: int, sections: dict[str, float], left_out: dict[str, str] | None = None) -> Results:
    return Results(
        measured={name: {"at": f"day {day}"} for name in sections},
        sections={name: {"/validate": {"1 connection": {"p50": p50}}} for name, p50 in sections.items()},
        left_out=left_out or {},
    )


def medians(results: Results) -> dict[str, float | None]:
    return {name: results.figure(name, "/validate", "1 connection", "p50") for name in results.sections}


KNOWN = ["paths", "fan-out", "peers"]


def test_a_run_of_some_sections_leaves_the_others_as_they_were() -> None:
    both = merged(run(1, {"paths": 1.0, "peers": 2.0}), run(2, {"peers": 3.0}), KNOWN, SERVERS)
    assert medians(both) == {"paths": 1.0, "peers": 3.0}
    assert both.measured == {"paths": {"at": "day 1"}, "peers": {"at": "day 2"}}


def test_a_section_that_is_gone_is_dropped() -> None:
    both = merged(run(1, {"paths": 1.0, "eras": 2.0}), run(2, {"fan-out": 3.0}), KNOWN, SERVERS)
    assert medians(both) == {"paths": 1.0, "fan-out": 3.0}
    assert both.measured.keys() == both.sections.keys()


def test_what_was_left_out_is_so_until_it_is_measured() -> None:
    before = run(1, {"peers": 1.0}, {"fan-out": "there is no flag", "OPA": "there is no Go toolchain"})
    untouched = merged(before, run(2, {"paths": 2.0}), KNOWN, SERVERS)
    assert untouched.left_out == before.left_out
    measured = merged(before, run(2, {"fan-out": 2.0, "peers": 2.0}), KNOWN, SERVERS)
    assert measured.left_out == {}


def test_what_cannot_be_measured_any_more_keeps_no_figures() -> None:
    both = merged(run(1, {"fan-out": 1.0}), run(2, {}, {"fan-out": "there is no flag"}), KNOWN, SERVERS)
    assert (both.sections, both.measured) == ({}, {})
    assert both.left_out == {"fan-out": "there is no flag"}


def test_a_section_of_another_run_says_so_on_the_page() -> None:
    circumstances: Circumstances = {
        "cores": 2,
        "processor": "AMD",
        "python": "3.11",
        "rounds": 3,
        "seconds": 1.0,
    }
    figures = {"1 connection": {"p50": 0.001, "rate": 1000.0, "cpu": 0.001}}
    shown = pages.figures(
        Results(
            measured={
                "paths": {"at": "Monday", **circumstances},
                "payloads": {"at": "Monday", **circumstances},
                "waits": {"at": "Friday", "load": 6.5, **circumstances},
            },
            sections={"paths": {"/admit": figures}, "payloads": {"/admit": figures}, "waits": {"x": figures}},
        )
    )
    assert shown.count("Monday") == 1
    assert shown.index("Monday") < shown.index(f"### {tables.TITLES['paths']}")
    assert shown.index(f"### {tables.TITLES['waits']}") < shown.index("Friday")
    assert "load average before it 6.5" in shown
