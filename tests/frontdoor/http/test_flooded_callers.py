"""A flood of unauthenticated clients: allowed callers are answered throughout."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import http.client
import resource
import ssl
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from pratique_frontdoor.http.servers import WANTED_OPEN_FILES
from support.certificate_mounts import Mount
from support.front_doors.reviews import review_body
from support.front_doors.running import JSON_TYPE, PATIENCE_SECONDS, Door, exchange, open_door_process
from support.front_doors.strangers import FOREIGN, KINDS, KNOWN, Plan, strangers
from support.waiting import within

BODY = review_body()
CALLERS = 4
REVIEWS_A_CONNECTION = 10
PAUSE_SECONDS = 0.02
REVIEW_BYTES = 65536
"""What each counts for at least."""
CUT_OFF = {"closed", "refused", "ConnectionResetError"}
ENDS = dict.fromkeys(KINDS, CUT_OFF) | {
    "without a certificate": {"401"} | CUT_OFF,
    "known, and its review hangs": {"503", "504"} | CUT_OFF,
}
"""Possible results of unauthenticated clients."""


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The front door's files, and those of both sorts of callers."""
    folder = tmp_path_factory.mktemp("flooded")
    authority = trustme.CA()
    Mount.of(folder / "door", authority.issue_cert("127.0.0.1"), authority)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name, issuer in {KNOWN: authority, FOREIGN: trustme.CA()}.items():
        shown = issuer.issue_cert("api.example.com", common_name="kube-apiserver")
        shown.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
    return folder


def settings_in(folder: Path, **settings: Any) -> dict[str, Any]:
    """A front door that lets the API server in."""
    own = folder / "door"
    return {
        "tls_cert_file": str(own / "tls.crt"),
        "tls_private_key_file": str(own / "tls.key"),
        "client_ca_file": str(own / "ca.crt"),
        "client_allowed_names": ["kube-apiserver"],
        "drain_seconds": 0,
        **settings,
    }


@dataclasses.dataclass
class Answers:
    """The answers to the callers, and the seconds until they came."""

    by_code: dict[int, list[float]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))
    connected: list[float] = dataclasses.field(default_factory=list)
    """How long it took to connect and to shake hands."""
    lost: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        codes = [f"{code}: {times(seconds)}" for code, seconds in sorted(self.by_code.items())]
        return "; ".join([*codes, f"connections: {times(self.connected)}"])


def times(seconds: list[float]) -> str:
    middle, last = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
    figures = ", ".join(
        f"{name} {item * 1000:.1f}" for name, item in (("p50", middle), ("p99", last), ("max", max(seconds)))
    )
    return f"{len(seconds)} in {figures} ms"


@contextlib.contextmanager
def calling(door: Door) -> Iterator[Answers]:
    """Send reviews as an API server does, over several connections that are renewed now and then."""
    answers, ending = Answers(), threading.Event()

    def call() -> None:
        while not ending.is_set():
            try:
                call_some(door, answers, ending)
            except (OSError, http.client.HTTPException) as error:
                answers.lost.append(repr(error))

    threads = [threading.Thread(target=call) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ending.set()
        for thread in threads:
            thread.join()


def call_some(door: Door, answers: Answers, ending: threading.Event) -> None:
    """Send the content of one connection."""
    with contextlib.closing(door.connect()) as connection:
        began = time.monotonic()
        connection.connect()
        answers.connected.append(time.monotonic() - began)
        for _ in range(REVIEWS_A_CONNECTION):
            began = time.monotonic()
            code = exchange(connection, "POST", "/validate", BODY, JSON_TYPE).code
            answers.by_code[code].append(time.monotonic() - began)
            ending.wait(PAUSE_SECONDS)


@contextlib.contextmanager
def open_files(limit: int | None = None) -> Iterator[int]:
    """Limit the open files of this process and its children, and return what the system grants; None is the maximum.

    None is as many as that.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit or before[1], before[1]))
    try:
        yield before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def known(folder: Path) -> ssl.SSLContext:
    """The allowed callers."""
    made = ssl.create_default_context(cafile=folder / "ca.pem")
    made.load_cert_chain(folder / f"{KNOWN}.pem")
    return made


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.parametrize(
    ("count", "seconds", "room"),
    [
        (120, 1, 8),
        pytest.param(2_000, 10, 32, marks=pytest.mark.long),
        pytest.param(2_000, 10, 2_048, marks=pytest.mark.long),
    ],
    ids=["few", "no room left", "room left"],
)
def test_allowed_callers_are_answered_during_a_flood(
    folder: Path, count: int, seconds: float, room: int
) -> None:
    settings = settings_in(folder, max_in_flight_bytes=room * REVIEW_BYTES, default_timeout_seconds=3.0)
    with open_files(), open_door_process("MoodyEngine", **settings) as running:
        door = Door(running.door.url, known(folder))
        with calling(door) as alone:
            time.sleep(1)  # so that there is something to compare with
        before = descriptors(running.process.pid)
        with calling(door) as beside, strangers(Plan(door.address[1], str(folder), count, seconds)) as crowd:
            became = crowd.became()
        all_left = within(PATIENCE_SECONDS, lambda: descriptors(running.process.pid) <= before)
        running.process.terminate()
        running.wait()
    print(f"\nalone: {alone}\nbeside them: {beside}\n{became}")  # noqa: T201 - numbers to keep an eye on
    assert (alone.lost, set(alone.by_code)) == ([], {200})
    assert beside.lost == []
    # Where there is room for all nobody is turned away; where there is none, who is turned away is told so.
    assert {200} <= set(beside.by_code) <= ({200, 503} if room < count else {200})
    assert all_left
    assert sum(sum(ends.values()) for ends in became.values()) == count
    for name in KINDS:
        assert set(became[name]) <= ENDS[name], name


@pytest.mark.parametrize("limit", [1_024, WANTED_OPEN_FILES + 1])
def test_a_front_door_raises_its_limit_of_open_files(folder: Path, limit: int) -> None:
    granted = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if granted < limit:
        pytest.skip(f"the system grants {granted}")
    with open_files(limit), open_door_process("MoodyEngine", **settings_in(folder)) as running:
        taken, most = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
        running.process.terminate()
        running.wait()
    assert (taken, most) == (max(limit, min(WANTED_OPEN_FILES, granted)), granted)
