"""Schedules of CronJobs, in the words of the parser that the API server uses."""

from __future__ import annotations

import pytest

from pratique.registry.validation.schedules import schedule_fault

DIGITS = "9" * 5000
FAULTS = {
    "* * * * *": "",
    "*/15 0-6 1,15 JAN-jun mon": "",
    "@daily": "",
    "@every 1h30m": "",
    "TZ=UTC 0 * * * *": "",
    "": "empty spec string",
    "100m": "expected exactly 5 fields, found 1: [100m]",
    "* * * * * *": "expected exactly 5 fields, found 6: [* * * * * *]",
    "60 * * * *": "end of range (60) above maximum (59): 60",
    "* * 0 * *": "beginning of range (0) below minimum (1): 0",
    "5-1 * * * *": "beginning of range (5) beyond end of range (1): 5-1",
    "*/0 * * * *": "step of range should be a positive number: */0",
    "1-2-3 * * * *": "too many hyphens: 1-2-3",
    "1/2/3 * * * *": "too many slashes: 1/2/3",
    "a * * * *": 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax',
    f"{DIGITS} * * * *": (
        f'failed to parse int from {DIGITS}: strconv.Atoi: parsing "{DIGITS}": value out of range'
    ),
    "@never": "unrecognized descriptor: @never",
}


@pytest.mark.parametrize(("schedule", "fault"), FAULTS.items())
def test_a_schedule_is_refused_in_the_words_of_its_parser(schedule: str, fault: str) -> None:
    assert schedule_fault(schedule) == fault
