"""Validators whose time of day is set while they run: a quota neither doubles nor freezes."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from stack.test_quotas import quota, write
from support.pods import pod
from support.services.quota_validators import QuotaValidator, quota_validator
from support.waiting import until

HARD = 5
DAY = 86400
JUMPS = (300, DAY, -DAY)
OFTEN = "--resource-quota-sync-period=50ms"
RECONCILIATIONS = 4
"""After each jump, before more is asked for; several validators take turns."""
PATIENCE_SECONDS = 120

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


@pytest.fixture(name="shim", scope="module")
def _shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make the shim with that shifts the time of day")
    folder = tmp_path_factory.mktemp("shim")
    source, shim = folder / "shift.c", folder / "shift.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    return shim


@pytest.fixture(name="shifts")
def _shifts(shim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a file named as a process, or ``all``, says by how many seconds its time of day is off."""
    folder = tmp_path / "shifts"
    folder.mkdir()
    monkeypatch.setenv("SHIFTS", str(folder))
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    return folder


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Path:
    folder = tmp_path / "cluster"
    folder.mkdir()
    return folder


@pytest.fixture(name="ledger")
def _ledger(tmp_path: Path) -> Path:
    return tmp_path / "quotas.sqlite"


def flags(ledger: Path) -> tuple[str, str]:
    return OFTEN, f"--resource-quota-ledger={ledger}"


def shift(shifts: Path, whose: str, seconds: int) -> None:
    """Set the clock of a process, or of all that have none of their own, so far off; at once for whoever reads it."""
    fresh = shifts / "fresh"
    fresh.write_text(str(seconds))
    fresh.replace(shifts / whose)


async def admitted(validator: QuotaValidator, namespace: str, prefix: str) -> int:
    """How many Pods are let in, of two more than the quota allows."""
    names = [f"{prefix}-{number}" for number in range(HARD + 2)]
    return [await validator.refusal(name, namespace) for name in names].count("")


async def reconciled(ledger: Path, times: int = RECONCILIATIONS) -> None:
    """Wait until the ledger has been reconciled so many times more."""

    def turn() -> int:
        [number] = connection.execute("SELECT turn FROM pratique_quota_ledger").fetchone()
        return int(number)

    async def done() -> bool:
        return turn() >= wanted

    connection = sqlite3.connect(ledger)
    try:
        wanted = turn() + times
        await until(PATIENCE_SECONDS, done)
    finally:
        connection.close()


def test_a_jump_of_the_wall_clock_allows_nothing_more(cluster: Path, ledger: Path, shifts: Path) -> None:
    """At the start of a validator, between two reviews, and on one of several."""
    namespaces = [f"{when}-{seconds}" for when in ("start", "between", "one") for seconds in JUMPS]

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            first = await stack.enter_async_context(quota_validator(cluster, *flags(ledger)))
            for seconds in JUMPS:
                assert await admitted(first, f"start-{seconds}", "first") == HARD
            for seconds in JUMPS:
                shift(shifts, "all", seconds)
                other = await stack.enter_async_context(quota_validator(cluster, *flags(ledger)))
                await reconciled(ledger)
                assert await admitted(other, f"start-{seconds}", "more") == 0
            for when, whose in (("between", "all"), ("one", str(first.pid))):
                for seconds in JUMPS:
                    assert await admitted(other, f"{when}-{seconds}", "first") == HARD
                    shift(shifts, whose, seconds)
                    await reconciled(ledger)
                    assert await admitted(first, f"{when}-{seconds}", "more") == 0
                    assert await admitted(other, f"{when}-{seconds}", "still-more") == 0

    write(cluster, *(quota(HARD, namespace) for namespace in namespaces))
    asyncio.run(run())


def test_a_jump_of_the_wall_clock_freezes_nothing(cluster: Path, ledger: Path, shifts: Path) -> None:
    namespaces = {seconds: f"at-{seconds}" for seconds in (DAY, -DAY)}
    quotas = [quota(HARD, namespace) for namespace in namespaces.values()]
    old = {
        namespace: [pod(name=f"old-{number}", namespace=namespace) for number in range(HARD)]
        for namespace in namespaces.values()
    }

    async def run() -> None:
        async with quota_validator(cluster, *flags(ledger)) as validator:
            for namespace in old:
                await validator.refusal("begins", namespace)
                await reconciled(ledger)
                assert await validator.refusal("too-many", namespace)
            for seconds, namespace in namespaces.items():
                shift(shifts, "all", seconds)
                # Room for the one, too, that was let in before the cluster's Pods had been counted: it never arrives.
                del old[namespace][1:]
                write(cluster, *quotas, *(item for pods in old.values() for item in pods))

                async def fits(namespace: str = namespace) -> bool:
                    return not await validator.refusal("fits", namespace)

                await until(PATIENCE_SECONDS, fits)

    write(cluster, *quotas, *(item for pods in old.values() for item in pods))
    asyncio.run(run())
