"""What docs/performance.md shows is what was committed."""

from __future__ import annotations

from collections.abc import Callable

import checks
import goals
import pages
import plots
import pytest
import tables
from paths import GRPC_ECHO, HTTP_ECHO
from results import COMMITTED, Results, read


@pytest.fixture(scope="module")
def committed() -> Results:
    return read(COMMITTED)


def test_the_page_shows_the_committed_figures(committed: Results) -> None:
    page = pages.PAGE.read_text("utf-8")
    assert "<!-- figures -->" in page
    assert pages.with_figures(page, committed) == page


def test_the_plot_shows_the_committed_figures(committed: Results) -> None:
    assert COMMITTED.with_suffix(".svg").read_text("utf-8") == plots.plot(committed)


def test_the_committed_goals_are_those_that_the_figures_give(committed: Results) -> None:
    assert committed.goals == goals.judge(committed)


def test_every_section_was_measured(committed: Results) -> None:
    assert committed.sections.keys() == tables.TITLES.keys()


def test_every_goal_was_measured(committed: Results) -> None:
    left_out = tuple(committed.left_out)
    unmeasured = [goal.goal for goal in committed.goals if goal.figure is None]
    assert [
        goal for goal in unmeasured if not goal.endswith(tuple(f"{name}, worse phase" for name in left_out))
    ] == []


def section(p50: float, rate: float = 100.0) -> dict[str, dict[str, float]]:
    figures = {"p50": p50, "p99": 2 * p50, "rate": rate}
    return {"1 connection": figures, "16 connections": figures}


def results(ours: float, *, rate: float = 150.0) -> Results:
    return Results(
        measured={},
        sections={
            "paths": {
                "/validate": section(ours),
                HTTP_ECHO: section(0.25),
                GRPC_ECHO: section(0.75),
            },
            "peers": {
                "Pratique, validate": section(1, rate),
                "Pratique, mutate": section(1, 2 * rate),
                "kopf, validate": section(1),
                "kopf, mutate": section(1),
            },
        },
    )


def judged(found: Results) -> dict[str, tuple[float | None, bool | None]]:
    return {
        goal.goal: (None if goal.figure is None else round(goal.figure, 6), goal.reached)
        for goal in goals.judge(found)
    }


def test_a_path_is_held_to_the_echoes_it_is_made_of() -> None:
    assert judged(results(1.1))["/validate, p50 ÷ floor"] == (1.1, True)
    assert judged(results(1.2))["/validate, p50 ÷ floor"] == (1.2, False)


def test_a_peer_is_compared_with_the_phase_in_which_we_are_worse() -> None:
    goal = "req/s over 16 connections ÷ kopf, worse phase"
    assert judged(results(1, rate=150))[goal] == (1.5, True)
    assert judged(results(1, rate=149))[goal] == (1.49, False)


def test_what_was_not_measured_is_neither_reached_nor_missed() -> None:
    assert judged(results(1))["start-up of pratique review"] == (None, None)


@pytest.mark.parametrize(
    ("change", "worse"),
    [
        (lambda: results(1.0), []),
        (lambda: results(1.24), []),
        (lambda: results(1.3), ["/validate, p50 ÷ floor: 1.30, where it was 1.00"]),
        (lambda: results(0.5), []),
        (
            lambda: results(1.0, rate=100),
            ["req/s over 16 connections ÷ kopf, worse phase: 1.00, where it was 1.50"],
        ),
    ],
    ids=["the same", "within the tolerance", "slower", "faster", "slower than a peer"],
)
def test_ratios_that_become_worse_are_told(change: Callable[[], Results], worse: list[str]) -> None:
    assert list(checks.regressions(change(), results(1.0))) == worse


def test_runs_without_a_ratio_in_common_are_not_compared() -> None:
    nothing = Results(measured={}, sections={})
    assert checks.compared(results(1.0), nothing) == []
    assert "/validate, p50 ÷ floor" in checks.compared(results(1.0), results(1.0))
