"""Validators whose time of day is set while they run: a quota neither doubles nor freezes."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from stack.test_quotas import allowed, call, create, quota, stack_of, write
from support.local_stacks import Stack

HARD = 5
DAY = 86400
OFTEN = "--resource-quota-sync-period=100ms"
PERIODS_SECONDS = 1.0
"""Ten periods of reconciliation."""

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    char path[4096];
    long seconds = 0;
    const char *folder = getenv("SHIFTS");
    if (folder == NULL) return 0;
    snprintf(path, sizeof path, "%s/%d", folder, (int) getpid());
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        snprintf(path, sizeof path, "%s/all", folder);
        file = fopen(path, "r");
    }
    if (file == NULL) return 0;
    if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
    fclose(file);
    return seconds;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, at);
    if (result == 0 && which == CLOCK_REALTIME) at->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (real == NULL) real = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(at, zone);
    if (result == 0) at->tv_sec += shift();
    return result;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL) *at = now.tv_sec;
    return now.tv_sec;
}
"""
"""Sets the wall clock of processes that load it, for Python and SQLite; the monotonic clock stays."""


@pytest.fixture(name="shifts")
def _shifts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a file named as a process, or ``all``, says by how many seconds its time of day is off."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make the shim with that shifts the time of day")
    source, shim, folder = tmp_path / "shift.c", tmp_path / "shift.so", tmp_path / "shifts"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    folder.mkdir()
    monkeypatch.setenv("SHIFTS", str(folder))
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    return folder


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Path:
    folder = tmp_path / "cluster"
    folder.mkdir()
    write(folder, quota(HARD))
    return folder


def asked(stack: Stack, *names: str) -> list[str]:
    """Which of these Pods are admitted."""
    answers: dict[str, Any] = {}
    call(stack, list(names), answers)
    return allowed(answers)


@pytest.mark.parametrize("seconds", [300, DAY, -DAY])
@pytest.mark.parametrize("when", ["at start", "between two reviews", "on one of two"])
def test_a_jump_of_the_wall_clock_allows_nothing_more(
    seconds: int, when: str, cluster: Path, shifts: Path, tmp_path: Path
) -> None:
    ledger = f"--resource-quota-ledger={tmp_path / 'quotas.sqlite'}"
    first = [f"first-{number}" for number in range(HARD + 2)]
    more = [f"more-{number}" for number in range(HARD + 2)]
    with stack_of(cluster, ledger, OFTEN, validators=2) as stack:
        assert len(asked(stack, *first)) == HARD
        if when != "at start":
            name = str(stack.pids("validator")[0]) if when == "on one of two" else "all"
            (shifts / name).write_text(str(seconds))
            time.sleep(PERIODS_SECONDS)
            assert asked(stack, *more) == []
    if when == "at start":
        (shifts / "all").write_text(str(seconds))
        with stack_of(cluster, ledger, OFTEN, validators=2) as stack:
            time.sleep(PERIODS_SECONDS)
            assert asked(stack, *more) == []


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_a_jump_of_the_wall_clock_freezes_nothing(
    seconds: int, cluster: Path, shifts: Path, tmp_path: Path
) -> None:
    pods = [create(f"old-{number}")["request"]["object"] for number in range(HARD)]
    write(cluster, quota(HARD), *pods)
    ledger = f"--resource-quota-ledger={tmp_path / 'quotas.sqlite'}"
    with stack_of(cluster, ledger, OFTEN, validators=2) as stack:
        asked(stack, "begins")
        until = time.monotonic() + 120
        while asked(stack, "too-many"):
            assert time.monotonic() < until
            time.sleep(0.1)
        (shifts / "all").write_text(str(seconds))
        # Room for those, too, that were let in before the cluster's Pods had been counted: they never arrive.
        write(cluster, quota(HARD), pods[-1])
        while not asked(stack, "fits"):
            assert time.monotonic() < until
            time.sleep(0.1)
