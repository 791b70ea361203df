"""Somebody's controller in a process of its own: whatever it does costs its own outcome, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pratique.admission.results import Allowed, Denied, Failed, FailureKind
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import ConfigurationError, ReviewError
from pratique.configuration.settings import ChainSettings, Isolation
from support.controller_packages import lay_out
from support.isolated_hosts import Host, hostile_package, isolating
from support.services.hostile_controllers import CONTROLLERS, SECRET
from support.services.reviews import review_of
from support.waiting import within

TIMED_OUT = Failed(FailureKind.TIMEOUT, "context deadline exceeded")
ENDED = Failed(FailureKind.ERROR, "its process ended")
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}}}\n"


def raised(error: str) -> Failed:
    return Failed(FailureKind.ERROR, f"raised {error}")


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "shop.yaml").write_text(NAMESPACE.format("shop"))
    return folder


@pytest.fixture(name="package", scope="module", autouse=True)
def _package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with hostile_package(tmp_path_factory.mktemp("packages") / "hostile"):
        yield


@pytest.fixture(name="host", scope="module")
def _host(package: None, cluster: Path) -> Iterator[Host]:
    names = tuple(one.name for one in CONTROLLERS)
    with isolating(ChainSettings(admission_control=names, cluster=(cluster,))) as host:
        yield host


@pytest.mark.parametrize(
    ("name", "decision"),
    [
        ("Spin", TIMED_OUT),
        ("SpinAsync", TIMED_OUT),
        ("Block", TIMED_OUT),
        ("BlockAsync", TIMED_OUT),
        ("HoldTheInterpreter", TIMED_OUT),
        ("Recurse", raised("RecursionError")),
        ("ExitPython", raised("SystemExit")),
        ("Interrupt", raised("KeyboardInterrupt")),
        ("ExhaustMemory", raised("MemoryError")),
        ("RaiseUnusual", raised("BaseException")),
        ("ReturnACoroutine", raised("ValueError")),
        ("ExitAtOnce", ENDED),
        ("Segfault", ENDED),
        ("Abort", ENDED),
        ("KillTheLoop", ENDED),
    ],
)
def test_a_hostile_controller_affects_only_its_own_outcome_and_answers_the_next_review(
    host: Host,
    name: str,
    decision: Failed,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Only those that go on for ever are given a time that ends soon: a busy machine must not end the others'.
    [broken] = host.ask(name, seconds=0.5 if decision == TIMED_OUT else 60)
    assert broken.decision == decision
    [after] = host.ask(name, review="good")
    assert isinstance(after.decision, Allowed)
    assert SECRET not in str(capfd.readouterr()) + caplog.text + str(broken)


def test_a_controller_that_spins_delays_no_other(host: Host) -> None:
    async def ask() -> list[object]:
        spinning = asyncio.ensure_future(host.validate("SpinAsync", seconds=10))
        [denied] = await host.validate("DenyIt")
        assert not spinning.done()
        spinning.cancel()
        await asyncio.wait([spinning])
        [after] = await host.validate("SpinAsync", review="good")
        return [denied.decision, after.decision]

    assert [type(decision) for decision in host.run(ask())] == [Denied, Allowed]


def test_a_controller_without_an_answer_fails(host: Host) -> None:
    [outcome] = host.ask("ReturnNothing")
    assert isinstance(outcome.decision, Failed)
    assert outcome.decision.message.startswith("answered with NoneType")


def test_reviews_beside_one_that_crashes_the_worker_are_answered(host: Host) -> None:
    async def ask() -> list[object]:
        names = ["slow", "slow", "bad", "slow", "slow"]
        calls = [host.validate("CrashSoon", review=name) for name in names]
        return [outcome.decision for [outcome] in await asyncio.gather(*calls)]

    decisions = host.run(ask())
    assert decisions[2] == ENDED
    assert [type(decision) for decision in decisions] == [Allowed, Allowed, Failed, Allowed, Allowed]


def test_reviews_beside_one_that_blocks_the_worker_are_answered(host: Host) -> None:
    async def ask() -> list[object]:
        spinning = asyncio.ensure_future(host.validate("SpinAsync", seconds=0.5))
        await asyncio.sleep(0.1)  # nothing tells that it spins
        others = [host.validate("SpinAsync", review="good") for _ in range(5)]
        return [outcome.decision for [outcome] in await asyncio.gather(spinning, *others)]

    assert [type(decision) for decision in host.run(ask())] == [Failed, *[Allowed] * 5]


def test_answers_come_back_completely(host: Host) -> None:
    [denied] = host.ask("DenyIt")
    assert isinstance(denied.decision, Denied)
    assert denied.decision.status.message == 'pods "web" is forbidden: not today'
    assert denied.audit_annotations == {"k": "v"}


def test_a_worker_reads_and_watches_the_services_cluster_files(host: Host, cluster: Path) -> None:
    assert host.ask("LookUp")[0].warnings == ("shop False",)
    (cluster / "yard.yaml").write_text(NAMESPACE.format("yard"))
    assert within(120, lambda: host.ask("LookUp")[0].warnings == ("shop,yard False",))


def test_a_worker_sees_none_of_the_services_environment_variables(host: Host) -> None:
    pid, flags = (*host.ask("SayPid")[0].warnings, "")[:2]
    assert int(pid) != os.getpid()
    assert flags == ""


def test_an_object_that_is_not_json_is_not_the_controllers_failure(host: Host) -> None:
    asking = host.host.validate(review_of(b"{"), [Call("DenyIt", 20)], Deadline.after(20))
    with pytest.raises(ReviewError, match=r"^review\.object is not JSON$"):
        host.run(asking)


def test_a_thread_that_never_ends_is_ended_with_its_process() -> None:
    with isolating(ChainSettings(admission_control=("SayPid", "Spin"))) as host:
        before = set(_children())
        host.ask("Spin", seconds=0.2)
        assert within(120, lambda: len(before - set(_children())) == 1)
        assert isinstance(host.ask("Spin", review="good")[0].decision, Allowed)


def test_the_processes_end_with_the_service() -> None:
    before = set(_children())
    with isolating(ChainSettings(admission_control=("SayPid", "Slow"))) as host:
        pid = int(host.ask("SayPid")[0].warnings[0])
        assert pid in _children()
    assert not Path(f"/proc/{pid}").exists()
    assert set(_children()) <= before


def test_thread_isolation_runs_the_controller_in_the_service(host: Host) -> None:
    with isolating(ChainSettings(admission_control=("SayPid",)), Isolation.THREAD) as there:
        assert there.ask("SayPid")[0].warnings[0] == str(os.getpid())


BROKEN = """
import os
from pratique import Controller, Handlers, allow
from pratique.admission.controllers import VALIDATE
from pratique.apimachinery.errors import ConfigurationError

def refuse(settings):
    raise ConfigurationError("no model there")

def end(settings):
    os._exit(7)

REFUSING = Controller(name="Refusing", summary="", phases=VALIDATE, build=refuse)
ENDING = Controller(name="Ending", summary="", phases=VALIDATE, build=end)
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Refusing", r'^couldn\'t init admission plugin "Refusing": no model there$'),
        ("Ending", r"^admission controller Ending: its process exited with 7 before it was ready$"),
    ],
)
def test_a_controller_that_cannot_start_is_rejected_at_start_up(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path / "p", "acme_broken", BROKEN, a="REFUSING", b="ENDING")
    monkeypatch.syspath_prepend(str(tmp_path / "p"))
    with pytest.raises(ConfigurationError, match=words), isolating(ChainSettings(admission_control=(name,))):
        pass


def _children() -> list[int]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found
