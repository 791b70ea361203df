from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique_cli.supervisor import (
    ServiceCommand,
    ServiceProcess,
    StartError,
    Supervisor,
    exit_text,
    start_service,
)

MUTATOR = ServiceCommand("mutator", ("mutator", "--host", "127.0.0.1"))


async def child_that_runs(code: str, tell: Callable[[str], None]) -> ServiceProcess:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return ServiceProcess(ServiceCommand("test", ()), process, tell)


def run(code: str) -> tuple[int | None, int, list[str]]:
    """Run Python code as a child process; return the port it announced, its exit code and its output lines."""

    async def follow() -> tuple[int | None, int, list[str]]:
        lines: list[str] = []
        child = await child_that_runs(code, lines.append)
        return await child.port(), await child.ended(), lines

    return asyncio.run(follow())


def test_the_ready_line_gives_the_port() -> None:
    line = "pratique: mutator ready on 127.0.0.1:4711"
    assert run(f"print('hello'); print({line!r})") == (4711, 0, ["hello", line])


def test_the_ready_line_of_the_front_door_is_a_url() -> None:
    assert run("print('pratique: frontdoor ready on http://[::1]:8080')")[0] == 8080


def test_a_process_that_ends_early_has_no_port() -> None:
    assert run("raise SystemExit(3)") == (None, 3, [])


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("sys.stdout.write('no end')", ["no end"]),
        ("sys.stdout.buffer.write(b'\\xff\\n')", ["\\xff"]),
        ("sys.stdout.write('a\\n\\nb\\n')", ["a", "", "b"]),
    ],
)
def test_every_output_line_is_forwarded(code: str, lines: list[str]) -> None:
    assert run(f"import sys; {code}")[2] == lines


def test_an_endless_line_does_not_fill_the_memory() -> None:
    lines = run("print('x' * 1_000_000)")[2]
    assert "".join(lines) == "x" * 1_000_000
    assert max(map(len, lines)) <= 3 * (1 << 16)


def test_a_process_that_does_not_drain_is_killed() -> None:
    async def stop() -> int:
        up = asyncio.Event()
        code = (
            "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
        )
        child = await child_that_runs(code, lambda _line: up.set())
        await up.wait()
        await child.stop(0.1)
        return await child.ended()

    assert asyncio.run(stop()) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exited with 0"), (2, "exited with 2"), (-9, "was killed by SIGKILL")]
)
def test_an_exit_is_described_in_words(code: int, text: str) -> None:
    assert exit_text(code) == text


def test_a_service_that_cannot_start_is_not_restarted() -> None:
    lines: list[tuple[str, str]] = []
    service = ServiceCommand("mutator", ("mutator", "--admission-control", "Nobody"))
    keeper = Supervisor(service, 0, lambda name, line: lines.append((name, line)))

    async def start() -> None:
        try:
            await keeper.start()
        finally:
            await keeper.stop()

    with pytest.raises(StartError, match="mutator exited with 2 before it was ready") as failed:
        asyncio.run(start())
    assert failed.value.code == 2
    assert [name for name, line in lines if "Nobody" in line] == ["mutator"]


def test_a_service_that_keeps_failing_is_restarted_with_growing_pauses() -> None:
    lines: list[str] = []

    async def watch() -> int:
        back = asyncio.Event()

        def tell(name: str, line: str) -> None:
            lines.append(f"{name}: {line}")
            if "ready again" in line:
                back.set()

        keeper = Supervisor(MUTATOR, 0, tell)
        port = await keeper.start()
        try:
            for _ in range(2):
                back.clear()
                os.kill(keeper.pid, signal.SIGKILL)
                async with asyncio.timeout(120):
                    await back.wait()
        finally:
            await keeper.stop()
        return port

    port = asyncio.run(watch())
    assert [line for line in lines if "restarting" in line] == [
        "pratique: mutator was killed by SIGKILL; restarting in 0.1 s",
        "pratique: mutator was killed by SIGKILL; restarting in 0.2 s",
    ]
    ready = [line for line in lines if "is process" in line]
    assert len(ready) == 3
    assert all(line.endswith(f" on port {port}") for line in ready)


def test_a_killed_supervisor_leaves_no_process() -> None:
    async def kill() -> int:
        keeper = Supervisor(MUTATOR, 0, lambda _name, _line: None)
        await keeper.start()
        pid = keeper.pid
        await keeper.kill()
        return pid

    pid = asyncio.run(kill())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_services_run_no_modules_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pratique_cli", "msgspec", "click"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('ran a module of the working folder')")
    monkeypatch.chdir(tmp_path)

    async def start() -> int:
        service = await start_service(MUTATOR, 0, lambda _line: None)
        try:
            return await service.port() or 0
        finally:
            await service.stop(30)

    assert asyncio.run(start()) > 0
