"""Child processes in process groups of their own, and their end with their parent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pratique.processes.subprocesses import ChildProcess, end_child, start_child
from support.waiting import within

CHILD = """
import os, signal, socket, subprocess, sys
from pratique.processes.parent_death import end_with_parent

service = socket.socket(fileno=int(sys.argv[1]))
order = service.recv(100).decode()
if order == "exit":
    sys.exit(7)
if order == "signal":
    os.kill(os.getpid(), signal.SIGTERM)
if order == "variables":
    service.sendall(",".join(sorted(name for name in os.environ if name.startswith("PRATIQUE"))).encode() or b"-")
if order == "with parent":
    end_with_parent()
    service.sendall(open("/proc/self/oom_score_adj", "rb").read())
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
service.sendall(b" " + str(grandchild.pid).encode() + b"\\n")
grandchild.wait()
"""


@pytest.fixture(name="module", autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "obedient_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return "obedient_child"


def started(module: str, order: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    connection, child_socket = socket.socketpair()
    with child_socket:
        process = start_child(module, child_socket.fileno())
    connection.settimeout(120)
    connection.sendall(order.encode())
    return process, connection


def answer(connection: socket.socket) -> list[str]:
    """What the child printed, the last word of which is the pid of its own child."""
    raw = b""
    while not raw.endswith(b"\n"):
        raw += connection.recv(100)
    return raw.decode().split()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def finish(process: subprocess.Popen[bytes]) -> int:
    code = process.wait(timeout=120)
    assert process.stdin is not None
    process.stdin.close()
    return code


def test_killing_a_child_kills_its_own_children(module: str) -> None:
    process, connection = started(module, "run")
    with connection:
        (grandchild,) = answer(connection)
        end_child(process)
        assert finish(process) == -signal.SIGKILL
    assert within(120, lambda: is_gone(int(grandchild)))


def test_killing_a_child_that_has_ended_does_nothing(module: str) -> None:
    process, connection = started(module, "exit")
    with connection:
        assert finish(process) == 7
        end_child(process)


def test_a_child_gets_none_of_the_services_variables(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRATIQUE_TOKEN_FILE", "/secret")
    process, connection = started(module, "variables")
    with connection:
        assert answer(connection)[0] == "-"
        end_child(process)
        finish(process)


def test_a_child_runs_in_a_process_group_of_its_own(module: str) -> None:
    process, connection = started(module, "run")
    with connection:
        answer(connection)
        assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
        end_child(process)
        finish(process)


def test_a_child_ends_when_its_parent_closes_standard_input_and_goes_first_without_memory(
    module: str,
) -> None:
    process, connection = started(module, "with parent")
    with connection:
        assert answer(connection)[0] == "1000"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=120) == 0


@pytest.mark.parametrize(("order", "code"), [("exit", 7), ("signal", -signal.SIGTERM)])
def test_waiting_for_a_child_returns_its_exit_code_or_signal(module: str, order: str, code: int) -> None:
    async def run() -> tuple[int, int]:
        connection, child_socket = socket.socketpair()
        with connection, child_socket:
            child = ChildProcess(module, child_socket.fileno())
            connection.sendall(order.encode())
            return await child.wait(), await child.wait()

    assert asyncio.run(run()) == (code, code)


def test_a_cancelled_wait_does_not_disturb_another(module: str) -> None:
    async def run() -> int:
        connection, child_socket = socket.socketpair()
        with connection, child_socket:
            child = ChildProcess(module, child_socket.fileno())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(child.wait(), 0.01)
            child.kill()
            return await child.wait()

    assert asyncio.run(run()) == -signal.SIGKILL
