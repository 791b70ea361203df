"""Where the suite's time goes: seconds by folder and of the slowest tests, as a plugin of pytest.

A test's time is that of its set-up, its call and its tear-down together: a shared fixture counts for the test that
starts it. The CPU time is that of all processes of the suite and of the children that they waited for.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping

import pytest
from _pytest.terminal import TerminalReporter

SLOWEST = 10


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the times of a run that took long enough for someone to ask."""
    by_test, by_folder = defaultdict[str, float](float), defaultdict[str, float](float)
    for report in _reports(terminalreporter):
        by_test[report.nodeid] += report.duration
        by_folder[_folder(report.nodeid)] += report.duration
    if len(by_test) <= SLOWEST:
        return
    terminalreporter.section(f"{SLOWEST} slowest tests, and time by folder")
    for name, seconds in (*_slowest(by_test)[:SLOWEST], *_slowest(by_folder)):
        terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
    terminalreporter.write_line(f"{sum(by_test.values()):8.1f} s  in all; CPU time {_cpu_seconds():.0f} s")


def _slowest(times: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(times.items(), key=lambda item: item[1], reverse=True)


def _reports(reporter: TerminalReporter) -> list[pytest.TestReport]:
    return [
        report
        for reports in reporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]


def _folder(test: str) -> str:
    return "/".join(test.split("/")[:2])


def _cpu_seconds() -> float:
    """The CPU time of this process and its children; xdist's have ended, and are counted, when a summary is printed."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
